"""Op timelines of pipelined jobs: Parquet of what each worker did in each step, and a YAML file of sizes.

A row is an op of one worker: a pass of a microbatch, a send or receive, a collective, the update. Times are seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from longpole.errors import DumpError
from longpole.formats.parquet_file import DAMAGES, first_line, open_parquet

RAW_OPS = pa.schema(
    [
        ("dp_rank", pa.int64()),
        ("stage", pa.int64()),
        ("rank", pa.int64()),
        ("step", pa.int64()),
        ("optype", pa.string()),
        ("start_s", pa.float64()),  # the dump's start_ts
        ("duration_s", pa.float64()),  # the dump's duration
        ("seq_id", pa.int64()),
        ("mc", pa.int64()),
        ("mb_id", pa.int64()),
        ("gmc", pa.int64()),
    ]
)
"""What the reader hands over; sql/rank/timeline_ops.sql says what the columns mean."""

MOST_OPS = 1 << 27
"""Ops of one timeline: a thousand steps of two thousand workers with sixty ops each."""

_IN_DUMP = {"start_s": "start_ts", "duration_s": "duration"}
_COLUMNS = {_IN_DUMP.get(f.name, f.name): f for f in RAW_OPS}
_BATCH_ROWS = 65_536
_MOST_META_BYTES = 64 << 10
_LARGEST_SIZE = 1 << 20  # of a job, as params.largest_world
_CURE = "An op timeline has the columns " + ", ".join(_COLUMNS) + "; times are seconds."


@dataclass(frozen=True)
class Job:
    """The sizes of a job as its metadata says; None where it does not."""

    trial_name: str | None = None
    dp_size: int | None = None
    pp_size: int | None = None
    tp_size: int | None = None
    dsp_size: int | None = None
    vpp_size: int | None = None
    world_size: int | None = None

    def note(self) -> str:
        """Return them as a sentence for a person."""
        sizes = [(f.name.removesuffix("_size"), getattr(self, f.name)) for f in fields(self) if f.name != "trial_name"]
        told = ", ".join(f"{name} {size}" for name, size in sizes if size is not None)
        return f"its metadata says: {self.trial_name or 'a job without a name'}" + (f", {told}" if told else "")


def is_op_timeline(file: BinaryIO) -> bool:
    """Return whether the file is Parquet with the columns of an op timeline; only its end is read."""
    try:
        names = set(pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False).schema_arrow.names)
    except DAMAGES:
        return False
    return names.issuperset(_COLUMNS)


def read_ops(file: BinaryIO, path: str, sink: Callable[[pa.Table], None]) -> int:
    """Hand over the ops batch by batch as RAW_OPS and return how many rows the file has.

    Raises:
        DumpError: The file is damaged, or a column holds what it cannot.
    """
    try:
        parquet = open_parquet(file)
        if parquet.metadata.num_rows > MOST_OPS:  # a small file may say so, by repeating one value
            raise DumpError(
                f"{path} has {parquet.metadata.num_rows:,} ops; one timeline has {MOST_OPS:,} at most",
                "Record fewer steps, or cut it by steps.",
            )
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=list(_COLUMNS)):
            batch.validate(full=True)  # untrusted: indices out of range, text that is not UTF-8
            arrays = [_cast(batch.column(batch.schema.get_field_index(n)), n, f.type) for n, f in _COLUMNS.items()]
            sink(pa.Table.from_arrays(arrays, schema=RAW_OPS))
    except DAMAGES as error:
        raise DumpError(f"{path} is an op timeline that cannot be read: {first_line(error)}", _CURE) from None
    return int(parquet.metadata.num_rows)


def _cast(column: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            if not pa.types.is_dictionary(column.type):
                raise pa.ArrowTypeError(f"column {name!r} is {column.type}, where text is meant")
            column = column.cast(column.type.value_type)
        return column.cast(kind)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise pa.ArrowTypeError(f"column {name!r} is {column.type}, where numbers are meant")
    if pa.types.is_integer(kind) and pa.types.is_floating(column.type):  # pandas makes numbers with gaps floats
        column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(kind)


def metadata_names(name: str) -> list[str]:
    """Return the names that the metadata of a timeline of this name may have, the likeliest first."""
    stem = PurePosixPath(name).name.removesuffix(".parquet")
    base = re.sub(r"^trace", "meta", stem) if stem.startswith("trace") else f"meta-{stem}"
    return [f"{base}.yaml", f"{base}.yml", "meta.yaml", "meta.yml"]


def read_job(raw: bytes, path: str) -> Job:
    """Return the job that a metadata file describes: one mapping of names to a text and to sizes.

    Raises:
        DumpError: It is no such mapping, or a size is none.
    """
    if len(raw) > _MOST_META_BYTES:
        raise DumpError(f"{path} has more than {_MOST_META_BYTES} bytes, too many for a job's sizes", _META_CURE)
    try:
        loaded: Any = yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError, OverflowError) as error:
        raise DumpError(f"{path} is no YAML: {first_line(error)}", _META_CURE) from None
    if not isinstance(loaded, dict):
        raise DumpError(f"{path} holds no mapping of names to sizes", _META_CURE)
    sizes: dict[str, int | None] = {}
    for field in fields(Job):
        value = loaded.get(field.name)
        if field.name == "trial_name":
            continue
        if value is not None and (type(value) is not int or not 1 <= value <= _LARGEST_SIZE):
            raise DumpError(f"{path} has {field.name}: {str(value)[:40]!r}, which is no size", _META_CURE)
        sizes[field.name] = value
    name = loaded.get("trial_name")
    if name is not None and not isinstance(name, str | int | float):
        raise DumpError(f"{path} has a trial_name that is no text", _META_CURE)
    return Job(None if name is None else str(name)[:128], **sizes)


_META_CURE = "Sizes are whole numbers from 1, as in `dp_size: 4`; or leave the file out, they are for information."
