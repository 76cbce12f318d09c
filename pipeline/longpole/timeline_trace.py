"""An op timeline as one trace: every rank a process, its ops as recorded and, below, as in the ideal step.

Steps lie one after the other, the ideal one beginning where the recorded one does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb

from longpole import catalog
from longpole.chrome_trace import Process, Sink, Trace, Written
from longpole.errors import LongpoleError

MOST_STEPS = 20
"""Steps that are exported unasked; more make a trace that a browser opens slowly."""

_LAST_STEP = 2**62
_RUN_PID = 10_000_000  # no job has as many ranks, and a rank is its process's id
_BATCH_ROWS = 20_000
_SIDES = {"recorded": 0, "ideal": 1}
_TRACKS = {"compute": 0, "wait": 1, "transfer": 1}


class Step(NamedTuple):
    """A step and where the trace has it."""

    step: int
    offset_ns: int
    recorded_ns: int
    retimed_ns: int | None
    ideal_ns: int | None


@dataclass(frozen=True)
class Choice:
    """What of a run is exported."""

    run: str
    steps: tuple[Step, ...]
    ranks: tuple[int, ...]


def choose(
    con: duckdb.DuckDBPyConnection,
    run: str,
    steps: tuple[int | None, int | None] | None,
    ranks: Collection[int] | None,
) -> Choice:
    """Return what to export: the steps from the first to the last of `steps`, None for all if they are few.

    Raises:
        LongpoleError: The run has no such steps or ranks, or too many steps to take all.
    """
    first, last = steps or (None, None)
    span = {"run": run, "first_step": first or 0, "last_step": _LAST_STEP if last is None else last}
    found = tuple(Step(*row) for row in con.execute(catalog.page_query("export_timeline_steps"), span).fetchall())
    if not found:
        raise LongpoleError(
            f"run {run!r} has no such steps", f"Analyze it first: longpole analyze {run}; or name others with --steps."
        )
    if steps is None and len(found) > MOST_STEPS:
        raise LongpoleError(
            f"run {run!r} has {len(found)} steps, {found[0].step} to {found[-1].step}: too many for one trace",
            f"Choose some, as --steps {found[0].step}:{found[3].step}.",
        )
    known = [r for (r,) in con.execute("SELECT DISTINCT rank FROM timeline_workers WHERE run = $1", [run]).fetchall()]
    absent = sorted(set(ranks or ()) - set(known))
    if absent:
        raise LongpoleError(
            f"run {run!r} has no rank {absent[0]}",
            f"Its ranks are from {min(known)} to {max(known)}; see timeline_workers.",
        )
    return Choice(run, found, tuple(sorted(r for r in known if ranks is None or r in ranks)))


def write(
    con: duckdb.DuckDBPyConnection, choice: Choice, sink: Sink, advance: Callable[[], None] = lambda: None
) -> Written:
    """Write the trace as ASCII JSON, piece by piece, and return what it holds; `advance` is called after each rank."""
    trace = Trace(sink, 0)
    first, last = choice.steps[0].step, choice.steps[-1].step
    trace.open({"run": choice.run, "steps": f"{first}-{last}", "clocks": "steps laid one after the other"})
    _write_steps(trace, choice)
    offsets = {step.step: step.offset_ns for step in choice.steps}
    wanted = set(choice.ranks)
    process: Process | None = None
    title = ""
    span = {"run": choice.run, "first_step": first, "last_step": last}
    answer = con.execute(catalog.page_query("export_timeline_ops"), span)
    while rows := answer.fetchmany(_BATCH_ROWS):
        for rank, dp_rank, stage, side, what, optype, step, place, start_ns, end_ns in rows:
            if rank not in wanted:
                continue
            if process is None or process.pid != rank:
                _finish(trace, process, title, advance)
                process, title = Process(rank), f"rank {rank} · dp {dp_rank} · stage {stage}"
            offset = offsets[step]
            track = process.track(_SIDES[side], f"{side} {'compute' if what == 'compute' else 'transfers'}",
                                  number=_TRACKS[what])  # fmt: skip
            name = f"wait {optype}" if what == "wait" else optype
            args: dict[str, Any] = {"step": step, "place": place}
            trace.slice(track, what, name, offset + start_ns, offset + end_ns, args)
        trace.flush()
    _finish(trace, process, title, advance)
    trace.close()
    return trace.written


def _finish(trace: Trace, process: Process | None, title: str, advance: Callable[[], None]) -> None:
    if process is not None:
        trace.names(process, title, process.pid + 1)
        trace.flush()
        advance()


def _write_steps(trace: Trace, choice: Choice) -> None:
    process = Process(_RUN_PID)
    for step in choice.steps:
        told: dict[str, int | str | None] = {"step": step.step, "retimed_ns": step.retimed_ns}
        for number, (side, length) in enumerate((("recorded", step.recorded_ns), ("ideal", step.ideal_ns))):
            if length is not None:
                track = process.track(number, f"{side} steps")
                trace.slice(track, "longpole", f"step {step.step}", step.offset_ns, step.offset_ns + length, told)
    trace.names(process, f"run {choice.run}", 0)
