"""Timers logs: JSON lines of what a training loop timed, a line a timer of one step on one rank.

What Megatron's and TorchTitan's timers say, for runs that no profiler follows. A line has `name` and `duration`, and
where they are known `rank`, `step`, `start`, `group`, `host` and `world_size`. Times are seconds, or of the unit that
their key ends in: `_s`, `_ms`, `_us`, `_ns`. Which line becomes which range is sql/rank/_timer_rows.sql.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longpole import catalog
from longpole.engine import connection, quoted, write_ordered
from longpole.errors import DumpError
from longpole.events import DumpFacts
from longpole.formats import ReadOptions, Sink
from longpole.formats.bytestream import ByteStream
from longpole.formats.rows import Rows, integers

NAME = "timers"

RAW_TIMERS = pa.schema(
    [
        ("rank", pa.int64()),  # NULL: the file's name says it
        ("step", pa.int64()),  # NULL: outside of steps
        ("name", pa.string()),
        ("start_ns", pa.int64()),  # NULL: not logged
        ("duration_ns", pa.int64()),
        ("comm_group", pa.string()),
        ("row_id", pa.int64()),  # place in the file among the lines that are timers
    ]
)
"""A timer's line as sql/rank/_timer_rows.sql reads it."""

MOST_RANKS = 4_096
"""Ranks of one file, each a file of events in the store; of more, each rank writes its own."""

_MOST_LINE = 64 << 10
_TOO_LONG = "a line too long for a timer"
_BATCH_ROWS = 65_536
_MEMORY = 160 << 20
_LARGEST_RANK = 1 << 20  # as params.largest_world
_LARGEST_STEP = 10**15  # as params.largest_step
_FAR = Decimal(2**62)
_LINES_TRIED = 16  # of a file's head: the first may be cut off
_KEYS = re.compile(rb'"name"\s*:\s*"[^"]*"[^\n]*"duration|"duration[^\n]*"name"\s*:\s*"')
_CURE = (
    'A timers log has a line for each timer: {"rank": 0, "step": 12, "name": "forward", "start": 2.5, "duration": 1}.'
)


class _Line(msgspec.Struct):
    name: str
    rank: int | None = None
    step: int | None = None
    start: Decimal | None = None
    start_s: Decimal | None = None
    start_ms: Decimal | None = None
    start_us: Decimal | None = None
    start_ns: Decimal | None = None
    duration: Decimal | None = None
    duration_s: Decimal | None = None
    duration_ms: Decimal | None = None
    duration_us: Decimal | None = None
    duration_ns: Decimal | None = None
    group: str | None = None
    host: str | None = None
    world_size: int | None = None


_decode = msgspec.json.Decoder(_Line).decode


class TimersReader:
    """Reads JSON lines of timers, of one rank or of all."""

    name = NAME

    def recognises(self, head: bytes, path: str) -> bool:
        """Return whether one of the first lines of the head is a timer's, and none opens a list of trace events."""
        if not _KEYS.search(head):
            return False
        lines = head.split(b"\n", _LINES_TRIED)[:_LINES_TRIED]
        return not any(b'"traceEvents"' in line for line in lines) and any(_timer(line) is not None for line in lines)

    def read(self, file: BinaryIO, path: str, sink: Sink, options: ReadOptions) -> DumpFacts:
        """Hand over the ranges of all timers, of each rank in order of time, and return what else the lines say.

        Raises:
            DumpError: It has more ranks than a file may have, or no line that is a timer.
        """
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.scratch)))
            log = _Log(path, Rows(sink))
            log.write(file, folder / "timers.parquet")
            return log.place(folder)


