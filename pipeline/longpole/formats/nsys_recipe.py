"""Nsight Systems' recipe `nvtx_gpu_proj_trace`: NVTX ranges, each with the time its GPU work took, in a Parquet file.

It knows no kernel, stream, launch, size or process group. A range without others inside it stands for its GPU work; one
that names a collective stands for that. Times count from the start of each report: every process has its own clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longpole.errors import DumpError
from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions, Sink
from longpole.formats.canonical import CanonicalReader
from longpole.formats.nsys_folder import table_of
from longpole.formats.parquet_file import DAMAGES, first_line, open_parquet
from longpole.formats.rows import WEEK_NS

_NEEDED = ("Name", "Projected Start", "Projected Duration", "NumGPUOps", "NumChild", "RangeId", "ParentId")
_WELCOME = ("Orig Start", "Orig Duration", "PID", "TID", "Rank")
_BATCH_ROWS = 65_536

_XLA = re.compile(
    r"(?:^|[#,])hlo_op=(all-gather|all-reduce|reduce-scatter|(?:ragged-)?all-to-all|collective-permute"
    r"|collective-broadcast|send|recv)(?:-start)?(?:\.\d+)*(?:[#,]|$)"
)
"""An instruction of XLA's compiler in the text of its range; what only waits for one ends in -done and does no work."""

_NCCL = re.compile(r"(?:^|:)nccl([A-Z]\w*)$")
"""A call of the NCCL library in the text of the range that it marks itself."""

_OPS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "send_recv",
    "collective-broadcast": "broadcast",
    "AllGather": "all_gather",
    "AllReduce": "all_reduce",
    "ReduceScatter": "reduce_scatter",
    "AlltoAll": "all_to_all",
    "AllToAll": "all_to_all",
    "Broadcast": "broadcast",
    "Bcast": "broadcast",
    "Reduce": "reduce",
    "Send": "send",
    "Recv": "recv",
    "send": "send",
    "recv": "recv",
    "GroupEnd": "ncclGroupEnd",  # starts what was called since the group began, whatever that was
}


class NsysRecipeReader:
    """Reads `nvtx_gpu_proj_trace` files, and hands Parquet of any other kind to the reader of canonical events.

    Only the end of a Parquet file says which columns it has.
    """

    name = "nsys-recipe"

    def recognises(self, head: bytes, path: str) -> bool:
        """Return whether the file is Parquet at all; `read` says whose."""
        return head.startswith(b"PAR1")

    def read(self, file: BinaryIO, path: str, sink: Sink, options: ReadOptions) -> DumpFacts:
        """Hand over the ranges, on the device and on the host; return what the file says of them together.

        Raises:
            DumpError: The file cannot be opened, is no such table, or a column holds what it cannot.
        """
        try:
            parquet = open_parquet(file)
            names = set(parquet.schema_arrow.names)
        except DAMAGES:
            names = set()
        if table_of(path) is not None:
            raise DumpError(
                f"{path} is one table of an Nsight Systems export", "Give the folder that nsys export wrote it to."
            )
        if not names.issuperset(_NEEDED):
            file.seek(0)
            return CanonicalReader().read(file, path, sink, options)

        columns = [name for name in (*_NEEDED, *_WELCOME) if name in names]
        counts = _Counts()
        lost: list[str] = []
        n_seen = 0
        try:
            collectives = _collectives(parquet)
            for batch in _batches(parquet, columns, lost):
                n_seen += batch.num_rows
                table = _events(_plain(batch), collectives, counts)
                if table.num_rows:
                    sink(table)
        except DAMAGES as error:
            raise DumpError(
                f"{path} is an nvtx_gpu_proj_trace table with a value that it cannot have: {first_line(error)}",
                "Run the recipe again: nsys recipe nvtx_gpu_proj_trace --input REPORT.nsys-rep",
            ) from None
        n_dropped = counts.n_timeless + parquet.metadata.num_rows - n_seen
        return DumpFacts(
            format=self.name,
            schema="nvtx_gpu_proj_trace",
            n_events=counts.n_stored + counts.n_nameless + n_dropped,
            n_stored=counts.n_stored,
            n_skipped=counts.n_nameless,
            n_dropped=n_dropped,
            n_bad_times=counts.n_bad_times,
            skipped=(("range without a name", counts.n_nameless),) if counts.n_nameless else (),
            samples=(*(("a range without a start or a duration",) if counts.n_timeless else ()), *lost),
            is_truncated=bool(lost),
            notes=counts.notes(),
        )


@dataclass
class _Counts:
    n_stored: int = 0
    n_nameless: int = 0
    n_timeless: int = 0
    n_bad_times: int = 0
    n_operations: int = 0
    n_operations_outside: int = 0
    n_operations_in_device_rows: int = 0
    n_several: int = 0
    reports: set[int] = field(default_factory=set)

    def notes(self) -> tuple[str, ...]:
        """Return what a person should know before reading numbers."""
        hidden = self.n_operations - self.n_operations_in_device_rows
        return (
            "NVTX ranges projected onto the device stand in for kernels: copies count as compute, streams, launches and"
            " message sizes are unknown",
            *([f"in {self.n_several} ranges there are several GPU operations: time between them counts as theirs"]
              if self.n_several else []),
            *([f"{hidden} GPU operations are inside a range but in none of the ranges within it: they are no events"]
              if hidden > 0 else []),
            *([f"{self.n_operations_outside} GPU operations are in no range"] if self.n_operations_outside else []),
            *([f"{len(self.reports)} reports in one table"] if len(self.reports) > 1 else []),
        )  # fmt: skip


