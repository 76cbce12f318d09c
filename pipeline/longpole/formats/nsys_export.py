"""Nsight Systems' export, of any version 3: kernels, copies, calls, synchronisations and NVTX ranges of its tables.

SQLite or a folder of Parquet, the tables are the same. One export may hold several processes, each with its own
devices and its own count of correlations. Times are integer nanoseconds since the session began. A table that was not
recorded is missing, and so may any column be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longpole.errors import DumpError
from longpole.events import Device, DumpFacts
from longpole.formats import Sink
from longpole.formats.nsys_payload import COLUMNS, Payloads
from longpole.formats.rows import Rows, count, integers, nonzero, texts, triples
from longpole.formats.tables import Kind, Lookup, Tables
from longpole.formats.times import INT64_MAX

NAME = "nsys"

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_KERNELS, _COPIES, _FILLS = _CUPTI + "KERNEL", _CUPTI + "MEMCPY", _CUPTI + "MEMSET"
_GRAPHS, _CALLS, _SYNCS = _CUPTI + "GRAPH_TRACE", _CUPTI + "RUNTIME", _CUPTI + "SYNCHRONIZATION"
_RECORDS, _RANGES = _CUPTI + "CUDA_EVENT", "NVTX_EVENTS"
_KERNEL_TABLES = (_KERNELS, _GRAPHS)
_DEVICE_TABLES = (*_KERNEL_TABLES, _COPIES, _FILLS)

_NO_ID = 0xFFFF_FFFF  # of a stream or an event: none
_PUSH_POP, _START_END, _MARK = 59, 60, 34  # ENUM_NSYS_EVENT_TYPE
_DRIVER = 1  # ENUM_NSYS_EVENT_CLASS
_STREAM_WAIT = 2
_SYNC_NAMES = {1: "Event Sync", _STREAM_WAIT: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
"""ENUM_CUPTI_SYNC_TYPE, in the words of torch.profiler."""

_COPY_NAMES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
"""ENUM_CUDA_MEMCPY_OPER."""

_MOST_PROCESSES = 64
_MOST_RECORDS = 1 << 22  # event records held to find what a stream waited for
_MOST_FACTS = 4_096  # rows of a table that describes
_CALL_VERSION = re.compile(r"(?:_ptsz|_ptds)?_v\d{4,5}$")
_SEQUENCE = re.compile(r", seq = (\d{1,18})(?!\d)")


def is_read(table: str) -> bool:
    """Return whether anything of a table is read."""
    return table.startswith((_CUPTI, "NVTX_", "TARGET_INFO_")) or table in ("StringIds", "META_DATA_EXPORT")


def is_export(file: Tables) -> bool:
    """Return whether the database has the tables of such an export."""
    return "StringIds" in file.tables and any(t == _RANGES or t.startswith(_CUPTI) for t in file.tables)


def read(file: Tables, path: str, sink: Sink, marker: str | None = None) -> DumpFacts:
    """Hand over all rows and return what else the export says.

    Args:
        file: Its tables.
        path: Its name, for messages.
        sink: Takes the rows.
        marker: The run's own pattern of step markers, where it has one: payloads and domains that it asks for become
            part of their ranges' names.

    Raises:
        DumpError: Its names cannot be looked up, or it has more processes than a machine.
    """
    reading = _Reading(file, path, Rows(sink), marker)
    reading.kernels()
    reading.copies()
    reading.fills()
    reading.graphs()
    reading.calls()
    reading.synchronisations()
    reading.ranges()
    return reading.facts()


@dataclass
class _Reading:
    """One export on its way to rows."""

    file: Tables
    path: str
    rows: Rows
    marker: str | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        found = self.file.lookup("StringIds", [("value", "text")])
        if found is None:
            raise DumpError(
                f"{self.path} is an Nsight Systems export whose table StringIds has no key", "Export it again."
            )
        self._names: Lookup = found
        # One that only copies or fills, as a monitor does, is no rank beside those that compute.
        self._processes = self._processes_in(_KERNEL_TABLES) or self._processes_in(_DEVICE_TABLES)
        self._mask = 0xFF_FFFF  # of a process: its number, and where two machines' are equal all that names it
        if len({p & self._mask for p in self._processes}) < len(self._processes):
            self._mask = (1 << 40) - 1

    def _processes_in(self, tables: tuple[str, ...]) -> set[int]:
        """Return the processes that tables of device work name, as the export numbers them without a thread."""
        found: set[int] = set()
        for table in tables:
            for (ids,) in self.file.batches(table, [("globalPid", "integer")]):
                found.update({(i >> 24) & ((1 << 40) - 1) for i in set(ids) if i is not None})
                if len(found) > _MOST_PROCESSES:
                    raise DumpError(
                        f"{self.path} has device work of more than {_MOST_PROCESSES} processes",
                        "Export the report of one machine.",
                    )
        return found

    def _mine(self, ids: pa.Array, what: str) -> tuple[pa.Array, pa.Array | None]:
        """Return the processes of global ids, and which rows belong to one that is a rank; count the others."""
        whole = pc.bit_wise_and(pc.shift_right(ids, 24), (1 << 40) - 1)
        process = pc.bit_wise_and(whole, self._mask)
        if len(self._processes) == 1:  # what does not say its process is of the only one
            whole = pc.fill_null(whole, *self._processes)
        return process, self.rows.of_ranks(whole, self._processes, what)

    def _batches(self, table: str, *columns: tuple[str, Kind]) -> Iterator[dict[str, list[Any]]]:
        names = [name for name, _ in columns]
        for batch in self.file.batches(table, columns):
            yield dict(zip(names, batch, strict=True))

    def _device_batches(self, table: str, *more: str) -> Iterator[tuple[dict[str, list[Any]], dict[str, Any]]]:
        """Yield the rows of device work and those columns of theirs that all such tables share."""
        shared = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "graphNodeId")
        for batch in self._batches(table, *((name, "integer") for name in (*shared, *more))):
            process, mine = self._mine(integers(batch["globalPid"]), "device work of processes without kernels")
            yield (
                batch,
                {
                    "start": integers(batch["start"]),
                    "end": integers(batch["end"]),
                    "keep": mine,
                    "process": process,
                    "device": integers(batch["deviceId"]),
                    "context": integers(batch["contextId"]),
                    "stream": _known(integers(batch["streamId"])),
                    "correlation_id": nonzero(integers(batch["correlationId"])),
                    "graph_node_id": integers(batch["graphNodeId"]),
                },
            )

    def kernels(self) -> None:
        sizes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        for batch, shared in self._device_batches(_KERNELS, "demangledName", "shortName", "mangledName", *sizes):
            named = self._names.first(batch["demangledName"])
            for other in ("shortName", "mangledName"):
                if None in named:
                    named = [
                        n if n is not None else o for n, o in zip(named, self._names.first(batch[other]), strict=True)
                    ]
            self.rows.add(
                **shared,
                category=_same("kernel", len(batch["start"])),
                name=texts([n if n is not None else "(unnamed kernel)" for n in named]),
                grid=triples(batch["gridX"], batch["gridY"], batch["gridZ"]),
                block=triples(batch["blockX"], batch["blockY"], batch["blockZ"]),
            )

    def copies(self) -> None:
        for batch, shared in self._device_batches(_COPIES, "bytes", "copyKind"):
            names = [f"Memcpy {_COPY_NAMES[k]}" if k in _COPY_NAMES else "Memcpy" for k in batch["copyKind"]]
            self.rows.add(
                **shared,
                category=_same("memcpy", len(batch["start"])),
                name=texts(names),
                n_bytes=integers(batch["bytes"]),
            )

    def fills(self) -> None:
        for batch, shared in self._device_batches(_FILLS, "bytes"):
            self.rows.add(
                **shared,
                category=_same("memset", len(batch["start"])),
                name=_same("Memset (Device)", len(batch["start"])),
                n_bytes=integers(batch["bytes"]),
            )

    def graphs(self) -> None:
        """Hand over graphs that were recorded as a whole: each stands for all that its launch did."""
        n_graphs = 0
        for batch, shared in self._device_batches(_GRAPHS, "graphId"):
            n_graphs += len(batch["start"])
            names = ["CUDA graph" if number is None else f"CUDA graph {number}" for number in batch["graphId"]]
            self.rows.add(**shared, category=_same("kernel", len(batch["start"])), name=texts(names))
        if n_graphs:
            self.notes.append(
                f"{n_graphs:,} launches of CUDA graphs are recorded as one piece of work each, what is communication"
                " in them as compute: nsys profile --cuda-graph-trace=node tells their kernels apart"
            )

    def calls(self) -> None:
        for batch in self._batches(
            _CALLS,
            *(("start", "integer"), ("end", "integer"), ("globalTid", "integer")),
            *(("correlationId", "integer"), ("nameId", "integer"), ("eventClass", "integer")),
        ):
            ids = integers(batch["globalTid"])
            process, mine = self._mine(ids, "calls of processes without kernels")
            names = [n if n is not None else "(unnamed call)" for n in self._names.first(batch["nameId"])]
            drivers = [c == _DRIVER or (n.startswith("cu") and not n.startswith("cuda"))
                       for c, n in zip(batch["eventClass"], names, strict=True)]  # fmt: skip
            self.rows.add(
                start=integers(batch["start"]),
                end=integers(batch["end"]),
                keep=mine,
                category=texts(["driver" if d else "runtime" for d in drivers]),
                name=texts([_CALL_VERSION.sub("", n) for n in names]),
                process=process,
                thread=pc.bit_wise_and(ids, 0xFF_FFFF),
                correlation_id=nonzero(integers(batch["correlationId"])),
            )

    def synchronisations(self) -> None:
        records = self._records()
        columns = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
        for batch in self._batches(_SYNCS, *((n, "integer") for n in (*columns, "syncType", "eventId", "eventSyncId"))):
            n_rows = len(batch["start"])
            ids = integers(batch["globalPid"])
            process, mine = self._mine(ids, "synchronisations of processes without kernels")
            waits = [kind == _STREAM_WAIT for kind in batch["syncType"]]
            stream, correlation = records.of(process, nonzero(integers(batch["eventSyncId"])), pa.array(waits))
            self.rows.add(
                start=integers(batch["start"]),
                end=integers(batch["end"]),
                keep=mine,
                category=_same("sync", n_rows),
                name=texts([_SYNC_NAMES.get(kind, "Sync") for kind in batch["syncType"]]),
                process=process,
                device=integers(batch["deviceId"]),
                context=integers(batch["contextId"]),
                stream=_known(integers(batch["streamId"])),
                correlation_id=nonzero(integers(batch["correlationId"])),
                wait_event_id=_known(integers(batch["eventId"])),
                wait_stream=stream,
                wait_correlation_id=correlation,
            )

    def _records(self) -> _Records:
        """Return where events were recorded, for the waits on them."""
        found = _Records()
        columns = ("globalPid", "eventSyncId", "streamId", "correlationId")
        for batch in self._batches(_RECORDS, *((name, "integer") for name in columns)):
            if not found.add(self._mine_silently(batch["globalPid"]), batch):
                self.notes.append(f"of event records only the first {_MOST_RECORDS:,} are matched with waits")
                break
        return found

    def _mine_silently(self, ids: list[int | None]) -> pa.Array:
        return pc.bit_wise_and(pc.shift_right(integers(ids), 24), self._mask)

    def ranges(self) -> None:
        payloads = Payloads(self.file, self.marker) if self.marker is not None else None
        for batch in self._batches(
            _RANGES,
            *(("start", "integer"), ("end", "integer"), ("eventType", "integer")),
            *(("text", "text"), ("textId", "integer"), ("globalTid", "integer")),
            *(COLUMNS if payloads is not None else ()),
        ):
            ids = integers(batch["globalTid"])
            process, mine = self._mine(ids, "ranges of processes without kernels")
            is_range = pa.array([kind in (_PUSH_POP, _START_END) for kind in batch["eventType"]], pa.bool_())
            others = pc.invert(is_range) if mine is None else pc.and_(mine, pc.invert(is_range))
            if n_others := count(others):
                self.rows.skipped["NVTX marks, and names of threads, domains and categories"] += n_others
            registered = self._names.first(batch["textId"])
            said = [t if t is not None else r for t, r in zip(batch["text"], registered, strict=True)]
            if payloads is not None:
                said = payloads.names(said, batch, self._names.first(batch["jsonTextId"]))
            found = [_operator(text) if text is not None else ("annotation", "(unnamed range)", None) for text in said]
            self.rows.add(
                start=integers(batch["start"]),
                end=integers(batch["end"]),
                keep=is_range if mine is None else pc.and_(mine, is_range),
                category=texts([category for category, _, _ in found]),
                name=texts([name for _, name, _ in found]),
                process=process,
                thread=pc.bit_wise_and(ids, 0xFF_FFFF),
                sequence_id=integers([sequence for _, _, sequence in found]),
            )

    def facts(self) -> DumpFacts:
        """Return what the export says besides its rows."""
        return DumpFacts(
            format=NAME,
            schema=self._schema(),
            base_ns=self._base_ns(),
            host=self._host(),
            devices=self._devices(),
            processes=tuple(sorted({p & self._mask for p in self._processes})),
            notes=(*self.notes, *self._missing()),
            **self.rows.counted(self.file.damage),
        )

    def _missing(self) -> Iterator[str]:
        tables = self.file.tables
        if not tables.intersection(_DEVICE_TABLES):
            yield "no device work was recorded: nsys profile --trace=cuda,nvtx records it"
        elif _CALLS not in tables:
            yield "no calls were recorded, so no launch is known: nsys profile --trace=cuda,nvtx records them"
        if _RANGES not in tables:
            yield "no NVTX ranges were recorded, so there are no steps: nsys profile --trace=cuda,nvtx records them"
        if self._processes and any(not self._has(t, "globalPid") for t in _DEVICE_TABLES if t in tables):
            yield "some device work does not say its process"

    def _has(self, table: str, column: str) -> bool:
        known = self.file.table(table)
        return known is not None and column in known.columns

    def _pairs(self, table: str) -> dict[str, str]:
        columns: list[tuple[str, Kind]] = [("name", "text"), ("value", "text")]
        for names, values in self.file.batches(table, columns):
            return {n: v for n, v in zip(names, values, strict=True) if n is not None and v is not None}
        return {}

    def _schema(self) -> str:
        told = self._pairs("META_DATA_EXPORT")
        version = told.get("EXPORT_SCHEMA_VERSION", "")[:20]
        product = told.get("EXPORT_PRODUCT_VERSION", "")[:20]
        return f"nsys {self.file.holder} {version or 'of an unknown version'}" + (
            f", Nsight Systems {product}" if product else ""
        )

    def _host(self) -> str | None:
        return self._pairs("TARGET_INFO_SYSTEM_ENV").get("Hostname")

    def _base_ns(self) -> int:
        """Return when the session began, 0 where that is not told or would carry a time beyond int64."""
        for (epochs,) in self.file.batches("TARGET_INFO_SESSION_START_TIME", [("utcEpochNs", "integer")]):
            base = next((e for e in epochs if e is not None and e > 0), 0)
            if base + self.rows.last_ns <= INT64_MAX:
                return int(base)
            self.notes.append(f"the session's start {base} would carry the times beyond int64 and is not used")
            break
        return 0

    def _devices(self) -> tuple[Device, ...]:
        described: dict[int, tuple[str, int | None]] = {}
        for batch in self._batches("TARGET_INFO_GPU", ("id", "integer"), ("name", "text"), ("totalMemory", "integer")):
            for number, name, n_bytes in list(zip(*batch.values(), strict=True))[:_MOST_FACTS]:
                if number is not None:
                    described[number] = (name or "", n_bytes)
            break
        chosen: dict[int, int] = {}
        for batch in self._batches("TARGET_INFO_CUDA_DEVICE", ("cudaId", "integer"), ("gpuId", "integer")):
            for cuda, gpu in list(zip(*batch.values(), strict=True))[:_MOST_FACTS]:
                if cuda is not None and gpu in described:
                    chosen.setdefault(cuda, gpu)
            break
        chosen = chosen or {number: number for number in described}
        return tuple(Device(index, *described[gpu]) for index, gpu in sorted(chosen.items()) if 0 <= index < 2**31)


class _Records:
    """Which stream and call recorded each event, by process and the number that ties waits to it."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._n_rows = 0
        self._joined: pa.Table | None = None

    def add(self, process: pa.Array, batch: dict[str, list[Any]]) -> bool:
        """Take some records; return False where they are too many."""
        self._n_rows += len(process)
        if self._n_rows > _MOST_RECORDS:
            return False
        self._tables.append(
            pa.table(
                {
                    "process": process,
                    "sync": nonzero(integers(batch["eventSyncId"])),
                    "stream": _known(integers(batch["streamId"])),
                    "correlation": nonzero(integers(batch["correlationId"])),
                }
            )
        )
        return True

    def of(self, process: pa.Array, sync: pa.Array, is_wait: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return stream and call of the record that each wait obeys, NULL where there is none, or several."""
        nothing = pa.nulls(len(process), pa.int64())
        if not self._tables:
            return nothing, nothing
        if self._joined is None:
            records = pa.concat_tables(self._tables).drop_null()
            grouped = records.group_by(["process", "sync"]).aggregate(
                [("stream", "min"), ("correlation", "min"), ("stream", "count")]
            )
            self._joined = grouped.filter(pc.equal(grouped["stream_count"], 1))
        waits = pa.table(
            {
                "place": pa.array(range(len(process)), pa.int64()),
                "process": process,
                "sync": pc.if_else(is_wait, sync, None),
            }
        )
        found = waits.join(self._joined, ["process", "sync"]).sort_by("place")
        return found["stream_min"].combine_chunks(), found["correlation_min"].combine_chunks()


def _operator(text: str) -> tuple[str, str, int | None]:
    """Return category, name and sequence number of a range's text; torch.autograd.profiler.emit_nvtx adds numbers.

    aten::mm, seq = 17, op_id = 1204, sizes = [[8, 4], [4, 2]]
    """
    ends = [at for key in (", seq = ", ", op_id = ", ", sizes = ") if (at := text.find(key)) > 0]
    if not ends:
        return "annotation", text, None
    name = text[: min(ends)]
    match = _SEQUENCE.match(text, min(ends))
    is_operator = match is not None or "::" in name or name == "record_param_comms"
    return "cpu_op" if is_operator else "annotation", name, int(match[1]) if match else None


def _known(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(values, _NO_ID), None, values)


def _same(text: str, n_rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n_rows), pa.array([text]))
