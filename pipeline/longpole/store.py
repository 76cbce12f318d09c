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
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.local import LocalFileSystem

from longpole import __version__, remote, scratch
from longpole.errors import LongpoleError, OldRunError, StoreError
from longpole.events import SCHEMA_VERSION
from longpole.lock import hold

EVENT_TABLES = ("events", "memory_events")
"""Tables of what a profiler recorded, one row an event: most of a store, and what is pruned."""

SOURCES = (*EVENT_TABLES, "timeline_ops", "flight_records", "telemetry")
"""Tables whose files are made of dumps themselves; every other is an answer that follows from these."""

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
    shard_width: int = 0  # of a rank's facts: steps of one shard, and which multiples of it have any
    shards: tuple[int, ...] = ()
    shard_digests: tuple[str, ...] = ()  # of each's rows: a rank that records more leaves earlier shards as they are
    ranks: tuple[int, ...] = ()  # of path_pieces: the ranks it speaks of


class DumpEntry(msgspec.Struct, frozen=True):
    """One dump of a run: what the file says, and the rank made of one of its devices."""

    dump: str  # hash of its content
    path: str
    n_bytes: int
    modified: str = ""  # when, in the file system's own words: equal with path and size means unchanged
    format: str = ""
    schema: str = ""
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    process: int | None = None
    device_index: int | None = None
    device_name: str | None = None
    device_memory_bytes: int | None = None
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


class StoredDump(msgspec.Struct, frozen=True):
    """What came of reading a file that has no events: its rows, in the store already, and an entry for each rank."""

    files: tuple[PublishedFile, ...]
    entries: tuple[DumpEntry, ...]


DUMP_GRAIN = "One row per dump file, rank: what the file says and how whole it is."

_DUMP_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("dump", pa.string(), "Hash of the file's content."),
    ("path", pa.string(), "Where the file was read."),
    ("file_name", pa.string(), "Last part of the path."),
    ("format", pa.string(), "Format, by the reader that read it."),
    ("schema", pa.string(), "Generation of the format."),
    ("rank", pa.int32(), "Rank; NULL where the file could not be read."),
    ("world_size", pa.int32(), "Ranks of the job, as the dump says; NULL where it does not."),
    ("host", pa.string(), "Host, as the dump says; NULL where it does not."),
    ("process", pa.int64(), "Process that made the steps."),
    ("device_index", pa.int32(), "Device of the activities; NULL without one."),
    ("device_name", pa.string(), "Its name; NULL where the dump does not say."),
    ("device_memory_bytes", pa.int64(), "Memory that it has; NULL where the dump does not say."),
    ("n_devices", pa.int32(), "Devices that the dump describes."),
    ("process_groups", pa.string(), "Process groups as the dump lists them, JSON; NULL where it does not."),
    ("first_ns", pa.int64(), "Start of the first activity or step marker, on the rank's own clock."),
    ("last_ns", pa.int64(), "End of the last activity or step marker."),
    ("first_step", pa.int64(), "Lowest step number; NULL without steps."),
    ("last_step", pa.int64(), "Highest step number; NULL without steps."),
    ("n_bytes", pa.int64(), "Size of the file."),
    ("n_events", pa.int64(), "Events found: stored, skipped and dropped."),
    ("n_stored", pa.int64(), "Events in the store."),
    ("n_skipped", pa.int64(), "Events left out on purpose: flows, metadata, Python frames."),
    ("n_dropped", pa.int64(), "Events lost: malformed or cut off."),
    ("n_salvaged", pa.int64(), "Events stored after a repair of their bytes."),
    ("n_rounded", pa.int64(), "Events with digits below 1 ns, rounded half up."),
    ("n_bad_times", pa.int64(), "Events with a negative time, without an end or longer than a week: in no number."),
    ("is_truncated", pa.bool_(), "Whether the file lost its end."),
    ("n_lost_bytes", pa.int64(), "Bytes of text lost there."),
    ("notes", pa.list_(pa.string()), "Oddities of the file, a sentence each."),
    ("verdict", pa.string(), 'ok, or the reasons to doubt the file, joined by "; ".'),
    ("error", pa.string(), "Why the file could not be read; NULL where it could."),
)

DUMP_TABLE = pa.schema([pa.field(n, t, metadata={"meaning": m}) for n, t, m in _DUMP_COLUMNS])
"""The `dumps` view; each field's metadata says what it means."""


