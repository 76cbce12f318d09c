"""Which file is which dump: names to files, files to ranks, folders to a run's name."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from longpole import remote
from longpole.errors import DumpError, LongpoleError, NoDumpsError, UsageError
from longpole.formats import nsys_folder
from longpole.store import as_run_name

_DATABASES = (".sqlite", ".sqlite3", ".db", ".rpd", ".sqlite.gz", ".db.gz", ".rpd.gz")
_REPORTS = (".nsys-rep", ".qdrep")  # cannot be read, but what to do about one is worth saying
_DUMP_ENDINGS = (".json", ".json.gz", ".json.tmp", ".json.gz.tmp", ".jsonl", ".jsonl.gz", ".parquet", *_DATABASES)
_TELEMETRY = (".csv", ".csv.gz")

_FLIGHT_NAME = re.compile(r"(?i)(?:^|[-_])(?:rank|nccl_trace|fr_trace)[-_]?\d{1,7}(?:\.(?:pkl|pickle))?$")
"""A flight recorder's dumps have no ending: the writer puts the rank behind a prefix, by default nccl_trace_rank_."""

_TRUTH = "truth.json"  # the answers that `longpole synth` writes beside its dumps

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_WILDCARDS = "*?["

_ENDING = r"(?:(?:\.pt)?(?:\.trace)?\.(?:jsonl?|parquet|sqlite3?|db|rpd)(?:\.gz)?(?:\.tmp)?|_pqtdir)$"
"""What stands behind a dump's own name."""

_RANK_IN_NAME = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(?:^|[^a-z])rank[-_=.]?(\d{1,7})(?!\d)",
        r"(?i)(?:^|[-_.])(?:worker|gpu|proc|process)[-_=]?(\d{1,7})(?!\d)",
        # Not the last part of a date, of a time or of HOST_PROCESS.TIME, and not a count of steps.
        r"(?i)(?:^|(?<!\d)(?<!ranks)(?<!step)(?<!steps)(?<!iter)(?<!iteration)(?<!epoch)(?<!batch)[-_.]|[-_.]r)(\d{1,7})"
        + _ENDING,
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
    parts: tuple[str, ...] = ()  # of a dump of several files, theirs; `url` is one of them, `name` their folder

    @property
    def looks_like_dump(self) -> bool:
        """Whether its name alone says that it should be one."""
        name = PurePosixPath(self.name).name
        return self.is_named or (_DUMP_NAME.search(name) is not None and not name.lower().endswith(_REPORTS))


def find(dumps: Sequence[str]) -> list[Candidate]:
    """Return the files that the names, folders, patterns and URLs mean, in order of name, each once.

    Raises:
        DumpError: A name means no file; NoDumpsError: a folder holds nothing that could be a dump.
    """
    if not dumps:
        raise UsageError("no dumps are given", "Name files, a folder of them, or a URL.")
    if not all(dumps):  # would mean the working folder
        raise UsageError("a name of a dump is empty", "Name files, a folder of them, or a URL.")
    found: dict[str, Candidate] = {}
    for given in dumps:
        _refuse_chain(given)
        try:
            fs, path = fsspec.core.url_to_fs(given)
        except (ImportError, ValueError) as error:
            raise UsageError(f"{given} cannot be opened: {error}", remote.cure_of(error, given)) from error
        fs.invalidate_cache()  # dumps are still being written
        try:
            for candidate in _expand(fs, path, given):
                _refuse_chain(candidate.url)
                found.setdefault(candidate.url, candidate)
        except remote.failures() as error:
            name = getattr(error, "filename", None) or given
            raise DumpError(f"{name} cannot be read: {remote.reason(error)}", "Make it readable.") from error
    return sorted(_joined(found.values()), key=lambda c: c.url)


