"""A run as one trace: every rank a process, all on the run's clock, written as it is read.

No more than a slice of a rank's time is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import duckdb

from longpole import catalog
from longpole.chrome_trace import Args, Process, Sink, Trace, Written
from longpole.errors import LongpoleError

Kind = Literal["device", "all"]
"""Device work alone, or host work too. Python frames are in no trace."""

MOST_STEPS = 20
"""Steps that are exported unasked: of 5,000 slices each they are 15 MB of text a rank, which a browser still opens."""

_RUN_PID = 10_000_000  # no job has as many ranks, and a rank is its process's id
_PATH_PID = 10_000_001
_BATCH_ROWS = 20_000
_SLICES = 16  # of a rank's time; each is read and sorted by itself
_LARGEST_BASE_NS = 2**62


@dataclass(frozen=True)
class Choice:
    """What of a run is exported, and how its clocks stand."""

    run: str
    first_step: int
    last_step: int
    ranks: tuple[Rank, ...]
    is_aligned: bool
    clocks: str


class Rank(NamedTuple):
    """A rank with steps in the range."""

    rank: int
    host: str | None
    device_index: int | None

    @property
    def title(self) -> str:
        """What its process is called."""
        device = None if self.device_index is None else f"GPU {self.device_index}"
        return " · ".join(part for part in (f"rank {self.rank}", self.host, device) if part)


class _Slice(NamedTuple):
    """A part of a rank's time, on its own clock and on the run's."""

    from_ns: int
    to_ns: int
    start_ns: int
    end_ns: int


def choose(
    con: duckdb.DuckDBPyConnection, run: str, steps: tuple[int | None, int | None] | None, ranks: Sequence[int] | None
) -> Choice:
    """Return what to export: the steps from the first to the last of `steps`, None for all if they are few.

    Raises:
        LongpoleError: The run has no such steps or ranks, or too many steps to take all.
    """
    ((n_steps, first, last, is_aligned, clocks),) = _rows(con, "export_run", run=run)
    if not n_steps:
        raise LongpoleError(f"run {run!r} has no steps", f"Analyze it first: longpole analyze {run}")
    recorded = f"steps {first} to {last}" if n_steps > 1 else f"step {first}"
    if steps is None and n_steps > MOST_STEPS:
        raise LongpoleError(
            f"run {run!r} has {n_steps} steps, {first} to {last}: too many for one trace",
            f"Choose some, as --steps {first}:{min(last, first + 4)}.",
        )
    from_step, to_step = steps or (None, None)
    first_step, last_step = first if from_step is None else from_step, last if to_step is None else to_step
    known = [Rank(*row) for row in _rows(con, "export_ranks", run=run, first_step=first_step, last_step=last_step)]
    if not known:
        raise LongpoleError(
            f"run {run!r} has no step from {first_step} to {last_step}",
            f"It recorded {recorded}: --steps {first}:{last}.",
        )
    absent = sorted(set(ranks or ()) - {r.rank for r in known})
    if absent:
        raise LongpoleError(
            f"run {run!r} has no rank {ranges_text(absent)} in steps {first_step} to {last_step}",
            f"Ranks that recorded them: {ranges_text([r.rank for r in known])}.",
        )
    chosen = tuple(r for r in known if ranks is None or r.rank in ranks)
    return Choice(run, first_step, last_step, chosen, is_aligned, clocks)


def write(
    con: duckdb.DuckDBPyConnection, choice: Choice, kind: Kind, sink: Sink, advance: Callable[[], None] = lambda: None
) -> Written:
    """Write the trace as ASCII JSON, piece by piece, and return what it holds; `advance` is called after each rank."""
    span = {"run": choice.run, "first_step": choice.first_step, "last_step": choice.last_step}
    slices = {
        r.rank: [_Slice(*row) for row in _rows(con, "export_slices", **span, rank=r.rank, n_slices=_SLICES)]
        for r in choice.ranks
    }
    first_ns = min(of_rank[0].start_ns for of_rank in slices.values())
    trace = Trace(sink, max(0, min(first_ns // 10**9 * 10**9, _LARGEST_BASE_NS)))
    trace.open(
        {
            "run": choice.run,
            "steps": f"{choice.first_step}-{choice.last_step}",
            "ranks": ranges_text([r.rank for r in choice.ranks]),
            "clocks": choice.clocks,
            "is_aligned": choice.is_aligned,
        }
    )
    _write_run(con, trace, choice.run, span)
    _write_path(con, trace, span)
    for rank in choice.ranks:
        _write_rank(con, trace, rank, {**span, "rank": rank.rank}, slices[rank.rank], kind)
        advance()
    trace.close()
    return trace.written


def ranges_text(numbers: Sequence[int]) -> str:
    """Return sorted numbers as a person writes them, as "0-7,12"."""
    islands: list[list[int]] = []
    for number in numbers:
        if islands and islands[-1][1] == number - 1:
            islands[-1][1] = number
        else:
            islands.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in islands)


_STEPS, _COLLECTIVES, _STREAM, _THREAD = range(4)
"""Tracks of a rank, from the top down."""


def _write_run(con: duckdb.DuckDBPyConnection, trace: Trace, run: str, span: dict[str, Any]) -> None:
    process = Process(_RUN_PID)
    track = process.track(_STEPS, "steps")
    for step, start_ns, end_ns, end_rank, end_margin_ns, verdict in _rows(con, "export_steps", **span):
        args = {"step": step, "end_rank": end_rank, "end_margin_ns": end_margin_ns, "verdict": verdict}
        trace.slice(track, "longpole", f"step {step}", start_ns, end_ns, args)
    if track.lanes:
        trace.names(process, f"run {run}", 0)


def _write_path(con: duckdb.DuckDBPyConnection, trace: Trace, span: dict[str, Any]) -> None:
    """Write the steps' critical paths as one track; they go through every rank, exported or not."""
    process = Process(_PATH_PID)
    track = process.track(_STEPS, "critical path")
    for batch in _batches(con, "export_path", **span):
        for step, rank, lane, kind, name, start_ns, end_ns, verdict in batch:
            args = {"step": step, "rank": rank, "lane": lane, "kind": kind, "verdict": verdict}
            trace.slice(track, "critical_path", f"{kind}: {name}", start_ns, end_ns, args)
        trace.flush()
    if track.lanes:
        trace.names(process, "critical path", 1)
        trace.flush()