class RankPlace(msgspec.Struct, frozen=True):
    """Where a rank ran, as a person's topology file says."""

    rank: int
    host: str | None = None
    node: str | None = None
    rack: str | None = None
    rail: str | None = None


class SeenFile(msgspec.Struct, frozen=True, order=True):
    """A file that a night has dealt with: found again like this, it need not be opened."""

    path: str
    n_bytes: int
    modified: str


class Manifest(msgspec.Struct, frozen=True):
    """What a run consists of; nothing else in its folder exists for a reader."""

    run: str
    schema_version: int = SCHEMA_VERSION
    tool_version: str = __version__
    config: str = ""  # run.toml as given
    topology: tuple[RankPlace, ...] = ()  # of the file that it names
    dumps: tuple[DumpEntry, ...] = ()
    files: tuple[PublishedFile, ...] = ()
    analyzed: str = ""  # hash of all that the answers follow from, set once they are all there
    seen: tuple[SeenFile, ...] = ()  # by `longpole nightly`, dumps or not

    def of(self, table: str) -> tuple[PublishedFile, ...]:
        """Return the files of one table, in order of rank and step."""
        return tuple(
            sorted(
                (f for f in self.files if f.table == table),
                key=lambda f: (f.rank if f.rank is not None else -1, f.first_step or 0, f.path),
            )
        )

    def sources(self) -> tuple[PublishedFile, ...]:
        """Return the files that are made of dumps themselves, table by table."""
        return tuple(f for table in SOURCES for f in self.of(table))


def without_events(manifest: Manifest) -> list[DumpEntry]:
    """Return the dumps whose events are gone: pruned. An op timeline and a flight recorder have none."""
    kept = {content_of(f) for f in manifest.sources()}
    return [d for d in manifest.dumps if d.error is None and d.dump not in kept]


def refuse_pruned(manifest: Manifest, what: str) -> None:
    """Refuse `what` of a run that lacks events.

    Raises:
        StoreError: Some were pruned; says how they come back.
    """
    gone = without_events(manifest)
    if gone:
        raise StoreError(
            f"{what} needs the events of run {manifest.run!r}, and those of {len(gone)} of {len(manifest.dumps)} dumps"
            " were pruned",
            "Its answers stay. Events come back by reading the dumps again: longpole ingest DUMPS --name "
            + manifest.run,
        )


def dumps_table(dumps: Sequence[DumpEntry]) -> pa.Table:
    """Return the dumps of a manifest as DUMP_TABLE."""
    rows = [{**msgspec.to_builtins(d), "file_name": PurePosixPath(d.path).name} for d in dumps]
    return pa.Table.from_pylist([{n: r[n] for n in DUMP_TABLE.names} for r in rows], schema=DUMP_TABLE)


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


def as_run_name(text: str) -> str:
    """Return the text as a run may be named: what a name cannot have is a hyphen; `run` where nothing is left."""
    return re.sub(r"[^A-Za-z0-9._+=@-]+", "-", text).strip("-._+=@")[:128] or "run"