def _timer(line: bytes) -> _Line | None:
    """Return what a line says; None where it is no timer's."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, ArithmeticError, RecursionError):
        return None


class _Log:
    """One log on its way to ranges."""

    def __init__(self, path: str, rows: Rows) -> None:
        self._path = path
        self._rows = rows
        self._ranks: set[int | None] = set()
        self._hosts: set[str] = set()
        self._sizes: set[int] = set()
        self._n_lines = 0
        self._n_rounded = 0
        self._damage: tuple[str, ...] = ()

    def write(self, file: BinaryIO, target: Path) -> None:
        """Write the lines that are timers to a file of RAW_TIMERS."""
        stream = ByteStream(file)
        columns: list[list[Any]] = [[] for _ in RAW_TIMERS]
        with pq.ParquetWriter(target, RAW_TIMERS, compression="zstd", compression_level=1) as writer:
            for line in self._lines(stream):
                values = self._values(line)
                if values is None:
                    continue
                for column, value in zip(columns, (*values, self._n_lines), strict=True):
                    column.append(value)
                self._n_lines += 1
                if len(columns[0]) >= _BATCH_ROWS:
                    writer.write_table(_table(columns))
                    columns = [[] for _ in RAW_TIMERS]
            writer.write_table(_table(columns))
        if stream.problem:
            self._damage = (stream.problem,)
        if not self._n_lines:
            raise DumpError(f"{self._path} has no line that is a timer's", _CURE)

    def _lines(self, stream: ByteStream) -> Iterator[bytes]:
        """Yield the lines, without those that are too long to be a timer's; of those none is ever whole in memory."""
        rest, is_long = b"", False
        for piece in stream:
            first, *others = piece.split(b"\n")
            rest = b"" if is_long else rest + first
            for other in others:
                if not is_long:
                    yield from self._whole(rest)
                rest, is_long = other, False
            if len(rest) > _MOST_LINE:
                self._rows.dropped[_TOO_LONG] += 1
                rest, is_long = b"", True
        yield from self._whole(rest)

    def _whole(self, line: bytes) -> Iterator[bytes]:
        """Yield the line where it is one; one too long is counted."""
        if len(line) > _MOST_LINE:
            self._rows.dropped[_TOO_LONG] += 1
        elif line.strip():
            yield line

    def _values(self, line: bytes) -> tuple[Any, ...] | None:
        """Return the line's values in the order of RAW_TIMERS; None where it is none, which is counted."""
        dropped = self._rows.dropped
        timer = _timer(line)
        if timer is None:
            dropped["a line that is no timer: JSON with a name"] += 1
            return None
        try:
            start = self._ns(timer.start_ns, timer.start_us, timer.start_ms, timer.start_s, timer.start)
            duration = self._ns(
                timer.duration_ns, timer.duration_us, timer.duration_ms, timer.duration_s, timer.duration
            )
        except ValueError:
            dropped["a time beyond any"] += 1
            return None
        if duration is None or duration < 0:
            dropped["no duration, or one below 0"] += 1
            return None
        if timer.rank is not None and not 0 <= timer.rank < _LARGEST_RANK:
            dropped["a rank that cannot be"] += 1
            return None
        if timer.step is not None and not 0 <= timer.step <= _LARGEST_STEP:
            dropped["a step that cannot be"] += 1
            return None
        if timer.rank not in self._ranks:
            self._ranks.add(timer.rank)
            if len(self._ranks) > MOST_RANKS:
                raise DumpError(
                    f"{self._path} has more than {MOST_RANKS:,} ranks, the most of one timers log",
                    "Let each rank write a file of its own.",
                )
        if timer.host is not None and len(self._hosts) < 2:
            self._hosts.add(timer.host)
        if timer.world_size is not None and 1 <= timer.world_size <= _LARGEST_RANK and len(self._sizes) < 2:
            self._sizes.add(timer.world_size)
        return timer.rank, timer.step, timer.name, start, duration, timer.group

    def _ns(self, *units: Decimal | None) -> int | None:
        """Return a time in nanoseconds of the first unit that is given: ns, µs, ms, s, and seconds by default."""
        for value, digits in zip(units, (0, 3, 6, 9, 9), strict=True):
            if value is not None:
                if not value.is_finite() or value.adjusted() > 30:
                    raise ValueError
                scaled = value.scaleb(digits)
                whole = scaled.to_integral_value(ROUND_HALF_UP)
                if abs(whole) > _FAR:
                    raise ValueError
                self._n_rounded += scaled != whole
                return int(whole)
        return None

    def place(self, folder: Path) -> DumpFacts:
        """Hand on the ranges that the lines become."""
        relation = catalog.relations()["_timer_rows"]
        ranges = folder / "ranges.parquet"
        with connection(folder, _MEMORY) as con:
            con.execute(f"CREATE VIEW raw_timers AS FROM read_parquet({quoted(folder / 'timers.parquet')})")
            needed = catalog.needed("timers", {"raw_timers", *catalog.data_names()})
            catalog.load_data_of(con, needed)
            for other in needed:
                if other.name != relation.name:
                    con.execute(f"CREATE TEMP TABLE {other.name} AS {other.sql}")
            write_ordered(con, relation.sql, relation.order, ranges)
        ranks = sorted(rank for rank in self._ranks if rank is not None)
        unranked = "no rank, where other lines have one" if ranks and None in self._ranks else None
        self._hand_on(ranges, is_of_many=len(ranks) > 1, unranked=unranked)
        return DumpFacts(
            format=NAME,
            schema="timers, JSON lines",
            rank=ranks[0] if len(ranks) == 1 else None,
            world_size=self._sizes.pop() if len(self._sizes) == 1 else None,
            host=self._hosts.pop() if len(self._hosts) == 1 else None,
            processes=tuple(ranks) if len(ranks) > 1 else (),
            processes_are_ranks=len(ranks) > 1,
            n_rounded=self._n_rounded,
            notes=(f"{self._n_lines:,} lines of timers: no kernels, and nothing of what ran within a timer",),
            **self._rows.counted(self._damage),
        )

    def _hand_on(self, ranges: Path, *, is_of_many: bool, unranked: str | None) -> None:
        for batch in pq.ParquetFile(ranges).iter_batches(batch_size=_BATCH_ROWS):
            keep = pc.is_valid(batch["start_ns"])
            for counts, column in ((self._rows.dropped, "dropped"), (self._rows.skipped, "skipped")):
                for entry in pc.value_counts(batch[column].drop_null()).to_pylist():
                    counts[entry["values"]] += entry["counts"]
            if unranked is not None:
                has_rank = pc.is_valid(batch["rank"])
                self._rows.dropped[unranked] += pc.sum(pc.and_not(keep, has_rank)).as_py() or 0
                keep = pc.and_(keep, has_rank)
            whole = batch.filter(keep)
            if not whole.num_rows:
                continue
            self._rows.add(
                start=whole["start_ns"],
                end=whole["end_ns"],
                category=whole["category"],
                name=whole["name"],
                process=whole["rank"] if is_of_many else None,
                thread=integers([0] * whole.num_rows),
                comm_op=whole["comm_op"],
                comm_group=whole["comm_group"],
            )


def _table(columns: list[list[Any]]) -> pa.Table:
    arrays = [pa.array(values, field.type) for values, field in zip(columns, RAW_TIMERS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RAW_TIMERS)
