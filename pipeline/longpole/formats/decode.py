"""A block of events becomes rows: one JSON engine for the whole, an explicit schema, no Python object per event."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from longpole.events import RAW_SCHEMA
from longpole.formats import fields, inputs, times
from longpole.formats.fields import KINETO
from longpole.formats.layout import RANK, Field, Layout
from longpole.formats.rows import WEEK_NS
from longpole.formats.tally import Decoded, Tally
from longpole.formats.times import Mask, Times

LONGEST_TEXT = 64 << 10
"""Characters of one name; what is longer is cut and noted."""

_ON_DEVICE = ("kernel", "memcpy", "memset", "sync", "gpu_annotation")
_LARGEST_RANK = 9_999_999  # no job has as many processes
MOST_RANKS = 64
"""Ranks in one dump; one more is kept, so that too many are seen."""

_Number = TypeVar("_Number", np.int64, np.bool_)

_NO_TEXT = pa.array([], pa.string())

_MEMORY = f'"{fields.MEMORY_NAME}"'.encode()


@dataclass
class Parsed:
    """The events of one block as columns of equal length, before it is decided which of them are stored."""

    phase: pa.Array  # text, like the next two
    category: pa.Array
    name: pa.Array
    process: pa.Array  # int64, like the next
    thread: pa.Array
    start: Times
    duration: Times
    args: dict[str, pa.Array]  # by column; `layout.json_type`
    memory: tuple[pa.Array, ...] = ()  # of `layout.memory`; none where no event can be an allocation
    process_label: pa.Array | None = None  # the pid where it is text, like the next
    thread_label: pa.Array | None = None
    is_shaped: bool = False  # some tell the types of their inputs, and so their shapes
    is_salvaged: Mask | None = None
    n_lost: int = 0  # events that are no longer here
    lost: list[str] = field(default_factory=list)  # what the first of those looked like
    oddities: Counter[str] = field(default_factory=Counter)


def parse_whole(block: memoryview, layout: Layout = KINETO, expects_shapes: bool = False) -> Parsed:
    """Return the events of a block that is ordinary JSON with the usual types.

    The block is read as one array inside one object, so its commas, its whitespace and a wrong cut need no care:
    whatever is not a whole number of events leaves a bracket open.

    Args:
        expects_shapes: Look for shapes at once; without it they are looked for where types are found, in a second
            reading. The events are the same.

    Raises:
        pa.ArrowInvalid: Anything else; nothing is known then about any of the events.
    """
    data = b"".join((b'{"e":[', block, b"]}\n"))
    has_memory = bool(layout.memory) and _MEMORY in data
    if expects_shapes and layout.inputs is not None:
        data = inputs.with_quoted_shapes(data, layout.inputs)
    table = pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=layout.schemas[expects_shapes, has_memory],
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        ),
    )
    if table.num_rows != 1:
        raise pa.ArrowInvalid("a second document begins inside the block")
    events = table.column("e").chunk(0).flatten()
    phase, category, name, process, thread, start, duration, args = events.flatten()
    columns: dict[str, pa.Array] = {}
    arrays = args.flatten()
    n_memory = len(layout.memory) if has_memory else 0
    shapes = arrays[len(layout.args) : len(arrays) - n_memory]
    is_shaped = bool(shapes) and shapes[0].null_count < len(events)
    if is_shaped and not expects_shapes:
        return parse_whole(block, layout, expects_shapes=True)
    for (_, column, _), array in zip(layout.args, arrays, strict=False):  # others come behind them
        columns[column] = stand_in(columns[column], array) if column in columns else array
    columns["inputs"] = inputs.texts(name, *shapes) if is_shaped else pa.nulls(len(events), pa.string())
    return Parsed(
        phase,
        category,
        name,
        process,
        thread,
        times.from_decimals(start, layout.digits),
        times.from_decimals(duration, layout.digits),
        columns,
        memory=tuple(arrays[len(arrays) - n_memory :]),
        is_shaped=is_shaped,
    )


def stand_in(array: pa.Array, other: pa.Array) -> pa.Array:
    """Return `array` with what `other` has where `array` has nothing."""
    return array if other.null_count == len(other) else pc.coalesce(array, other.cast(array.type))


def finish(parsed: Parsed, keep_python: bool, layout: Layout = KINETO) -> Decoded:
    """Return the rows to be stored of parsed events, with the count of everything else.

    Raises:
        pa.ArrowInvalid: A text is no UTF-8 (the JSON engine does not look).
    """
    tally = Tally(n_events=len(parsed.phase) + parsed.n_lost, oddities=parsed.oddities)
    for text in parsed.lost:
        tally.keep_sample("cannot be read as an event", text)
    tally.n_dropped = parsed.n_lost

    is_complete, is_memory = _phases(parsed, tally)
    category, is_python = _categories(parsed, is_memory, layout, tally)
    is_stored = is_complete if is_memory is None else is_complete | is_memory
    if is_python is not None and not keep_python:
        tally.skipped["python"] = int((is_stored & is_python).sum())
        is_stored = is_stored & ~is_python
    for why, is_bad in _malformed(parsed):
        is_lost = is_stored & is_bad
        if is_lost.any():
            first = int(np.flatnonzero(is_lost)[0])
            tally.drop(int(is_lost.sum()), why, str(parsed.name[first]))
            is_stored = is_stored & ~is_bad

    table = _rows(parsed, is_stored, is_memory, category, layout, tally)
    tally.n_stored = table.num_rows
    if parsed.is_salvaged is not None:
        tally.n_salvaged = int((parsed.is_salvaged & is_stored).sum())
    if not layout.has_halves:
        return Decoded(table, tally)
    return Decoded(table, tally, _halves(parsed, is_python if not keep_python else None, category, layout, tally))


def _halves(
    parsed: Parsed, is_left_out: Mask | None, category: pa.DictionaryArray, layout: Layout, tally: Tally
) -> pa.Table:
    """Return the begins and ends among the events as rows, with which of them begin."""
    is_begin, is_end = (pc.fill_null(pc.equal(parsed.phase, letter), False) for letter in fields.HALVES)
    is_half: Mask = pc.or_(is_begin, is_end).to_numpy(zero_copy_only=False)
    for is_bad in (*(mask for _, mask in _malformed(parsed)), *([is_left_out] if is_left_out is not None else [])):
        is_half = is_half & ~is_bad
    own = Tally()  # a half has no duration, which is no bad time
    table = _rows(parsed, is_half, None, category, layout, own)
    tally.ranks |= own.ranks
    return table.append_column("is_begin", is_begin.filter(pa.array(is_half)))


def _rows(
    parsed: Parsed,
    is_stored: Mask,
    is_memory: Mask | None,
    category: pa.DictionaryArray,
    layout: Layout,
    tally: Tally,
) -> pa.Table:
    """Return the rows of those events, RAW_SCHEMA in file order, and add to the tally what is odd about them."""
    kept = _Kept(is_stored, tally.oddities)
    start, duration, is_open = _times(parsed, is_memory, kept, layout.digits, tally)
    args = _with_ids(parsed, category, layout)
    if is_memory is not None:
        args |= _memory_columns(parsed, pa.array(is_memory))
    columns = {
        "category": kept.encoded(category),
        "name": kept.text(parsed.name),
        "start_ns": pa.array(start),
        "duration_ns": pa.array(duration, mask=is_open),
        "process": kept.plain(_processes(parsed, args.pop(RANK, None), category, layout, kept, tally)),
        "thread": kept.plain(parsed.thread),
        "label": kept.no_text() if (label := _labels(parsed)) is None else kept.text(label),
    }
    for column, array in args.items():
        columns[column] = kept.text(array) if pa.types.is_string(array.type) else kept.plain(array)
    if "correlation_id" in columns:
        columns["correlation_id"] = _zero_is_none(columns["correlation_id"])
    arrays = [columns[told.name] if told.name in columns else pa.nulls(kept.n, told.type) for told in RAW_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)


def _labels(parsed: Parsed) -> pa.Array | None:
    """Return the text that stands where a process or a thread has no number, the process's before the thread's."""
    if parsed.process_label is None or parsed.thread_label is None:
        return None
    return pc.coalesce(parsed.process_label, parsed.thread_label)


def _with_ids(parsed: Parsed, category: pa.DictionaryArray, layout: Layout) -> dict[str, pa.Array]:
    """Return the columns with what pid and tid say of the device's rows."""
    columns = dict(parsed.args)
    for column, key in layout.from_ids:
        ids = parsed.process if key == "pid" else parsed.thread
        target = RAW_SCHEMA.field(column).type
        fits = pc.and_(pc.greater_equal(ids, 0), pc.less_equal(ids, (1 << (target.bit_width - 1)) - 1))
        mine = pc.if_else(pc.and_(_is_on_device(category), fits), ids, None).cast(target)
        columns[column] = pc.coalesce(columns[column], mine) if column in columns else mine
    return columns