def _write_rank(
    con: duckdb.DuckDBPyConnection,
    trace: Trace,
    rank: Rank,
    span: dict[str, Any],
    slices: Sequence[_Slice],
    kind: Kind,
) -> None:
    process = Process(rank.rank)
    _write_windows(con, trace, process, span)
    _write_collectives(con, trace, process, {**span, "start_ns": slices[0].start_ns, "end_ns": slices[-1].end_ns})
    for one in slices:
        own = {"from_ns": one.from_ns, "to_ns": one.to_ns, "with_host": kind == "all"}
        for batch in _batches(con, "export_events", **span, **own):
            for row in batch:
                _write_event(trace, process, _Event(*row))
            trace.flush()
    trace.names(process, rank.title, rank.rank + 2)
    trace.flush()


def _write_windows(con: duckdb.DuckDBPyConnection, trace: Trace, process: Process, span: dict[str, Any]) -> None:
    track = process.track(_STEPS, "steps")
    told = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns", "wait_ns", "verdict")
    for step, start_ns, end_ns, *rest in _rows(con, "export_windows", **span):
        args = {"step": step, **dict(zip(told, rest, strict=True))}
        trace.slice(track, "longpole", f"step {step}", start_ns, end_ns, args)


class _Collective(NamedTuple):
    step: int | None
    group_id: str
    seq: int | None
    op: str | None
    n_bytes: int | None
    start_ns: int
    ready_ns: int
    end_ns: int
    is_split: bool
    is_complete: bool
    is_last: bool
    last_rank: int | None
    arrow: int | None


