"""rocprofv3's rocpd SQLite, schema 3: kernels, copies and host regions, in tables named for their recording.

A process has its own set of tables. What a call did on a device carries the call's number, `stack_id` of their events.
Grids are in work-items; times are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from longpole.errors import DumpError
from longpole.events import Device, DumpFacts
from longpole.formats import Sink
from longpole.formats.rows import Rows, integers, nonzero, texts, triples
from longpole.formats.sqlite_file import SqliteFile
from longpole.formats.tables import Kind, Lookup

NAME = "rocpd"

_STRINGS, _KERNELS, _COPIES, _REGIONS = "rocpd_string", "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_region"
_MOST_RECORDINGS = 64
_AXES = ("x", "y", "z")


def recordings(file: SqliteFile) -> list[str]:
    """Return what the names of each recording's tables end in."""
    ends = (table.removeprefix(_STRINGS) for table in file.tables if table.startswith(_STRINGS))
    return sorted(end for end in ends if {_KERNELS + end, _REGIONS + end} & file.tables)


def read(file: SqliteFile, path: str, sink: Sink) -> DumpFacts:
    """Hand over all kernels, copies and regions, and return what else the file says.

    Raises:
        DumpError: What its rows refer to cannot be looked up, or two recordings are of one process.
    """
    ends = recordings(file)
    if len(ends) > _MOST_RECORDINGS:
        raise DumpError(
            f"{path} has more than {_MOST_RECORDINGS} recordings in it", "Give the files as rocprofv3 wrote them."
        )
    rows = Rows(sink)
    parts = [_Recording(file, path, rows, end) for end in ends]
    for part in parts:
        part.kernels()
    processes = _apart(parts, path)  # one that only copies is no rank beside those that compute
    for part in parts:
        part.copies(processes)
    processes = processes or _apart(parts, path)
    for part in parts:
        part.regions(processes)
    return DumpFacts(
        format=NAME,
        schema="rocprofv3 rocpd 3",
        host=next((host for part in parts if (host := part.host())), None),
        devices=tuple(dict.fromkeys(d for part in parts for d in part.devices())),
        processes=tuple(sorted(processes)),
        **rows.counted(file.damage),
    )


def _apart(parts: list[_Recording], path: str) -> set[int]:
    """Return the processes of all recordings."""
    processes: set[int] = set()
    for part in parts:
        if processes & part.processes:
            raise DumpError(
                f"{path} has two recordings of process {min(processes & part.processes)}",
                "Give the files as rocprofv3 wrote them, one a process.",
            )
        processes |= part.processes
    if len(processes) > _MOST_RECORDINGS:
        raise DumpError(
            f"{path} has device work of more than {_MOST_RECORDINGS} processes", "Record one machine in one file."
        )
    return processes


def is_marker(kind: str) -> bool:
    """Return whether regions of a kind are the user's own, whose name is what they say."""
    return "MARKER" in kind


def call_category(kind: str, name: str) -> str:
    """Return the category of a host's region that is no marker: RCCL's calls launch nothing themselves."""
    is_call = kind.startswith(("HIP", "HSA")) or name.startswith(("hip", "hsa"))
    return "runtime" if is_call else "annotation"


