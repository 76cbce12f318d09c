"""The store: names and partitions under one fsspec URL, published so that no reader sees half of anything.

A file's name holds a hash of what it was made from, so a file, once published, never changes; readers see only what
the run's manifest names, and the manifest is replaced last, in one rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import msgspec
from fsspec.implementations.local import LocalFileSystem

from longpole import __version__
from longpole.errors import LongpoleError, StoreError
from longpole.events import SCHEMA_VERSION

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,127}")


class PublishedFile(msgspec.Struct, frozen=True, order=True):
    """One file that the manifest names."""

    table: str  # events, or a relation's name
    path: str  # below the run's folder
    inputs: str  # hash of what it was made from
    digest: str  # blake2b of its bytes
    n_bytes: int
    n_rows: int
    rank: int | None = None
    first_step: int | None = None
    last_step: int | None = None


class DumpEntry(msgspec.Struct, frozen=True):
    """One dump of a run: what the file says, and the rank made of one of its devices."""

    dump: str  # hash of its content
    path: str
    n_bytes: int
    format: str = ""
    schema: str = ""
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    process: int | None = None
    device_index: int | None = None
    device_name: str | None = None
    n_devices: int = 0
    backend: str | None = None
    process_groups: str | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    n_steps: int = 0
    n_events: int = 0
    n_stored: int = 0
    n_skipped: int = 0
    n_dropped: int = 0
    n_salvaged: int = 0
    n_rounded: int = 0
    n_bad_times: int = 0
    is_truncated: bool = False
    n_lost_bytes: int = 0
    notes: tuple[str, ...] = ()
    verdict: str = "ok"
    error: str | None = None


class Manifest(msgspec.Struct, frozen=True):
    """What a run consists of; nothing else in its folder exists for a reader."""

    run: str
    schema_version: int = SCHEMA_VERSION
    tool_version: str = __version__
    config: str = ""  # run.toml as given
    dumps: tuple[DumpEntry, ...] = ()
    files: tuple[PublishedFile, ...] = ()

    def of(self, table: str) -> tuple[PublishedFile, ...]:
        """Return the files of one table, in order of rank and step."""
        return tuple(
            sorted(
                (f for f in self.files if f.table == table),
                key=lambda f: (f.rank if f.rank is not None else -1, f.first_step or 0, f.path),
            )
        )


def check_run_name(name: str) -> str:
    """Return the name.

    Raises:
        LongpoleError: It would not be safe as a folder's name.
    """
    if not _RUN_NAME.fullmatch(name):
        raise LongpoleError(
            f"{name!r} cannot name a run",
            "A run's name has letters, digits and . _ + = @ - only, begins with a letter or digit, and has at most"
            " 128 characters. Give one with --name.",
        )
    return name


def file_digest(path: Path) -> str:
    """Return blake2b-128 of a local file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def key_of(*parts: Any) -> str:
    """Return a short hash of the parts' text: what a published file was made from."""
    return hashlib.blake2b("\0".join(str(p) for p in parts).encode(), digest_size=8).hexdigest()