def _is_on_device(category: pa.DictionaryArray) -> pa.Array:
    return pc.is_in(category.cast(pa.string()), value_set=pa.array(_ON_DEVICE))


def _processes(
    parsed: Parsed, ranks: pa.Array | None, category: pa.DictionaryArray, layout: Layout, kept: _Kept, tally: Tally
) -> pa.Array:
    """Return the process of each event, which is its rank where the events say ranks; note those of a device's rows."""
    if ranks is None and not layout.is_rank_pid:
        return parsed.process
    told = parsed.process if ranks is None else ranks
    is_on_device = kept.plain(_is_on_device(category))
    found = pc.unique(kept.plain(told).filter(is_on_device)).drop_null().to_pylist()
    fit = [rank for rank in found if 0 <= rank <= _LARGEST_RANK]
    if len(fit) < len(found):
        tally.oddities["Ranks that cannot be, whose events are in none"] += len(found) - len(fit)
    tally.ranks = set(sorted(fit)[: MOST_RANKS + 1])
    return pc.coalesce(told, parsed.process)


class _Kept:
    """Takes the stored rows out of a column."""

    def __init__(self, is_stored: Mask, oddities: Counter[str]) -> None:
        self.n = int(is_stored.sum())
        self._oddities = oddities
        self._is_all = self.n == len(is_stored)
        self._is_stored = is_stored
        self._mask = pa.array(is_stored)

    def numbers(self, values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        return values if self._is_all else values[self._is_stored]

    def plain(self, array: pa.Array) -> pa.Array:
        if array.null_count == len(array):
            return pa.nulls(self.n, array.type)
        return array if self._is_all else array.filter(self._mask)

    def no_text(self) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.nulls(self.n, pa.int32()), _NO_TEXT)

    def encoded(self, array: pa.DictionaryArray) -> pa.Array:
        return array if self._is_all else array.filter(self._mask)

    def text(self, array: pa.Array) -> pa.Array:
        if array.null_count == len(array):
            return self.no_text()
        encoded = self.plain(array).dictionary_encode()
        words = encoded.dictionary
        words.validate(full=True)
        lengths = pc.binary_length(words)
        if (pc.max(lengths).as_py() or 0) <= LONGEST_TEXT:
            return encoded
        self._oddities[f"Texts longer than {LONGEST_TEXT:,} characters, cut there"] += int(
            pc.sum(pc.greater(pc.utf8_length(words), LONGEST_TEXT)).as_py() or 0
        )
        cut = pc.utf8_slice_codeunits(words, 0, LONGEST_TEXT)
        return pa.DictionaryArray.from_arrays(encoded.indices, cut).cast(pa.string()).dictionary_encode()


