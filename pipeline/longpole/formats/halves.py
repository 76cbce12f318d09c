"""Begins and ends of trace events become whole events: on each thread an end closes what began last."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longpole.events import RAW_SCHEMA
from longpole.formats.fields import HALVES, phase_kind
from longpole.formats.rows import WEEK_NS
from longpole.formats.tally import Tally

MOST_OPEN = 65_536
"""Begins that wait for their end at once; of more, the first are given up."""

_KIND = phase_kind(HALVES[0])


class Halves:
    """What began in a dump and has not ended."""

    def __init__(self) -> None:
        self._open: pa.Table | None = None

    def joined(self, halves: pa.Table, tally: Tally) -> pa.Table:
        """Return the events that end among the next halves of the dump, and move them in the tally to the stored."""
        if self._open is not None:
            halves = pa.concat_tables([self._open, halves]).unify_dictionaries()
        begins, ends, waiting = _pairs(halves)
        self._open = halves.take(pa.array(waiting[-MOST_OPEN:], pa.int64()))
        tally.oddities["Begins given up, too many waited for their end"] += max(0, len(waiting) - MOST_OPEN)
        table = halves.take(pa.array(begins, pa.int64())).select(RAW_SCHEMA.names)
        duration = pc.subtract(halves["start_ns"].take(pa.array(ends, pa.int64())), table["start_ns"])
        place = RAW_SCHEMA.get_field_index("duration_ns")
        table = table.set_column(place, RAW_SCHEMA.field(place), duration.cast(pa.int64()))
        whole = table.filter(pc.greater_equal(duration, 0))
        tally.oddities["Ends before their begin, left out"] += table.num_rows - whole.num_rows
        _count(whole, tally)
        return whole

    def end(self, tally: Tally) -> None:
        """Count what never ended."""
        if self._open is not None:
            tally.oddities["Begins without an end, left out"] += self._open.num_rows


def _pairs(halves: pa.Table) -> tuple[list[int], list[int], list[int]]:
    """Return the places of begins and of their ends, and those of begins without one, in order."""
    lanes = zip(*(halves[name].to_pylist() for name in ("process", "thread", "label")), strict=True)
    stacks: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    begins: list[int] = []
    ends: list[int] = []
    for place, (lane, is_begin) in enumerate(zip(lanes, halves["is_begin"].to_pylist(), strict=True)):
        if is_begin:
            stacks[lane].append(place)
        elif stacks[lane]:
            begins.append(stacks[lane].pop())
            ends.append(place)
    return begins, ends, sorted(place for stack in stacks.values() for place in stack)


def _count(whole: pa.Table, tally: Tally) -> None:
    if not whole.num_rows:
        return
    tally.n_stored += whole.num_rows
    tally.skipped[_KIND] -= whole.num_rows
    is_bad = pc.or_(pc.less(whole["start_ns"], 0), pc.greater(whole["duration_ns"], WEEK_NS))
    tally.n_bad_times += int(pc.sum(is_bad).as_py())
    last = int(pc.max(pc.add(whole["start_ns"], whole["duration_ns"])).as_py())
    tally.last_ns = last if tally.last_ns is None else max(last, tally.last_ns)
