"""Columns of plain values to rows of RAW_SCHEMA, and the count of what could not become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import Sink

_FAR_NS = 1 << 62  # 146 years; beyond, differences leave int64
WEEK_NS = 7 * 24 * 3600 * 10**9
_LARGEST_INT32 = 2**31 - 1
_SAMPLES = 10


@dataclass
class Rows:
    """Hands rows on and counts them."""

    sink: Sink
    n_stored: int = 0
    n_bad_times: int = 0
    last_ns: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, start: pa.Array, end: pa.Array, keep: pa.Array | None = None, **columns: Any) -> None:
        """Hand on those rows that have a start, a device that can be and, where given, a true in `keep`.

        Args:
            start: int64, ns; each other column has as many rows.
            end: Likewise; None where the event did not finish.
            keep: Of the others it is counted elsewhere why they are not.
            columns: Other columns of RAW_SCHEMA; absent ones are NULL.
        """
        device = columns.get("device")
        usable = _between(start, -_FAR_NS, _FAR_NS)
        self._drop("no start, or one beyond any time", usable, keep)
        ends = pc.or_kleene(pc.is_null(end), _between(end, -_FAR_NS, _FAR_NS))
        self._drop("an end beyond any time", ends, keep, usable)
        usable = pc.and_(usable, ends)
        if device is not None:
            numbered = pc.or_kleene(pc.is_null(device), _between(device, 0, _LARGEST_INT32))
            self._drop("a device number that cannot be", numbered, keep, usable)
            usable = pc.and_(usable, numbered)
        kept = usable if keep is None else pc.and_(usable, keep)
        columns["start_ns"] = start
        columns["duration_ns"] = pc.subtract(
            pc.if_else(usable, end, None), pc.if_else(usable, start, pa.scalar(0, pa.int64()))
        )
        n_kept = count(kept)
        if not n_kept:
            return
        self.n_stored += n_kept
        table = pa.Table.from_arrays([_column(f, columns, kept, n_kept) for f in RAW_SCHEMA], schema=RAW_SCHEMA)
        wrong = pc.or_kleene(
            pc.less(table["start_ns"], 0),
            pc.invert(_between(table["duration_ns"], 0, WEEK_NS, null=True)),
        )
        self.n_bad_times += count(wrong)
        self.last_ns = max(self.last_ns, int(pc.max(table["start_ns"]).as_py()))
        self.sink(table)

    def _drop(self, why: str, fine: pa.Array, *among: pa.Array | None) -> None:
        for mask in among:
            fine = fine if mask is None else pc.or_(fine, pc.invert(mask))
        if wrong := count(pc.invert(fine)):
            self.dropped[why] += wrong

    @property
    def n_dropped(self) -> int:
        """How many rows were lost."""
        return self.dropped.total()

    def of_ranks(self, process: pa.Array, ranks: Set[int], what: str) -> pa.Array | None:
        """Return which rows belong to a process that is a rank, None for all; the others are skipped as `what`."""
        if not ranks:
            return None
        mine = pc.is_in(process, value_set=integers(sorted(ranks)))
        if others := mine.false_count:
            self.skipped[what] += others
        return mine

    def counted(self, damage: Sequence[str]) -> dict[str, Any]:
        """Return the fields of DumpFacts that say what became of a file's rows, where `damage` is what it lost."""
        n_skipped = self.skipped.total()
        return {
            "n_events": self.n_stored + n_skipped + self.n_dropped,
            "n_stored": self.n_stored,
            "n_skipped": n_skipped,
            "n_dropped": self.n_dropped,
            "n_bad_times": self.n_bad_times,
            "skipped": tuple(sorted(self.skipped.items())),
            "samples": (*damage, *self._samples()),
            "is_truncated": bool(damage),
        }

    def _samples(self) -> tuple[str, ...]:
        """Return why rows were lost."""
        return tuple(f"{why}: {n:,}" for why, n in sorted(self.dropped.items()))[:_SAMPLES]


class InTime:
    """Passes rows on but those whose times no clock has: differences of theirs would leave int64, and end the run."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._n_lost = 0
        self._first_ns = self._last_ns = 0

    def add(self, rows: pa.Table) -> None:
        """Take the next batch."""
        start, duration = rows["start_ns"], pc.fill_null(rows["duration_ns"], 0)
        is_told = pc.and_(_is_near(start), _is_near(duration))
        end = pc.if_else(is_told, pc.add(start, duration), _FAR_NS)  # of two near ones the sum is in int64
        is_near = pc.and_(is_told, _is_near(end))
        kept = rows if pc.all(is_near).as_py() else rows.filter(is_near)
        self._n_lost += rows.num_rows - kept.num_rows
        if kept.num_rows:
            self._first_ns = min(self._first_ns, pc.min(kept["start_ns"]).as_py())
            self._last_ns = max(self._last_ns, pc.max(end.filter(is_near)).as_py())
            self._sink(kept)

    def checked(self, facts: DumpFacts) -> DumpFacts:
        """Return the facts of the dump without what was not passed on."""
        if not -_FAR_NS < self._first_ns + facts.base_ns <= self._last_ns + facts.base_ns < _FAR_NS:
            note = f"its base time of {facts.base_ns} ns would carry the times beyond any clock and is not used"
            facts = replace(facts, base_ns=0, notes=(*facts.notes, note))
        if not self._n_lost:
            return facts
        return replace(
            facts,
            n_stored=facts.n_stored - self._n_lost,
            n_dropped=facts.n_dropped + self._n_lost,
            samples=(*facts.samples, f"a time beyond any clock: {self._n_lost:,}"),
        )


def integers(values: Sequence[int | None]) -> pa.Array:
    """Return the values as int64."""
    return pa.array(values, pa.int64())


def texts(values: Sequence[str | None]) -> pa.Array:
    """Return the values as dictionary-coded text."""
    return pa.array(values, pa.string()).dictionary_encode()


def triples(x: Sequence[int | None], y: Sequence[int | None], z: Sequence[int | None]) -> pa.Array:
    """Return lists of three; NULL where one is missing or beyond int32."""
    found = [
        [a, b, c]
        if a is not None and b is not None and c is not None and max(map(abs, (a, b, c))) <= _LARGEST_INT32
        else None
        for a, b, c in zip(x, y, z, strict=True)
    ]
    return pa.array(found, pa.list_(pa.int32()))


def nonzero(values: pa.Array) -> pa.Array:
    """Return the values, NULL for 0: what numbers correlations has no 0."""
    return pc.if_else(pc.equal(values, 0), None, values)


def count(mask: pa.Array | pa.ChunkedArray) -> int:
    """Return how many are true."""
    return int(pc.sum(mask).as_py() or 0)


def _between(values: pa.Array | pa.ChunkedArray, low: int, high: int, *, null: bool = False) -> pa.Array:
    return pc.fill_null(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)), null)


def _is_near(ns: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.and_(pc.greater(ns, -_FAR_NS), pc.less(ns, _FAR_NS))


def _column(told: pa.Field, columns: dict[str, Any], kept: pa.Array, n_kept: int) -> pa.Array:
    values = columns.get(told.name)
    if values is None:
        return pa.nulls(n_kept, told.type)
    return values.filter(kept).cast(told.type)