def file_digest(path: Path) -> str:
    """Return blake2b-128 of a local file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def content_of(file: PublishedFile) -> str:
    """Return the hash of the dump that a file of SOURCES was made from; before it stands what of it the file holds."""
    return PurePosixPath(file.path).name.split(".")[0 if file.table == "events" else 1]


def key_of(*parts: Any) -> str:
    """Return a short hash of the parts' text: what a published file was made from."""
    text = "\0".join(str(p) for p in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Store:
    """A store at a URL; cheap to make, plain data inside, safe to send to another process."""

    def __init__(self, url: str) -> None:
        try:
            fs, root = fsspec.core.url_to_fs(url)
            if not url:  # would mean the working folder
                raise ValueError("its name is empty")
        except (ImportError, ValueError) as error:
            raise StoreError(f"the store {url!r} cannot be opened: {error}", remote.cure_of(error, url)) from error
        self.fs = fs
        self.root = root.rstrip("/") or fs.root_marker
        # Absolute: a task on a worker has another working folder.
        self.url = self.root if self.is_local else url

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
        self.fs.invalidate_cache()  # another process may have published
        try:
            if not self.fs.isdir(folder):
                return []
            names = [PurePosixPath(entry).name for entry in self.fs.ls(folder, detail=False)]
        except remote.failures() as error:
            raise StoreError(f"{folder} cannot be read: {remote.reason(error)}") from error
        return sorted(n for n in names if _RUN_NAME.fullmatch(n) and self.fs.isfile(self.path("runs", n, "run.json")))

    def manifest(self, run: str) -> Manifest:
        """Return a run's manifest; a folder that a person renamed is a run of that name.

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
        except remote.failures() as error:
            raise StoreError(f"{path} cannot be read: {remote.reason(error)}") from error
        try:
            version = msgspec.json.decode(raw, type=dict[str, Any]).get("schema_version")
            if version == SCHEMA_VERSION:
                return msgspec.structs.replace(msgspec.json.decode(raw, type=Manifest), run=run)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} is damaged: {error}", "Delete the run's folder and ingest its dumps again."
            ) from error
        fact = f"run {run!r} has schema version {version}, this longpole reads {SCHEMA_VERSION}"
        if isinstance(version, int) and version < SCHEMA_VERSION:
            raise OldRunError(fact, f"Make it again of its dumps: longpole run DUMPS --name {run}")
        raise StoreError(fact, "Use the version that wrote it, or a later one.")

    def manifests(self) -> tuple[list[Manifest], dict[str, StoreError]]:
        """Return the manifests of all runs, sorted, and by run why others cannot be read."""
        found: list[Manifest] = []
        wrong: dict[str, StoreError] = {}
        for run in self.runs():
            try:
                found.append(self.manifest(run))
            except StoreError as error:
                wrong[run] = error
        return found, wrong

    def known(self, run: str) -> Manifest | None:
        """Return what there is of a run to go on from: of one that an older version wrote its run.toml alone.

        Raises:
            StoreError: A damaged manifest, or a newer one: it is never replaced.
        """
        if run not in self.runs():
            return None
        try:
            return self.manifest(run)
        except OldRunError:
            try:
                return Manifest(run, config=self.fs.cat_file(self.path("runs", run, "config.toml")).decode())
            except (FileNotFoundError, UnicodeDecodeError):
                return Manifest(run)

    def publish(self, manifest: Manifest) -> None:
        """Make `manifest` what readers see of its run, in one step.

        Raises:
            StoreError: The store cannot be written.
        """
        ordered = msgspec.structs.replace(
            manifest,
            dumps=tuple(sorted(manifest.dumps, key=lambda d: (d.rank is None, d.rank or 0, d.first_ns or 0, d.path))),
            files=tuple(sorted(manifest.files, key=lambda f: (f.table, f.path))),
        )
        raw = msgspec.json.format(msgspec.json.encode(ordered), indent=1)
        with self._writing():
            if ordered.config:
                self._replace(self.path("runs", ordered.run, "config.toml"), ordered.config.encode())
            self._replace(self.path("runs", ordered.run, "run.json"), raw)

    def put(self, local: Path, run: str, path: str) -> None:
        """Move a finished local file to its place in the run; whole, or not at all.

        Raises:
            StoreError: The store cannot be written.
        """
        target = self.path("runs", run, path)
        with self._writing():
            self._make_folder_of(target)
            if not self.is_local:
                self.fs.put_file(str(local), target)
                local.unlink()
                return
            try:
                _settle(local)
                local.replace(target)
            except OSError:  # another file system: copy beside the target, then rename
                with _beside(target) as beside:
                    shutil.copyfile(local, beside)
                local.unlink()

    def whole(self, run: str, files: Iterable[PublishedFile]) -> set[PublishedFile]:
        """Return those of a run's published files that are there with their size; their bytes are not read.

        Raises:
            StoreError: The store cannot be read.
        """
        sizes = {path: told["size"] for path, told in self.listing(run).items()}
        return {f for f in files if sizes.get(f.path) == f.n_bytes}

    def listing(self, run: str, folder: str = "") -> dict[str, dict[str, Any]]:
        """Return what the file system tells of each file below a folder of a run, by its path below the run's.

        Raises:
            StoreError: The store cannot be read.
        """
        self.fs.invalidate_cache()
        listed = self.path("runs", check_run_name(run), folder)
        try:  # as a request for each of a large run's files would take an hour
            found = self.fs.find(listed, detail=True)
        except remote.failures() as error:
            raise StoreError(f"{listed} cannot be read: {remote.reason(error)}") from error
        base = self.fs._strip_protocol(self.path("runs", run))
        return {self.fs._strip_protocol(path).removeprefix(f"{base}/"): told for path, told in found.items()}

    def move(self, run: str, source: str, target: str) -> None:
        """Move a file inside a run.

        Raises:
            StoreError: The store cannot be written.
        """
        with self._writing():
            self._make_folder_of(self.path("runs", run, target))
            self.fs.mv(self.path("runs", run, source), self.path("runs", run, target))

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a folder for temporary files, gone afterwards; it is this machine's, never the store's."""
        with scratch.folder() as folder:
            yield Path(folder)

    def fetch(self, run: str, paths: list[str], folder: Path, rows: remote.StepRange | None = None) -> list[Path]:
        """Return local paths of published files: where they lie, or copies in `folder`.

        Args:
            rows: Copies need to hold these rows alone.

        Raises:
            StoreError: One is gone, though the manifest names it.
        """
        there = [self.path("runs", run, p) for p in paths]
        local = [Path(t) for t in there] if self.is_local else [folder / p.replace("/", "~") for p in paths]
        try:
            if not self.is_local:
                remote.fetch(self.fs, there, local, rows)
            else:
                for path in local:
                    path.stat()
        except FileNotFoundError as error:
            lost = next((path for path in there if not self.fs.exists(path)), there[0])
            raise gone(lost, run) from error
        except remote.failures() as error:
            raise StoreError(f"files of run {run!r} in {self.url} cannot be read: {remote.reason(error)}") from error
        return local

    def discard(self, run: str, folder: str) -> None:
        """Delete a folder of a run that no manifest names, if it is there."""
        with contextlib.suppress(FileNotFoundError), self._writing():
            self.fs.rm(self.path("runs", run, folder), recursive=True)

    def sweep(self, manifest: Manifest) -> None:
        """Delete what a run's manifest does not name: left-overs of killed or replaced work. Needs the lock."""
        self.fs.invalidate_cache()
        folder = self.fs._strip_protocol(self.path("runs", manifest.run))
        kept = {f.path for f in manifest.files} | {"run.json", "lock"} | ({"config.toml"} if manifest.config else set())
        with self._writing():
            for path in self.fs.find(folder):
                if str(PurePosixPath(path).relative_to(folder)) not in kept:
                    self.fs.rm_file(path)

    @contextlib.contextmanager
    def lock(self, run: str) -> Iterator[None]:
        """Hold a run for writing; readers are never kept out.

        Raises:
            StoreError: Another process holds it; says which, since when, and what to do if it is dead.
        """
        path = self.path("runs", check_run_name(run), "lock")
        with self._writing():
            self._make_folder_of(path)
        with contextlib.ExitStack() as stack:
            with self._writing():
                stack.enter_context(hold(self.fs, path, f"run {run!r}"))
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except remote.failures() as error:
            raise StoreError(
                f"{self.url} cannot be written: {remote.reason(error)}",
                "Free space on it, or name a store you may write with --store.",
            ) from error

    def _make_folder_of(self, path: str) -> None:
        """Make the folder of a path; an object store has none, and would make the bucket that a typing error names."""
        if not isinstance(self.fs, AsyncFileSystem):
            self.fs.makedirs(str(PurePosixPath(path).parent), exist_ok=True)

    def _replace(self, path: str, raw: bytes) -> None:
        self._make_folder_of(path)
        if not self.is_local:
            self.fs.pipe_file(path, raw)
            return
        with _beside(path) as beside:
            beside.write_bytes(raw)


def store_at(url: str | None) -> Store:
    """Return the store at a folder or URL, by default $LONGPOLE_STORE, else ./longpole-store.

    Raises:
        StoreError: Nothing can be opened there.
    """
    return Store(url or os.environ.get("LONGPOLE_STORE") or "./longpole-store")


@contextlib.contextmanager
def _beside(target: str) -> Iterator[Path]:
    """Give a name beside `target` that takes its place when all went well, and is gone when not."""
    beside = Path(f"{target}.{uuid.uuid4().hex}.tmp")
    try:
        yield beside
        _settle(beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _settle(path: Path) -> None:
    """Bring a file to the disk before it gets its name: a machine that loses power must not keep names of nothing."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def gone(path: str, run: str) -> StoreError:
    """Return the error for a published file that is not there."""
    return StoreError(
        f"{path} is gone, though the manifest of run {run!r} names it",
        f"Something deleted it. Make it again: longpole analyze {run}; events come back by ingesting their dumps.",
    )