def _write_collectives(con: duckdb.DuckDBPyConnection, trace: Trace, process: Process, span: dict[str, Any]) -> None:
    track = process.track(_COLLECTIVES, "collectives")
    for batch in _batches(con, "export_collectives", **span):
        for row in batch:
            one = _Collective(*row)
            tid = trace.room(track, one.start_ns, one.end_ns)
            if tid is not None:
                _write_collective(trace, process, tid, one)
        trace.flush()


def _write_collective(trace: Trace, process: Process, tid: int, one: _Collective) -> None:
    """Write a collective as its wait and its transfer, and its end of the arrow from the last to arrive."""
    op = one.op or "collective"
    told: Args = {"step": one.step, "group": one.group_id, "seq": one.seq, "op": op, "n_bytes": one.n_bytes}
    if not one.is_split:
        trace.slice_on(process, tid, "collective", op, one.start_ns, one.end_ns, told)
        return
    has_waited, has_moved = one.ready_ns > one.start_ns, one.end_ns > one.ready_ns
    if has_waited:
        late = "others" if one.last_rank is None else f"rank {one.last_rank}"
        bound = "" if one.is_complete else ", of those recorded"
        trace.slice_on(process, tid, "wait", f"wait for {late}{bound}", one.start_ns, one.ready_ns, told)
    if has_moved or not has_waited:
        trace.slice_on(process, tid, "transfer", f"transfer {op}", one.ready_ns, one.end_ns, told)
    if one.arrow is None or one.end_ns - one.ready_ns < 2:
        return
    # An arrow ends a nanosecond after it began, so that a reader that sorts by time sees its start first.
    if one.is_last:
        trace.arrow(process, tid, one.arrow, one.ready_ns, is_start=True)
    elif has_waited:
        trace.arrow(process, tid, one.arrow, one.ready_ns + 1, is_start=False)


class _Event(NamedTuple):
    start_ns: int
    end_ns: int
    category: str
    kind: str | None
    name: str | None
    step: int | None
    is_device: bool
    device: int | None
    stream: int | None
    process: int | None
    thread: int | None
    label: str | None
    correlation_id: int | None
    comm_op: str | None
    comm_group: str | None
    n_bytes: int | None


_BESIDE = {"sync": " sync", "gpu_annotation": " ranges"}
"""Device rows that are no work: on tracks of their own, or they would push kernels aside."""


def _write_event(trace: Trace, process: Process, event: _Event) -> None:
    if event.is_device:
        number = event.thread if event.stream is None else event.stream  # a range says its stream as its thread
        name = "no stream" if number is None else f"stream {number}"
        beside = _BESIDE.get(event.category, "")
        track = process.track(_STREAM, name + beside, number=number or 0, nests=bool(beside))
    else:
        name = f"thread {event.thread}" if event.thread is not None else event.label or "no thread"
        track = process.track(_THREAD, name, number=event.thread or 0, process=event.process or 0, nests=True)
    args: Args = {
        "step": event.step,
        "kind": event.kind,
        "device": event.device,
        "stream": event.stream,
        "correlation": event.correlation_id,
        "comm_op": event.comm_op,
        "group": event.comm_group,
        "n_bytes": event.n_bytes,
    }
    trace.slice(track, event.category, event.name or "", event.start_ns, event.end_ns, args)


def _rows(con: duckdb.DuckDBPyConnection, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return con.execute(catalog.page_query(query), parameters).fetchall()


def _batches(con: duckdb.DuckDBPyConnection, query: str, **parameters: Any) -> Iterator[Iterator[tuple[Any, ...]]]:
    answer = con.execute(catalog.page_query(query), parameters)
    while rows := answer.fetchmany(_BATCH_ROWS):
        yield iter(rows)
