"""Which file is which dump: names to files, files to ranks, folders to a run's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import fsspec
from fsspec.utils import get_protocol

from longpole.errors import DumpError, LongpoleError, UsageError

_DUMP_ENDINGS = (".json", ".json.gz", ".json.tmp", ".json.gz.tmp", ".parquet")

_RANK_IN_NAME = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(?:^|[^a-z])rank[-_=.]?(\d{1,7})(?!\d)",
        r"(?i)(?:^|[-_.])(?:worker|gpu|proc|process|local_rank|r)[-_=]?(\d{1,7})(?!\d)",
        r"[-_.](\d{1,7})(?:\.pt)?(?:\.trace)?\.json(?:\.gz)?(?:\.tmp)?$",
    )
)
"""From the surest to the least: a name that says rank, a name that says worker, a number before the ending."""

_DUMP_NAME = re.compile(r"(?i)\.pt\.trace\.json|rank[-_=.]?\d")


@dataclass(frozen=True)
class Candidate:
    """A file that may be a dump."""

    url: str  # opens with fsspec
    name: str  # as a person recognises it
    n_bytes: int
    modified: str  # the file system's own word for when; equal means unchanged
    is_named: bool  # given by name, not found in a folder

    @property
    def looks_like_dump(self) -> bool:
        """Whether its name alone says that it should be one."""
        return self.is_named or _DUMP_NAME.search(PurePosixPath(self.name).name) is not None


def find(dumps: Sequence[str]) -> list[Candidate]:
    """Return the files that the names, folders, patterns and URLs mean, in order of name, each once.

    Raises:
        DumpError: A name means no file, or a folder holds nothing that could be a dump.
    """
    if not dumps:
        raise UsageError("no dumps are given", "Name files, a folder of them, or a URL.")
    found: dict[str, Candidate] = {}
    for given in dumps:
        try:
            fs, path = fsspec.core.url_to_fs(given)
        except (ImportError, ValueError) as error:
            raise UsageError(f"{given} cannot be opened: {error}") from error
        try:
            for candidate in _expand(fs, path, given):
                found.setdefault(candidate.url, candidate)
        except PermissionError as error:
            raise DumpError(f"{given} cannot be read: {error.strerror or error}") from error
    return sorted(found.values(), key=lambda c: c.url)


def _expand(fs: Any, path: str, given: str) -> list[Candidate]:
    if fs.isfile(path):
        return [_candidate(fs, path, given, is_named=True)]
    if fs.isdir(path):
        names = [
            p
            for p in fs.find(path)
            if p.lower().endswith(_DUMP_ENDINGS)
            and PurePosixPath(p).name != "truth.json"
            and not any(part.startswith(".") for part in PurePosixPath(p).parts[len(PurePosixPath(path).parts) :])
        ]
        if not names:
            raise DumpError(
                f"{given} is a folder without dumps",
                f"It holds no file that ends in {', '.join(_DUMP_ENDINGS)}. Name the dumps or their folder.",
            )
        return [_candidate(fs, p, given, is_named=False) for p in names]
    if any(c in given for c in "*?["):
        names = [p for p in fs.glob(path) if fs.isfile(p)]
        if names:
            return [_candidate(fs, p, given, is_named=True) for p in names]
        raise DumpError(f"{given} matches no file", "Quote the pattern, or let the shell expand it.")
    if fs.exists(path):
        raise DumpError(f"{given} is neither a file nor a folder", "A dump is a regular file.")
    raise DumpError(f"{given} does not exist", "Name dumps, a folder of them, or a URL that fsspec knows.")


def _candidate(fs: Any, path: str, given: str, *, is_named: bool) -> Candidate:
    info = fs.info(path)
    url = fs.unstrip_protocol(path)
    name = path if get_protocol(given) in ("file", "local") else url
    modified = str(info.get("mtime") or info.get("LastModified") or info.get("ETag") or info.get("created") or "")
    return Candidate(url, name, int(info.get("size") or 0), modified, is_named)


def rank_from_name(name: str, pattern: str | None = None) -> int | None:
    """Return the rank that a path says: by `pattern` (its first group) on the whole path, else by the usual names.

    Raises:
        LongpoleError: The pattern does not match this path, or does not parse.
    """
    if pattern is not None:
        try:
            match = re.search(pattern, name)
        except re.error as error:
            raise LongpoleError(f"--rank-from {pattern!r} is no regular expression: {error}") from error
        if match is None or not match.groups() or not (match[1] or "").isdigit():
            raise LongpoleError(
                f"--rank-from {pattern!r} finds no rank in {name}",
                "Its first group must match the digits of the rank in every dump's path.",
            )
        return int(match[1])
    parts = PurePosixPath(name).parts
    for part in reversed(parts[-3:]):
        for regex in _RANK_IN_NAME if part == parts[-1] else _RANK_IN_NAME[:1]:
            if match := regex.search(part):
                return int(match[1])
    return None


def run_name(dumps: Sequence[str]) -> str:
    """Return a name for the run that these dumps make: their folder's, else the one file's stem."""
    candidates = [PurePosixPath(re.sub(r"^[a-z0-9+]+://", "", d).rstrip("/")) for d in dumps]
    first = candidates[0]
    is_file = first.name.lower().endswith(_DUMP_ENDINGS) or any(c in first.name for c in "*?[")
    if not is_file:
        name = first.name
    elif len(candidates) == 1 and not any(c in first.name for c in "*?["):
        name = re.sub(r"(?i)(\.pt)?(\.trace)?\.(json|parquet)(\.gz)?(\.tmp)?$", "", first.name)
    else:
        name = first.parent.name
    if name in ("", ".", ".."):
        import os

        name = PurePosixPath(os.path.abspath(dumps[0])).name  # noqa: PTH100  only the working folder has no name of its own
    name = re.sub(r"[^A-Za-z0-9._+=@-]+", "-", name).strip("-._+=@")[:128]
    return name or "run"
