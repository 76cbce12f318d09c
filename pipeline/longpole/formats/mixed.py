"""A block of strict JSON whose values have any types: numbers as text, text where numbers belong, ids beyond int64."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from operator import attrgetter
from types import NoneType
from typing import Any

import msgspec
import pyarrow as pa

from longpole.formats import inputs, times
from longpole.formats.decode import Parsed, stand_in
from longpole.formats.fields import KINETO, MEMORY_NAME
from longpole.formats.layout import Layout

_NULL = msgspec.Raw(b"null")

_INTEGER = re.compile(r"\s*(?:[-+]?[0-9]{1,40}(?:\.0*)?|0[xX][0-9a-fA-F]{1,40})\s*", re.ASCII)
_BEYOND = "Numbers beyond the range of their column, read as NULL"
_NO_NUMBER = "Values that should be numbers and are none, read as NULL"


class _Types:
    """The types that a block of one layout is decoded to."""

    def __init__(self, layout: Layout) -> None:
        self.names = tuple(f"arg{n}" for n in range(len(layout.arg_keys)))
        args: Any = msgspec.defstruct(
            "_Args",
            [
                (name, Any, msgspec.field(default=None, name=key))
                for name, key in zip(self.names, layout.arg_keys, strict=True)
            ],
            gc=False,
        )
        args_or_none: Any = args | None
        event: Any = msgspec.defstruct(
            "_Event",
            [
                *((key, Any, None) for key in ("ph", "cat", "name", "pid", "tid")),
                *((key, msgspec.Raw, _NULL) for key in ("ts", "dur")),
                ("args", args_or_none, None),
            ],
            gc=False,
        )
        self.no_args: Any = args()
        self.events: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[event])


_types = functools.lru_cache(maxsize=4)(_Types)


def parse_mixed(block: memoryview | bytes, layout: Layout = KINETO) -> Parsed:
    """Return the events of a block.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError: It is no strict JSON, or something in it is no event.
        RecursionError: It is nested too deeply.
    """
    types = _types(layout)
    events = types.events.decode(b"".join((b"[", block, b"]")))
    args = [event.args or types.no_args for event in events]
    oddities: Counter[str] = Counter()
    columns: dict[str, pa.Array] = {}
    for name, (_, column, json_type) in zip(types.names, layout.args, strict=False):  # others come behind them
        array = _array(list(map(attrgetter(name), args)), json_type, oddities)
        columns[column] = stand_in(columns[column], array) if column in columns else array
    names = _texts([event.name for event in events])
    n_shapes = len(layout.arg_keys) - len(layout.memory)
    shapes = [list(map(attrgetter(name), args)) for name in types.names[len(layout.args) : n_shapes]]
    columns["inputs"] = inputs.texts_of_values(names, *shapes) if shapes else pa.nulls(len(events), pa.string())
    memory = _memory(events, args, types, layout, oddities)
    process, process_label = _ids([event.pid for event in events], oddities)
    thread, thread_label = _ids([event.tid for event in events], oddities)
    return Parsed(
        phase=_texts([event.ph for event in events]),
        category=_texts([event.cat for event in events]),
        name=names,
        process=process,
        thread=thread,
        process_label=pa.array(process_label, pa.string()),
        thread_label=pa.array(thread_label, pa.string()),
        start=times.from_texts(_written([event.ts for event in events]), layout.digits),
        duration=times.from_texts(_written([event.dur for event in events]), layout.digits),
        args=columns,
        memory=memory,
        oddities=oddities,
    )


def _memory(
    events: list[Any], args: list[Any], types: _Types, layout: Layout, oddities: Counter[str]
) -> tuple[pa.Array, ...]:
    """Return what allocations say; their keys say other things of other events."""
    sizes = [told if event.name == MEMORY_NAME else types.no_args for event, told in zip(events, args, strict=True)]
    names = types.names[len(types.names) - len(layout.memory) :]
    return tuple(
        _array(list(map(attrgetter(name), sizes)), json_type, oddities)
        for name, (_, json_type) in zip(names, layout.memory, strict=True)
    )


def _array(values: list[Any], json_type: pa.DataType, oddities: Counter[str]) -> pa.Array:
    """Return a column of what the events say, NULL where that does not suit it."""
    kinds = set(map(type, values))
    if kinds <= {NoneType}:
        return pa.nulls(len(values), json_type)
    if pa.types.is_string(json_type):
        return _texts(values)
    if kinds <= ({list, NoneType} if pa.types.is_list(json_type) else {int, NoneType}):
        try:
            return pa.array(values).cast(json_type)
        except (pa.ArrowException, OverflowError):
            pass  # one is out of range, or no number
    if pa.types.is_list(json_type):
        return _lists(values, json_type, oddities)
    limit = 1 << (json_type.bit_width - 1)
    return pa.array([_integer(value, limit, oddities) for value in values], json_type)


def _integer(value: Any, limit: int, oddities: Counter[str]) -> int | None:
    """Return the whole number that a value says, or None where that is none from -limit to limit - 1."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        number = int(value, 16) if "x" in value.lower() else int(value.partition(".")[0])
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    else:
        oddities[_NO_NUMBER] += 1
        return None
    if -limit <= number < limit:
        return number
    oddities[_BEYOND] += 1
    return None


def _ids(values: list[Any], oddities: Counter[str]) -> tuple[pa.Array, list[str | None]]:
    """Return process or thread numbers, and the text that stands where there is no number."""
    labels: list[str | None] = [None] * len(values)
    if str in set(map(type, values)):
        labels = [v if isinstance(v, str) and not _INTEGER.fullmatch(v) else None for v in values]
        values = [v if label is None else None for v, label in zip(values, labels, strict=True)]
    return _array(values, pa.int64(), oddities), labels


def _lists(values: list[Any], json_type: pa.DataType, oddities: Counter[str]) -> pa.Array:
    limit = 1 << (json_type.value_type.bit_width - 1)
    lists: list[list[int | None] | None] = []
    for value in values:
        if isinstance(value, list):
            lists.append([_integer(item, limit, oddities) for item in value])
        else:
            lists.append(None)
            oddities[_NO_NUMBER] += value is not None
    return pa.array(lists, json_type)


def _texts(values: list[Any]) -> pa.Array:
    if not set(map(type, values)) <= {str, NoneType}:
        values = [v if isinstance(v, str) or v is None else json.dumps(v, ensure_ascii=False) for v in values]
    return pa.array(values, pa.string())


def _written(raws: list[msgspec.Raw]) -> list[str | None]:
    """Return times as the dump wrote them, without the quotes of those that are text."""
    lines = b"\n".join(raws).decode("utf-8", "replace").split("\n")
    if len(lines) != len(raws):  # one is an object, written on several lines
        lines = [str(memoryview(raw), "utf-8", "replace") for raw in raws]
    return [None if line == "null" else line.strip('"') for line in lines]