class Store:
    """A store at a URL; cheap to make, plain data inside, safe to send to another process."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise StoreError(f"{url} cannot be opened: {error}", "Give a folder or a URL that fsspec knows.") from error
        self.fs = fs
        self.root = root.rstrip("/")

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return (Store, (self.url,))

    @property
    def is_local(self) -> bool:
        """Whether its files can be opened by path."""
        return isinstance(self.fs, LocalFileSystem)

    def path(self, *parts: str) -> str:
        """Return the file system's path of something in the store."""
        return str(PurePosixPath(self.root, *parts))

    def runs(self) -> list[str]:
        """Return the runs that have a manifest, sorted."""
        folder = self.path("runs")
        if not self.fs.isdir(folder):
            return []
        names = (PurePosixPath(entry).name for entry in self.fs.ls(folder, detail=False))
        return sorted(n for n in names if _RUN_NAME.fullmatch(n) and self.fs.isfile(self.path("runs", n, "run.json")))

    def manifest(self, run: str) -> Manifest:
        """Return a run's manifest.

        Raises:
            StoreError: No such run, a damaged manifest, or one that another version of longpole wrote.
        """
        path = self.path("runs", check_run_name(run), "run.json")
        try:
            raw = self.fs.cat_file(path)
        except FileNotFoundError:
            known = ", ".join(self.runs()) or "none"
            raise StoreError(
                f"there is no run {run!r} in {self.url}",
                f"Runs here: {known}. `longpole run DUMPS --name {run}` makes one; --store names another store.",
            ) from None
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
        try:
            version = msgspec.json.decode(raw, type=dict[str, Any]).get("schema_version")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} is damaged: {error}", "Delete the run's folder and ingest its dumps again."
            ) from error
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"run {run!r} has schema version {version}, this longpole reads {SCHEMA_VERSION}",
                "Ingest its dumps again with this version, or use the version that wrote it.",
            )
        try:
            return msgspec.json.decode(raw, type=Manifest)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"{path} is damaged: {error}", "Delete the run's folder and ingest its dumps again."
            ) from error

    def publish(self, manifest: Manifest) -> None:
        """Make `manifest` what readers see of its run, in one step."""
        ordered = msgspec.structs.replace(
            manifest,
            dumps=tuple(sorted(manifest.dumps, key=lambda d: (d.rank is None, d.rank or 0, d.first_ns or 0, d.path))),
            files=tuple(sorted(manifest.files, key=lambda f: (f.table, f.path))),
        )
        raw = msgspec.json.format(msgspec.json.encode(ordered), indent=1)
        if ordered.config:
            self._replace(self.path("runs", ordered.run, "config.toml"), ordered.config.encode())
        self._replace(self.path("runs", ordered.run, "run.json"), raw)

    def put(self, local: Path, run: str, path: str) -> None:
        """Move a finished local file to its place in the run; whole, or not at all."""
        target = self.path("runs", run, path)
        self.fs.makedirs(str(PurePosixPath(target).parent), exist_ok=True)
        if not self.is_local:
            self.fs.put_file(str(local), target)
            local.unlink()
            return
        try:
            local.replace(target)
        except OSError:  # another file system: copy beside the target, then rename
            beside = Path(f"{target}.{uuid.uuid4().hex}.tmp")
            shutil.copyfile(local, beside)
            beside.replace(target)
            local.unlink()

    def move(self, run: str, source: str, target: str) -> None:
        """Move a file inside a run."""
        self.fs.makedirs(str(PurePosixPath(self.path("runs", run, target)).parent), exist_ok=True)
        self.fs.mv(self.path("runs", run, source), self.path("runs", run, target))

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a folder for temporary files, gone afterwards; it is this machine's, never the store's."""
        with tempfile.TemporaryDirectory(prefix="longpole-") as folder:
            yield Path(folder)

    def fetch(self, run: str, paths: list[str], folder: Path) -> list[Path]:
        """Return local paths of published files: where they lie, or copies in `folder`."""
        if self.is_local:
            return [Path(self.path("runs", run, p)) for p in paths]
        local = [folder / p.replace("/", "~") for p in paths]
        for path, target in zip(paths, local, strict=True):
            self.fs.get_file(self.path("runs", run, path), str(target))
        return local

    def sweep(self, manifest: Manifest) -> None:
        """Delete what a run's manifest does not name: left-overs of killed or replaced work. Needs the lock."""
        folder = self.path("runs", manifest.run)
        named = {self.path("runs", manifest.run, f.path) for f in manifest.files}
        kept = {self.path("runs", manifest.run, n) for n in ("run.json", "config.toml", "lock")}
        for path in self.fs.find(folder):
            if path not in named and path not in kept:
                self.fs.rm_file(path)

    @contextlib.contextmanager
    def lock(self, run: str) -> Iterator[None]:
        """Hold a run for writing; readers are never kept out.

        Raises:
            StoreError: Another process holds it; says which, since when, and what to do if it is dead.
        """
        path = self.path("runs", check_run_name(run), "lock")
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        self._take_lock(path, run, msgspec.json.encode(owner))
        try:
            yield
        finally:
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(path)

    def _take_lock(self, path: str, run: str, owner: bytes) -> None:
        try:
            self.fs.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
            for _ in range(2):
                try:
                    with self.fs.open(path, "xb") as file:
                        file.write(owner)
                    return
                except FileExistsError:
                    if not self._is_stale(path):
                        break
                    self.fs.rm_file(path)
        except OSError as error:
            raise StoreError(
                f"{self.url} cannot be written: {error.strerror or error}", "Name a store you may write with --store."
            ) from error
        held = self._owner(path)
        raise StoreError(
            f"run {run!r} is being written by process {held.get('pid', '?')} on {held.get('host', '?')}"
            f" since {held.get('since', '?')}",
            f"Wait for it. If that process is dead, delete {path}.",
        )

    def _owner(self, path: str) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self.fs.cat_file(path), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def _is_stale(self, path: str) -> bool:
        """Whether the lock's owner ran on this machine and is gone; another machine's cannot be judged from here."""
        held = self._owner(path)
        if held.get("host") != socket.gethostname() or not isinstance(held.get("pid"), int):
            return False
        try:
            os.kill(held["pid"], 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False

    def _replace(self, path: str, raw: bytes) -> None:
        self.fs.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
        if not self.is_local:
            self.fs.pipe_file(path, raw)
            return
        beside = Path(f"{path}.{uuid.uuid4().hex}.tmp")
        with beside.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
