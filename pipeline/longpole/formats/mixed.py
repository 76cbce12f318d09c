"""A block of strict JSON whose values have any types: numbers as text, text where numbers belong, ids beyond int64."""

from __future__ import annotations

import json
import re
from collections import Counter
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from longpole.formats import fields, times
from longpole.formats.decode import Parsed, stand_in

_NAMES = tuple(f"arg{n}" for n in range(len(fields.ARG_FIELDS)))
_Args: Any = msgspec.defstruct(
    "_Args",
    [
        (name, Any, msgspec.field(default=None, name=key))
        for name, (key, _, _) in zip(_NAMES, fields.ARG_FIELDS, strict=True)
    ],
    gc=False,
)
_NO_ARGS = _Args()
_NULL = msgspec.Raw(b"null")

_INTEGER = re.compile(r"\s*(?:[-+]?[0-9]{1,40}(?:\.0*)?|0[xX][0-9a-fA-F]{1,40})\s*", re.ASCII)
_BEYOND = "numbers do not fit their column and are read as NULL"
_NO_NUMBER = "values that should be numbers are none and are read as NULL"


class _Event(msgspec.Struct, gc=False):
    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = _NULL
    dur: msgspec.Raw = _NULL
    args: _Args | None = None


_events = msgspec.json.Decoder(list[_Event])


def parse_mixed(block: memoryview | bytes) -> Parsed:
    """Return the events of a block.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError: It is no strict JSON, or something in it is no event.
        RecursionError: It is nested too deeply.
    """
    events = _events.decode(b"".join((b"[", block, b"]")))
    args = [event.args or _NO_ARGS for event in events]
    oddities: Counter[str] = Counter()
    columns: dict[str, pa.Array] = {}
    for name, (_, column, json_type) in zip(_NAMES, fields.ARG_FIELDS, strict=True):
        array = _array(list(map(attrgetter(name), args)), json_type, oddities)
        columns[column] = stand_in(columns[column], array) if column in columns else array
    process, process_label = _ids([event.pid for event in events], oddities)
    thread, thread_label = _ids([event.tid for event in events], oddities)
    labels = [a if b is None else b for a, b in zip(thread_label, process_label, strict=True)]
    return Parsed(
        phase=_texts([event.ph for event in events]),
        category=_texts([event.cat for event in events]),
        name=_texts([event.name for event in events]),
        process=process,
        thread=thread,
        label=pa.array(labels, pa.string()),
        start=times.from_texts([_written(event.ts) for event in events]),
        duration=times.from_texts([_written(event.dur) for event in events]),
        args=columns,
        oddities=oddities,
    )


def _array(values: list[Any], json_type: pa.DataType, oddities: Counter[str]) -> pa.Array:
    if pa.types.is_string(json_type):
        return _texts(values)
    if pa.types.is_list(json_type):
        return _lists(values, json_type, oddities)
    return _integers(values, json_type, oddities)


def _integers(values: list[Any], json_type: pa.DataType, oddities: Counter[str]) -> pa.Array:
    if all(type(value) is int or value is None for value in values):
        try:
            return pa.array(values, json_type)
        except (pa.ArrowException, OverflowError):
            pass  # one is out of range
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
    labels = [value if isinstance(value, str) and not _INTEGER.fullmatch(value) else None for value in values]
    numbers = [None if isinstance(value, str) and label is not None else value for value, label in zip(values, labels, strict=True)]
    return _integers(numbers, pa.int64(), oddities), labels


def _lists(values: list[Any], json_type: pa.DataType, oddities: Counter[str]) -> pa.Array:
    limit = 1 << (json_type.value_type.bit_width - 1)
    lists = [
        [_integer(item, limit, oddities) for item in value] if isinstance(value, list) else None for value in values
    ]
    oddities[_NO_NUMBER] += sum(value is not None and not isinstance(value, list) for value in values)
    return pa.array(lists, json_type)


def _texts(values: list[Any]) -> pa.Array:
    return pa.array(
        [value if isinstance(value, str) or value is None else _shown(value) for value in values], pa.string()
    )


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _written(raw: msgspec.Raw) -> str | None:
    """Return a time as the dump wrote it, without its quotes if it had any."""
    text = str(memoryview(raw), "utf-8", "replace")
    return None if text == "null" else text.strip('"')