def _batches(parquet: pq.ParquetFile, columns: list[str], lost: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows up to the first damage, and put into `lost` what it is."""
    batches = parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns)
    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)  # untrusted: indices out of range, text that is not UTF-8
        except DAMAGES as error:
            lost.append(first_line(error))
            return
        yield batch


def _collectives(parquet: pq.ParquetFile) -> pa.Array:
    """Return the ids of ranges that name a collective: what is within them is part of it."""
    found = [pa.array([], pa.int64())]
    for batch in _batches(parquet, ["Name", "RangeId"], []):
        columns = _plain(batch)
        found.append(columns["RangeId"].filter(pc.is_valid(_ops(columns["Name"]))))
    return pa.concat_arrays(found).drop_null()


def _plain(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns as text and int64, absent ones as NULL; pandas makes numbers with gaps floats."""
    columns: dict[str, pa.Array] = {}
    for name in (*_NEEDED, *_WELCOME):
        kind = pa.string() if name == "Name" else pa.int64()
        if batch.schema.get_field_index(name) < 0:
            columns[name] = pa.nulls(batch.num_rows, kind)
            continue
        column = batch.column(name)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        columns[name] = column.cast(kind)
    return columns


def _ops(names: pa.Array) -> pa.Array:
    """Return the collective that each name says, NULL for none."""
    coded = names.dictionary_encode()
    return pa.array([_op(name) for name in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def _op(name: str) -> str | None:
    match = _XLA.search(name) or _NCCL.search(name)
    return _OPS.get(match[1]) if match else None


def _events(columns: dict[str, pa.Array], collectives: pa.Array, counts: _Counts) -> pa.Table:
    """Return the device's and the host's events of some ranges, and add to `counts`."""
    name, op, n_operations = columns["Name"], _ops(columns["Name"]), pc.fill_null(columns["NumGPUOps"], 0)
    is_named = pc.is_valid(name)
    is_leaf = pc.equal(pc.fill_null(columns["NumChild"], 0), 0)
    is_part = pc.is_in(columns["ParentId"], value_set=collectives)
    is_work = pc.and_(pc.or_(is_leaf, pc.is_valid(op)), pc.invert(is_part))

    device = _part(
        category=pc.if_else(is_work, "kernel", "gpu_annotation"),
        name=name,
        start_ns=columns["Projected Start"],
        duration_ns=columns["Projected Duration"],
        # One report is one process: what tells reports of one table apart keeps their clocks apart.
        device=pc.if_else(is_work, pc.fill_null(columns["Rank"], 0), None),
        comm_op=pc.if_else(is_work, op, None),
    )
    host = _part(
        category=pa.repeat("annotation", len(name)),
        name=name,
        start_ns=columns["Orig Start"],
        duration_ns=columns["Orig Duration"],
        process=columns["PID"],
        thread=columns["TID"],
    )
    device = device.filter(is_named)
    timed = device.filter(pc.and_(pc.is_valid(device["start_ns"]), pc.is_valid(device["duration_ns"])))
    host = host.filter(pc.and_(is_named, pc.is_valid(columns["Orig Start"])))
    table = pa.concat_tables([timed, host])

    counts.n_stored += table.num_rows
    counts.n_nameless += len(name) - device.num_rows
    counts.n_timeless += device.num_rows - timed.num_rows
    counts.n_bad_times += _sum(
        pc.or_(
            pc.less(table["start_ns"], 0),
            pc.fill_null(pc.or_(pc.less(table["duration_ns"], 0), pc.greater(table["duration_ns"], WEEK_NS)), False),
        )
    )
    is_root = pc.and_(is_named, pc.is_null(columns["ParentId"]))
    counts.n_operations += _sum(n_operations.filter(is_root))
    counts.n_operations_outside += _sum(n_operations.filter(pc.invert(is_named)))
    mine = n_operations.filter(pc.and_(is_named, is_work))
    counts.n_operations_in_device_rows += _sum(mine)
    counts.n_several += _sum(pc.greater(mine, 1))
    counts.reports.update(pc.unique(columns["Rank"].drop_null()).to_pylist())
    return table


def _part(**columns: Any) -> pa.Table:
    """Return rows of RAW_SCHEMA with these columns; all others are NULL."""
    n_rows = len(columns["name"])
    arrays = [
        columns[f.name].cast(pa.string()).dictionary_encode().cast(f.type)
        if f.name in columns and pa.types.is_dictionary(f.type)
        else columns[f.name].cast(f.type)
        if f.name in columns
        else pa.nulls(n_rows, f.type)
        for f in RAW_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)


def _sum(values: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)