def n_blocks(items: list[int | None], groups: list[int | None]) -> list[int | None]:
    """Return how many blocks a grid of so many work-items has along one axis."""
    return [-(-i // g) if i is not None and g else None for i, g in zip(items, groups, strict=True)]


class _Extra(msgspec.Struct):
    message: str = ""


_extra = msgspec.json.Decoder(_Extra)


@dataclass
class _Recording:
    """The tables of one process on their way to rows."""

    file: SqliteFile
    path: str
    rows: Rows
    end: str
    processes: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._strings = self._lookup(_STRINGS, ("string", "text"))
        self._pids = self._lookup("rocpd_info_process", ("pid", "integer"))
        self._tids = self._lookup("rocpd_info_thread", ("tid", "integer"))
        self._agents = self._lookup("rocpd_info_agent", ("type", "text"), ("type_index", "integer"))
        self._symbols = self._lookup("rocpd_info_kernel_symbol", ("display_name", "text"), ("kernel_name", "text"))
        self._events = self._lookup(
            "rocpd_event", ("stack_id", "integer"), ("category_id", "integer"), ("extdata", "text")
        )

    def _lookup(self, table: str, *columns: tuple[str, Kind]) -> Lookup:
        found = self.file.lookup(table + self.end, columns)
        if found is None:
            raise DumpError(
                f"{self.path} is a rocpd recording whose table {table} is missing or has no key", "Record it again."
            )
        return found

    def _batches(self, table: str, *columns: str) -> Iterator[dict[str, list[Any]]]:
        told: list[tuple[str, Kind]] = [(name, "text" if name == "extdata" else "integer") for name in columns]
        for batch in self.file.batches(table + self.end, told):
            yield dict(zip(columns, batch, strict=True))

    def _device(self, *agents: int | None) -> int | None:
        """Return the index of the first agent that is a GPU."""
        for agent in agents:
            row = self._agents.row(agent)
            if row is not None and row[0] == "GPU":
                return int(row[1]) if row[1] is not None else None
        return None

    def _work(
        self, batch: dict[str, list[Any]], category: str, names: list[str], devices: list[int | None]
    ) -> dict[str, Any]:
        """Return what the columns of kernels and copies share."""
        return {
            "start": integers(batch["start"]),
            "end": integers(batch["end"]),
            "category": texts([category] * len(names)),
            "name": texts(names),
            "process": integers(self._pids.first(batch["pid"])),
            "device": integers(devices),
            "stream": integers(batch["stream_id"]),
            "correlation_id": nonzero(integers(self._events.first(batch["event_id"]))),
        }

    def kernels(self) -> None:
        sizes = [f"{what}_size_{axis}" for what in ("grid", "workgroup") for axis in _AXES]
        shared = ("pid", "agent_id", "kernel_id", "stream_id", "start", "end", "event_id")
        for batch in self._batches(_KERNELS, *shared, *sizes):
            names = [
                (row and (row[0] or row[1])) or "(unnamed kernel)" for row in map(self._symbols.row, batch["kernel_id"])
            ]
            items, groups = ([batch[f"{what}_size_{axis}"] for axis in _AXES] for what in ("grid", "workgroup"))
            blocks = [n_blocks(*pair) for pair in zip(items, groups, strict=True)]
            self.processes.update(p for p in self._pids.first(batch["pid"]) if p is not None)
            self.rows.add(
                **self._work(batch, "kernel", names, [self._device(a) for a in batch["agent_id"]]),
                grid=triples(*blocks),
                block=triples(*groups),
            )

    def copies(self, processes: set[int]) -> None:
        shared = ("pid", "dst_agent_id", "src_agent_id", "name_id", "size", "stream_id", "start", "end", "event_id")
        for batch in self._batches(_COPIES, *shared):
            names = [name or "(unnamed copy)" for name in self._strings.first(batch["name_id"])]
            devices = [self._device(*pair) for pair in zip(batch["dst_agent_id"], batch["src_agent_id"], strict=True)]
            work = self._work(batch, "memcpy", names, devices)
            if not processes:
                self.processes.update(work["process"].drop_null().to_pylist())
            mine = self.rows.of_ranks(work["process"], processes, "copies of processes without kernels")
            self.rows.add(**work, keep=mine, n_bytes=integers(batch["size"]))

    def regions(self, processes: set[int]) -> None:
        for batch in self._batches(_REGIONS, "pid", "tid", "start", "end", "name_id", "event_id", "extdata"):
            process = integers(self._pids.first(batch["pid"]))
            mine = self.rows.of_ranks(process, processes, "regions of processes without kernels")
            found = [
                self._region(*row)
                for row in zip(self._strings.first(batch["name_id"]), batch["event_id"], batch["extdata"], strict=True)
            ]
            is_call = pa.array([category == "runtime" for category, _, _ in found], pa.bool_())
            self.rows.add(
                start=integers(batch["start"]),
                end=integers(batch["end"]),
                keep=mine,
                category=texts([category for category, _, _ in found]),
                name=texts([name for _, name, _ in found]),
                process=process,
                thread=integers(self._tids.first(batch["tid"])),
                correlation_id=nonzero(pc.if_else(is_call, integers([number for _, _, number in found]), None)),
            )

    def _region(self, name: str | None, event: int | None, extra: str | None) -> tuple[str, str, int | None]:
        """Return category, name and call number of a region; what a marker says is in what is stored besides."""
        number, kind, more = self._events.row(event) or (None, None, None)
        told = (self._strings.row(kind) or ("",))[0] or ""
        if is_marker(told):
            return "annotation", _message(extra) or _message(more) or name or "(unnamed)", None
        return call_category(told, name or ""), name or "(unnamed)", number

    def host(self) -> str | None:
        """Return the name of the machine."""
        for (names,) in self.file.batches("rocpd_info_node" + self.end, [("hostname", "text")]):
            return next((name for name in names if name), None)
        return None

    def devices(self) -> Iterator[Device]:
        """Yield the GPUs it describes."""
        columns: list[tuple[str, Kind]] = [
            ("type", "text"), ("type_index", "integer"), ("product_name", "text"), ("name", "text"),
        ]  # fmt: skip
        for batch in self.file.batches("rocpd_info_agent" + self.end, columns):
            for kind, index, product, name in zip(*batch, strict=True):
                if kind == "GPU" and index is not None and 0 <= index < 2**31:
                    yield Device(index, product or name or "")
            break


def _message(extra: str | None) -> str:
    try:
        return _extra.decode(extra).message if extra else ""
    except (msgspec.DecodeError, RecursionError):
        return ""
