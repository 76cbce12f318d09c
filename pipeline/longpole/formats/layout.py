"""Where a trace event says what: keys of its arguments as columns, what it is, and the unit of its times.

The reader of trace events is one; a profiler is a layout. PyTorch's is `kineto.KINETO`, a run.toml may tell another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa

from longpole.events import RAW_SCHEMA
from longpole.formats import inputs

Field = Literal["cat", "name", "pid", "tid"]
"""What a rule looks at; a number as its digits, what is missing as an empty text."""

RANK = "rank"
"""A column beside those of RAW_SCHEMA: the rank that an event says it is of."""


def json_type(column: str) -> pa.DataType:
    """Return the type in which a column of RAW_SCHEMA is read from JSON: its own, with plain text for dictionaries."""
    if column == RANK:
        return pa.int64()
    declared = RAW_SCHEMA.field(column).type
    return pa.string() if pa.types.is_dictionary(declared) else declared


@dataclass(frozen=True)
class Rule:
    """What events are whose fields match all the patterns."""

    category: str
    patterns: tuple[tuple[Field, str], ...]


@dataclass(frozen=True)
class Layout:
    """How one kind of trace events is read."""

    name: str  # of the format
    args: tuple[tuple[str, str, pa.DataType], ...]  # key, column, JSON type; a later key stands in for an earlier one
    category: Callable[[str], str]  # of a spelling
    inputs: inputs.Keys | None = None
    memory: tuple[tuple[str, pa.DataType], ...] = ()  # key and JSON type of what an allocation says, as KINETO has them
    rules: tuple[Rule, ...] = ()  # the first that fits says what an event is, before its spelling
    from_ids: tuple[tuple[str, Field], ...] = ()  # column, and the id that stands in for it on a device's rows
    rank_path: tuple[str, ...] = ()  # keys around the events, from the outermost object on
    is_rank_pid: bool = False
    has_halves: bool = False  # a begin and its end are an event, too
    digits: int = 3  # that the unit of ts and dur has more than a nanosecond: 3 for microseconds

    @property
    def arg_keys(self) -> tuple[str, ...]:
        """The keys of "args" that are read, behind those of `args` those of shapes and of allocations."""
        shapes = self.inputs.all if self.inputs else ()
        return (*(key for key, _, _ in self.args), *shapes, *(key for key, _ in self.memory))

    @cached_property
    def schemas(self) -> dict[tuple[bool, bool], pa.Schema]:
        """The columns of a block as the JSON engine reads it, by whether shapes are in quotes and allocations there.

        Keys that are not there take time too.
        """
        return {
            (is_shaped, has_memory): self._schema(
                inputs.ARG_TYPES if is_shaped else inputs.ARG_TYPES[:1], self.memory if has_memory else ()
            )
            for is_shaped in (False, True)
            for has_memory in (False, True)
        }

    @property
    def decimal(self) -> pa.DataType:
        """The type of ts and dur: what it holds, times 10 ** digits, fits 128 bits."""
        return pa.decimal128(28, 10 if self.digits else 4)

    def _schema(self, kinds: tuple[pa.DataType, ...], memory: tuple[tuple[str, pa.DataType], ...]) -> pa.Schema:
        shapes = [(key, kind) for key, kind in zip(self.inputs.first, kinds, strict=False)] if self.inputs else []
        event = [
            ("ph", pa.string()),
            ("cat", pa.string()),
            ("name", pa.string()),
            ("pid", pa.int64()),
            ("tid", pa.int64()),
            ("ts", self.decimal),
            ("dur", self.decimal),
            ("args", pa.struct([*((key, kind) for key, _, kind in self.args), *shapes, *memory])),
        ]
        return pa.schema([("e", pa.list_(pa.struct(event)))])