def _joined(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the files, those that are the tables of one export as one dump."""
    by_folder: dict[str, list[Candidate]] = {}
    for candidate in found:
        is_table = nsys_folder.table_of(candidate.url) is not None
        by_folder.setdefault(candidate.url.rpartition("/")[0] if is_table else "", []).append(candidate)
    yield from by_folder.pop("", [])
    for tables in by_folder.values():
        texts = next((c for c in tables if nsys_folder.table_of(c.url) == nsys_folder.TEXTS), None)
        if texts is None:  # single tables, which reading refuses
            yield from tables
            continue
        tables.sort(key=lambda c: c.url)
        yield Candidate(
            texts.url,
            texts.name.rpartition("/")[0],
            sum(c.n_bytes for c in tables),
            _modified(tables),
            any(c.is_named for c in tables),
            tuple(c.url for c in tables),
        )


def _modified(files: Sequence[Candidate]) -> str:
    """Return the latest time that one was written, where times are told, else a hash of what is told of all."""
    try:
        return max((c.modified for c in files), key=float)
    except ValueError:
        state = "\n".join(f"{c.url} {c.n_bytes} {c.modified}" for c in files)
        return hashlib.blake2b(state.encode(), digest_size=16).hexdigest() if all(c.modified for c in files) else ""


def _refuse_chain(name: str) -> None:
    if "::" in name and (Path(name).exists() or name.startswith("file://")):
        raise DumpError(f"{name} has '::' in its name, which joins file systems in a URL", "Rename it.")


def _expand(fs: Any, path: str, given: str) -> list[Candidate]:
    if fs.isfile(path):
        return [_candidate(fs, path, fs.info(path), is_named=True)]
    if fs.isdir(path):
        found = [_candidate(fs, p, info, is_named=False) for p, info in _files_below(fs, path)]
        if not found:
            raise NoDumpsError(
                f"{given} is a folder without dumps",
                f"It holds no file that ends in {', '.join(_DUMP_ENDINGS)}. Name the dumps or their folder.",
            )
        return found
    if any(c in given for c in _WILDCARDS):
        hides = not PurePosixPath(given).name.startswith(".")
        matches = [p for p in fs.glob(path) if not _is_left_out(PurePosixPath(p).name, hides)]
        found = [_candidate(fs, p, fs.info(p), is_named=True) for p in matches if fs.isfile(p)]
        for folder in (p for p in matches if fs.isdir(p)):
            found += [_candidate(fs, p, info, is_named=False) for p, info in _files_below(fs, folder)]
        if found:
            return found
        raise DumpError(f"{given} matches no file", "Quote the pattern, or let the shell expand it.")
    if fs.exists(path):
        raise DumpError(f"{given} is neither a file nor a folder", "A dump is a regular file.")
    raise DumpError(f"{given} does not exist", "Name dumps, a folder of them, or a URL that fsspec knows.")


def _files_below(fs: Any, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the files of a folder, at any depth, that have a dump's ending; links to folders are not followed."""
    depth = len(PurePosixPath(folder).parts)
    is_local = isinstance(fs, LocalFileSystem)
    listed: Iterable[tuple[str, dict[str, Any]]]
    listed = ((p, {}) for p in _local_names(folder)) if is_local else fs.find(folder, detail=True).items()
    for path, info in listed:
        inside = PurePosixPath(path).parts[depth:]
        is_dump = path.lower().endswith((*_DUMP_ENDINGS, *_TELEMETRY, *_REPORTS)) or _FLIGHT_NAME.search(inside[-1])
        if not is_dump or any(_is_left_out(part, True) for part in inside):
            continue
        if not is_local:
            yield path, info
        elif Path(path).is_file():  # a pipe or a device never ends, and a link may point to one, or to nothing
            yield path, fs.info(path)


def _local_names(folder: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    for base, _, names in os.walk(folder, onerror=fail):
        yield from (f"{base}/{name}" for name in names)


def _is_left_out(name: str, hides: bool) -> bool:
    return name == _TRUTH or (hides and name.startswith("."))


def _candidate(fs: Any, path: str, info: dict[str, Any], *, is_named: bool) -> Candidate:
    url = fs.unstrip_protocol(path)
    # A name need not be text, nor one line: what is none travels as an escape, for errors, manifests and pages show it.
    name = (path if isinstance(fs, LocalFileSystem) else url).encode("utf-8", "backslashreplace").decode()
    name = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), name)
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
        if match is None or not match.groups() or not re.fullmatch(r"[0-9]{1,9}", match[1] or ""):
            raise LongpoleError(
                f"--rank-from {pattern!r} finds no rank in {name}",
                "Its first group must match the digits of the rank, nine at most, in every dump's path.",
            )
        return int(match[1])
    parts = PurePosixPath(name).parts
    for part in reversed(parts[-3:]):
        for regex in _RANK_IN_NAME if part == parts[-1] else _RANK_IN_NAME[:1]:
            if match := regex.search(part):
                return int(match[1])
    return None


def run_name(dumps: Sequence[str]) -> str:
    """Return a name for the run that these dumps make: their common folder's, else the one file's stem."""
    plain = [re.sub(r"^[a-z0-9+]+://", "", d).rstrip("/") or "/" for d in dumps]
    if len(plain) == 1 and _is_file_name(plain[0]):
        name = re.sub(rf"(?i){_ENDING}", "", PurePosixPath(plain[0]).name)
    else:
        folders = [os.path.abspath(_folder_of(p)) for p in plain]  # noqa: PTH100  links keep their own name
        name = PurePosixPath(os.path.commonpath(folders)).name
    return as_run_name(name)


def _is_file_name(path: str) -> bool:
    return path.lower().endswith(_DUMP_ENDINGS) and not any(c in path for c in _WILDCARDS)


def _folder_of(path: str) -> str:
    """Return the folder that a name means, up to its first part with a wildcard."""
    parts = PurePosixPath(path).parts
    wild = next((n for n, part in enumerate(parts) if any(c in part for c in _WILDCARDS)), None)
    if wild is not None:
        return str(PurePosixPath(*parts[:wild]))
    return str(PurePosixPath(path).parent) if _is_file_name(path) else path