def _codes(array: pa.Array) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Return per slot an index into the distinct texts, -1 where there is none, and those texts."""
    encoded = array.dictionary_encode()
    codes: npt.NDArray[np.int32] = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    encoded.dictionary.validate(full=True)
    return codes, encoded.dictionary.to_pylist()


def _phases(parsed: Parsed, tally: Tally) -> tuple[Mask, Mask | None]:
    """Return which events are complete ones, and which allocations or releases (None: none); count the others."""
    codes, phases = _codes(parsed.phase)
    n_by_phase = np.bincount(codes + 1, minlength=len(phases) + 1).tolist()
    is_complete = np.zeros(len(codes), np.bool_)
    is_memory = np.zeros(len(codes), np.bool_)
    n_without = n_by_phase[0]
    for code, (phase, n) in enumerate(zip(phases, n_by_phase[1:], strict=True)):
        if phase == fields.COMPLETE:
            is_complete = codes == code
        elif not phase:
            n_without += n
        else:
            n_sized = n_memory = 0
            if phase in fields.INSTANTS:
                is_mine = codes == code
                is_mine[is_mine] = _is_named_memory(parsed.name.filter(pa.array(is_mine)))
                n_memory = int(is_mine.sum())
                if parsed.memory:
                    is_mine &= parsed.memory[0].is_valid().to_numpy(zero_copy_only=False)
                    n_sized = int(is_mine.sum())
                    is_memory |= is_mine
            tally.skipped.update({"memory": n_memory - n_sized, fields.phase_kind(phase): n - n_memory})
    tally.skipped = +tally.skipped
    if n_without:
        tally.drop(n_without, 'no event: it has no "ph"')
    return is_complete, is_memory if is_memory.any() else None


def _is_named_memory(names: pa.Array) -> Mask:
    is_named: Mask = pc.fill_null(pc.equal(names, fields.MEMORY_NAME), False).to_numpy(zero_copy_only=False)
    return is_named


def _memory_columns(parsed: Parsed, is_memory: pa.Array) -> dict[str, pa.Array]:
    """Return the columns that allocations have otherwise than other events, or alone."""
    n_bytes, kind, device, allocated, reserved = parsed.memory
    is_device = pc.and_kleene(pc.not_equal(kind, fields.HOST_TYPE), pc.greater_equal(device, 0))
    absent = pa.scalar(None, pa.int32())
    return {
        "n_bytes": pc.if_else(is_memory, n_bytes, parsed.args["n_bytes"]),
        "device": pc.if_else(is_memory, pc.if_else(is_device, device, absent), parsed.args["device"]),
        "allocated_bytes": pc.if_else(is_memory, allocated, pa.scalar(None, pa.int64())),
        "reserved_bytes": pc.if_else(is_memory, reserved, pa.scalar(None, pa.int64())),
    }


def _categories(
    parsed: Parsed, is_memory: Mask | None, layout: Layout, tally: Tally
) -> tuple[pa.DictionaryArray, Mask | None]:
    """Return the canonical categories, and which events are Python frames (None: none of them)."""
    codes, spellings = _codes(parsed.category)
    tally.is_of_2021 = not fields.CATEGORIES_OF_2021.isdisjoint(spellings)
    canonical: dict[str, int] = {}
    translation = [canonical.setdefault(layout.category(spelling), len(canonical)) for spelling in spellings]
    new = np.array([*translation, -1], np.int32)[codes]  # slot -1 is the last
    if layout.rules:
        _apply(layout, parsed, canonical, new)
    if is_memory is not None:
        new[is_memory] = canonical.setdefault("memory", len(canonical))
    array = pa.DictionaryArray.from_arrays(
        pa.array(new, pa.int32(), mask=new < 0), pa.array(list(canonical), pa.string())
    )
    python = canonical.get("python")
    return array, None if python is None else new == python


def _apply(layout: Layout, parsed: Parsed, canonical: dict[str, int], new: npt.NDArray[np.int32]) -> None:
    """Put into `new` what the first rule that fits says of each event."""
    texts: dict[Field, tuple[npt.NDArray[np.int32], pa.Array]] = {}
    is_free = np.ones(len(new), np.bool_)
    for rule in layout.rules:
        fits = is_free.copy()
        for key, pattern in rule.patterns:
            if key not in texts:
                texts[key] = _field(parsed, key)
            codes, words = texts[key]
            fits &= pc.match_substring_regex(words, pattern).to_numpy(zero_copy_only=False)[codes]
        new[fits] = canonical.setdefault(rule.category, len(canonical))
        is_free &= ~fits


def _field(parsed: Parsed, key: Field) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Return an index into the distinct texts of a field per event, and those texts; what is missing is empty."""
    if key in ("cat", "name"):
        array = parsed.category if key == "cat" else parsed.name
    else:
        ids, label = (parsed.process, parsed.process_label) if key == "pid" else (parsed.thread, parsed.thread_label)
        array = ids.cast(pa.string()) if label is None else pc.coalesce(ids.cast(pa.string()), label)
    encoded = pc.fill_null(array, "").dictionary_encode()
    encoded.dictionary.validate(full=True)
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary


def _malformed(parsed: Parsed) -> list[tuple[str, Mask]]:
    start, duration = parsed.start, parsed.duration
    found = []
    if start.is_absent.any():
        found.append(("no ts", start.is_absent))
    for key, column in (("ts", start), ("dur", duration)):
        if column.is_malformed is not None:
            found.append((f"{key} is no number or beyond int64 ns", column.is_malformed))
    end = start.ns + np.maximum(duration.ns, 0)  # wraps where it does not fit
    if (end < start.ns).any():
        found.append(("its end is beyond int64 ns", end < start.ns))
    return found


def _times(
    parsed: Parsed, is_memory: Mask | None, kept: _Kept, digits: int, tally: Tally
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Mask]:
    """Return start, duration and where the duration is not known, of the stored rows; count what is odd."""
    start, duration = kept.numbers(parsed.start.ns), kept.numbers(parsed.duration.ns)
    is_open = kept.numbers(parsed.duration.is_absent) | (duration == -(10**digits))  # "dur": -1
    if is_memory is not None:  # an instant
        is_instant = kept.numbers(is_memory)
        duration, is_open = np.where(is_instant, 0, duration), is_open & ~is_instant
    is_bad = is_open | (start < 0) | (duration < 0) | (duration > WEEK_NS)
    tally.n_bad_times = int(is_bad.sum())
    rounded = [column.is_rounded for column in (parsed.start, parsed.duration) if column.is_rounded is not None]
    if rounded:
        tally.n_rounded = int(kept.numbers(np.logical_or.reduce(rounded)).sum())
    if kept.n:
        tally.first_ns = int(start.min())
        tally.last_ns = int((start + np.maximum(duration, 0)).max())
    return start, duration, is_open


def _zero_is_none(array: pa.Array) -> pa.Array:
    """Return correlation ids with NULL for 0, which is how the profiler writes that there is none."""
    is_zero = pc.equal(array, 0)
    return pc.if_else(is_zero, pa.scalar(None, array.type), array) if pc.any(is_zero).as_py() else array
