"""What a night finds under its root: a folder per run, which of its files are new or grown, which are still written.

Nothing is opened here but run.toml: names, sizes and times of files say what there is to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import fsspec

from longpole import config, remote, topology
from longpole.discover import Candidate, find
from longpole.errors import DumpError, LongpoleError, NoDumpsError, UsageError
from longpole.store import Manifest, RankPlace, SeenFile, as_run_name

_LARGEST_CONFIG = 1 << 20
"""Bytes of a run.toml at most: what is larger is none."""


@dataclass(frozen=True)
class Found:
    """A run's folder as it lies there."""

    run: str
    folder: str  # a path, or a URL
    files: tuple[Candidate, ...] = ()  # that may be read
    growing: tuple[Candidate, ...] = ()  # still being written
    error: str = ""  # why nothing of it can be read


@dataclass(frozen=True)
class ToldConfig:
    """A run's run.toml, parsed and as written, and the topology that it names."""

    settings: config.RunConfig
    text: str
    places: tuple[RankPlace, ...] | None


def runs_below(root: str, pattern: str) -> tuple[list[Found], list[str]]:
    """Return the runs under `root`, by name, and the folders that hold no dump.

    A folder that `pattern` matches below the root is a run, named by its path there, with its files at any depth.

    Raises:
        LongpoleError: The root is no folder, or the pattern leaves it or matches no folder.
    """
    try:
        fs, path = fsspec.core.url_to_fs(root)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{root} cannot be opened: {error}", remote.cure_of(error, root)) from error
    fs.invalidate_cache()
    if not root or not fs.isdir(path):
        raise DumpError(f"{root!r} is no folder", "Name the folder that holds a folder for each run.")
    if pattern.startswith("/") or ".." in PurePosixPath(pattern).parts:
        raise UsageError(f"--pattern {pattern!r} leaves {root}", "It is matched below it, as in '*/*'.")
    base = path.rstrip("/")
    matches = sorted(p.rstrip("/") for p in fs.glob(f"{base}/{pattern}") if fs.isdir(p))
    folders = [(str(PurePosixPath(p).relative_to(base)), p) for p in matches if p != base]
    folders = [(name, p) for name, p in folders if not any(part.startswith(".") for part in name.split("/"))]
    if not folders:
        raise DumpError(f"{root} has no folder that matches {pattern!r}", "A run is a folder; --pattern says where.")
    found: dict[str, Found] = {}
    empty: list[str] = []
    for inside, folder in folders:
        url = folder if remote.is_local(root) else str(fs.unstrip_protocol(folder))
        run = as_run_name(inside.replace("/", "."))
        if run in found:
            found[f"{run}?{len(found)}"] = Found(run, url, error=f"{found[run].folder} and {url} are both named {run}")
            continue
        try:
            found[run] = look(Found(run, url))
        except NoDumpsError:
            empty.append(url)
        except LongpoleError as error:
            found[run] = Found(run, url, error=error.fact)
    return [found[key] for key in sorted(found)], empty


def look(run: Found) -> Found:
    """Return the run with the files that its folder holds now.

    Raises:
        LongpoleError: The folder cannot be read, or holds no dump.
    """
    return replace(run, files=tuple(find([run.folder])), growing=())


def settled(
    runs: Sequence[Found], seconds: float, now: Callable[[], float], pause: Callable[[float], None]
) -> list[Found]:
    """Return the runs with files that are still being written set apart.

    A file that was written within the last `seconds` is looked at again when it should be older than that: if its size
    or time has changed by then, somebody writes it. One pause serves all runs.
    """
    young = [_age(f, now()) for run in runs for f in run.files if _age(f, now()) < seconds]
    if not young:
        return list(runs)
    pause(min(seconds, seconds - min(young)))
    return [_looked_at_again(run, seconds, now) for run in runs]


def _looked_at_again(run: Found, seconds: float, now: Callable[[], float]) -> Found:
    if run.error or not any(_age(f, now()) < 2 * seconds for f in run.files):
        return run
    before = set(run.files)
    try:
        again = look(run)
    except LongpoleError as error:
        return replace(run, files=(), error=error.fact)
    growing = tuple(f for f in again.files if f not in before)
    return replace(again, files=tuple(f for f in again.files if f in before), growing=growing)


def _age(file: Candidate, now: float) -> float:
    """Return the seconds since a local file was written; an object of an object store is there whole."""
    if not remote.is_local(file.url):
        return float("inf")
    try:
        return max(0.0, now - float(file.modified))
    except ValueError:
        return float("inf")


def is_unchanged(manifest: Manifest, run: Found, told: ToldConfig) -> bool:
    """Return whether an earlier night dealt with every file of the run as it is, and run.toml says what it said."""
    return (
        set(seen_files(run)) <= set(manifest.seen)
        and told.text in ("", manifest.config)  # a run keeps the run.toml it was given
        and (told.places is None or manifest.topology == told.places)
    )


def seen_files(run: Found) -> tuple[SeenFile, ...]:
    """Return the files of a run as a manifest remembers them."""
    return tuple(sorted(SeenFile(f.name, f.n_bytes, f.modified) for f in run.files))


def config_of(run: Found, default: str | None) -> ToldConfig:
    """Return what the run.toml in the run's folder says, else that of the path `default`.

    What lies beside dumps is not trusted: its topology file is one of its own folder.

    Raises:
        LongpoleError: It cannot be read or is wrong.
    """
    fs, folder = fsspec.core.url_to_fs(run.folder)
    path = f"{folder.rstrip('/')}/run.toml"
    if not fs.isfile(path):
        settings, text = config.load(default)
        named = settings.topology.file
        return ToldConfig(settings, text, topology.load(named, default) if default and named else None)
    try:
        with fs.open(path, "rb") as file:
            raw = file.read(_LARGEST_CONFIG + 1)
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LongpoleError(f"{path} is not UTF-8 text", "Write a run.toml there, or none.") from error
    except remote.failures() as error:
        raise LongpoleError(f"{path} cannot be read: {remote.reason(error)}", "Make it readable.") from error
    if len(raw) > _LARGEST_CONFIG:
        raise LongpoleError(f"{path} is larger than {_LARGEST_CONFIG} bytes", "A run.toml is a page of text.")
    settings = config.parse(text, path)
    return ToldConfig(settings, text, _places(settings.topology.file, path, run))


def _places(named: str | None, path: str, run: Found) -> tuple[RankPlace, ...] | None:
    if named is None:
        return None
    if not remote.is_local(run.folder):
        raise LongpoleError(f"{path}: a topology file beside dumps at a URL is not read", "Give one with --config.")
    folder = Path(run.folder).resolve()
    if not (folder / named).resolve().is_relative_to(folder):
        raise LongpoleError(f"{path}: topology file {named!r} is not in the run's folder", "Put it beside run.toml.")
    return topology.load(named, path)
