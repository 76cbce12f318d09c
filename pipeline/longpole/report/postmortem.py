"""What the post-mortem page shows, as plain data: a few steps from close by, and how the recording ended.

Every number comes out of one query of sql/pages. Of a rank's events only those around a step are read, and no more come
back than bars that a screen can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from longpole.errors import LongpoleError
from longpole.report import answers, explain, story

MAX_STEPS = 4
"""Steps of a page: each has a timeline of up to a megabyte."""

MAX_DRAWN_RANKS = 16
"""Ranks of a timeline: with five lanes each it is as high as a screen."""

MAX_ROWS = 64
"""Ranks in a table, collectives' arrivals in a chart."""

N_BINS = 400
"""Parts of a step that are told apart: on a wide page one is 3 px."""

MIN_BINS = 25
"""Fewer than these parts say nothing."""

MAX_BARS = 30_000
"""Bars of all timelines of a page: 2 MB of its text, drawn in two seconds."""

MAX_STREAMS = 4
"""Streams of a rank: compute, copies and two communicators."""

MAX_THREADS = 3
"""Threads of a rank: the one that launches, autograd's and another; without a device, two that exchange."""

MAX_COLLECTIVES = 40
"""Collectives of a step told one by one, those with the longest skew."""

MAX_KERNELS = 15
"""Kernels that differ most."""

MAX_STALLS = 5
"""Stretches of a path that a host held up, told with what it did."""

MAX_EVENTS = 3
"""Events told of each sort."""

MAX_ENDS = 8
"""Ranks whose last events are told, the first to stop first."""


@dataclass(frozen=True)
class Run:
    """The row of postmortem_run."""

    run: str
    n_steps: int
    first_step: int
    last_step: int
    worst_step: int
    median_step: int
    n_ranks: int
    world_size: int | None
    device: str | None
    verdict: str | None
    reasons: tuple[str, ...]
    residual_ns: int | None


@dataclass(frozen=True)
class Step:
    """A row of postmortem_steps."""

    step: int
    start_ns: int | None
    length_ns: int
    is_timed: bool
    beyond_ns: int | None
    beyond_ratio: float | None
    verdict: str


@dataclass(frozen=True)
class Stall:
    """A row of postmortem_stalls, with the rows of postmortem_around."""

    offset_ns: int
    start_ns: int
    end_ns: int
    duration_ns: int
    share_ratio: float
    rank: int
    lane: str
    kind: str
    name: str | None
    n_segments: int
    next_kind: str | None
    next_name: str | None
    n_stalls: int
    all_ns: int
    shown_ns: int
    around: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class StepData:
    """One step from close by; each frame is the answer of the query postmortem_<field>.

    `bars` has a column `rank` before those of its query. `other` is the step that it is compared with, None for that
    step itself.
    """

    step: Step
    told: tuple[str, ...]
    n_bins: int
    ranks: pl.DataFrame
    path: pl.DataFrame
    bars: pl.DataFrame
    collectives: pl.DataFrame
    other: int | None
    kinds: pl.DataFrame
    changes: pl.DataFrame
    kernels: pl.DataFrame
    stalls: tuple[Stall, ...]


@dataclass(frozen=True)
class Ends:
    """How the recording ended: the answers of postmortem_ends, postmortem_open and postmortem_last_events.

    The last has a column `rank` before those of its query.
    """

    ranks: pl.DataFrame
    last_events: pl.DataFrame
    open: pl.DataFrame


@dataclass(frozen=True)
class Postmortem:
    """Everything the page shows."""

    run: Run
    steps: tuple[StepData, ...]
    ends: Ends


def build(con: duckdb.DuckDBPyConnection, run: str, steps: tuple[int | None, int | None] | None = None) -> Postmortem:
    """Return the post-mortem of the steps from the first to the last of `steps`, else of the longest and a median one.

    Raises:
        LongpoleError: The run is not there, it has no such steps, or too many for one page; says what there is.
    """
    head = _head(con, run)
    chosen = _chosen(con, head, steps)
    found = tuple(_step(con, head, step, MAX_BARS // len(chosen)) for step in chosen)
    return Postmortem(run=head, steps=found, ends=_ends(con, run, max(step.length_ns for step in chosen)))


def _head(con: duckdb.DuckDBPyConnection, run: str) -> Run:
    rows = answers.rows(con, "postmortem_run", run=run)
    if not rows:
        raise LongpoleError(f"the store has no run named {run!r}", "`longpole runs` lists the runs it has.")
    if not rows[0]["n_steps"]:
        raise LongpoleError(
            f"run {run!r} has no steps to look into",
            f"Its overview shows what it has: longpole report {run}. A run not yet analyzed: longpole analyze {run}.",
        )
    return Run(**rows[0] | {"run": run, "reasons": tuple(rows[0]["reasons"] or ())})


def _chosen(con: duckdb.DuckDBPyConnection, head: Run, steps: tuple[int | None, int | None] | None) -> list[Step]:
    if steps is None:
        numbers = list(dict.fromkeys((head.worst_step, head.median_step)))
        return [step for number in numbers for step in _steps(con, head, number, number)]
    first = head.first_step if steps[0] is None else steps[0]
    last = head.last_step if steps[1] is None else steps[1]
    found = _steps(con, head, first, last)
    has = "step" if head.n_steps == 1 else f"{head.n_steps} steps,"
    recorded = f"{head.first_step}" if head.n_steps == 1 else f"{head.first_step} to {head.last_step}"
    if not found:
        asked = f"step {first}" if first == last else f"step from {first} to {last}"
        raise LongpoleError(f"run {head.run!r} has no {asked}", f"It has {has} {recorded}.")
    if len(found) > MAX_STEPS:
        raise LongpoleError(
            f"steps {first} to {last} are more than the {MAX_STEPS} that a page shows",
            f"Give fewer, as --steps {found[0].step}:{found[MAX_STEPS - 1].step}. It has {has} {recorded}.",
        )
    return found


def _steps(con: duckdb.DuckDBPyConnection, head: Run, first: int, last: int) -> list[Step]:
    span = {"first_step": first, "last_step": last, "median_step": head.median_step, "max_rows": MAX_STEPS + 1}
    return [Step(**row) for row in answers.rows(con, "postmortem_steps", run=head.run, **span)]


def _step(con: duckdb.DuckDBPyConnection, head: Run, step: Step, max_bars: int) -> StepData:
    one = {"run": head.run, "step": step.step}
    ranks = answers.frame(con, "postmortem_ranks", **one, max_drawn=MAX_DRAWN_RANKS, max_rows=MAX_ROWS)
    path = answers.frame(con, "postmortem_path", **one, n_bins=N_BINS)
    n_bins, bars = _bars(con, one, step, ranks, max_bars)
    two = {**one, "other_step": head.median_step}
    has_other = step.step != head.median_step
    kinds = answers.frame(con, "postmortem_kinds", **two)
    changes = answers.frame(con, "postmortem_changes", **two, max_rows=MAX_ROWS)
    kernels = answers.frame(con, "postmortem_kernels", **two, max_rows=MAX_KERNELS)
    return StepData(
        step=step,
        told=_told(con, head.run, step, path),
        n_bins=n_bins,
        ranks=ranks,
        path=path,
        bars=bars,
        collectives=answers.frame(con, "postmortem_collectives", **one, max_rows=MAX_COLLECTIVES, max_ranks=MAX_ROWS),
        other=head.median_step if has_other else None,
        kinds=kinds,
        changes=changes,
        kernels=kernels,
        stalls=_stalls(con, one, ranks),
    )


def _told(con: duckdb.DuckDBPyConnection, run: str, step: Step, path: pl.DataFrame) -> tuple[str, ...]:
    if not step.is_timed or path.height == 0:
        return ()
    return tuple(story.sentences(explain.build(con, run, step.step, has_stretches=False)))


def _bars(
    con: duckdb.DuckDBPyConnection, one: dict[str, Any], step: Step, ranks: pl.DataFrame, max_bars: int
) -> tuple[int, pl.DataFrame]:
    """Return into how many parts the step is cut, and its bars: fewer parts until the page can hold them."""
    drawn = ranks.filter(pl.col("is_drawn")).to_dicts()
    n_bins = N_BINS
    while True:
        frames = [_rank_bars(con, one, step, rank, n_bins) for rank in drawn]
        bars = pl.concat(frames)
        if bars.height <= max_bars or n_bins == MIN_BINS:
            return n_bins, bars
        n_bins = max(MIN_BINS, min(n_bins - 1, n_bins * max_bars // bars.height))


def _rank_bars(
    con: duckdb.DuckDBPyConnection, one: dict[str, Any], step: Step, rank: dict[str, Any], n_bins: int
) -> pl.DataFrame:
    lanes = {"n_bins": n_bins, "max_streams": MAX_STREAMS, "max_threads": MAX_THREADS}
    bars = answers.frame(con, "postmortem_bars", **one, **lanes, **_span(rank, step), start_ns=step.start_ns)
    return bars.select(pl.lit(rank["rank"], pl.Int32).alias("rank"), pl.all())


def _span(rank: dict[str, Any], step: Step) -> dict[str, Any]:
    """Return where a rank's events of a step lie on its own clock.

    What reaches into the step is looked for from a step's length before it.
    """
    return {
        "rank": rank["rank"],
        "from_ns": rank["from_ns"],
        "to_ns": rank["to_ns"],
        "read_ns": rank["from_ns"] - step.length_ns,
        "length_ns": step.length_ns,
    }


def _stalls(con: duckdb.DuckDBPyConnection, one: dict[str, Any], ranks: pl.DataFrame) -> tuple[Stall, ...]:
    spans = {row["rank"]: row for row in ranks.to_dicts()}
    found = []
    for row in answers.rows(con, "postmortem_stalls", **one, max_rows=MAX_STALLS):
        rank = spans.get(row["rank"])
        around = () if rank is None else tuple(_around(con, one["run"], row, rank))
        found.append(Stall(**row, around=around))
    return tuple(found)


def _around(
    con: duckdb.DuckDBPyConnection, run: str, stall: dict[str, Any], rank: dict[str, Any]
) -> Sequence[dict[str, Any]]:
    when = {name: stall[name] for name in ("rank", "lane", "start_ns", "end_ns")}
    read = {"read_ns": rank["from_ns"] - (rank["to_ns"] - rank["from_ns"]), "to_ns": rank["to_ns"]}
    return answers.rows(con, "postmortem_around", run=run, **when, **read, max_rows=MAX_EVENTS)


def _ends(con: duckdb.DuckDBPyConnection, run: str, longest_ns: int) -> Ends:
    ranks = answers.frame(con, "postmortem_ends", run=run, max_rows=MAX_ROWS)
    early = ranks.filter(pl.col("is_early")).to_dicts()[:MAX_ENDS]
    events = [_last_events(con, run, rank, longest_ns) for rank in early]
    stops = [rank["last_ns"] for rank in early if rank["last_ns"] is not None]
    missing = {"max_ranks": MAX_DRAWN_RANKS, "max_rows": MAX_STALLS}
    return Ends(
        ranks=ranks,
        last_events=pl.concat(events) if events else pl.DataFrame(),
        open=answers.frame(con, "postmortem_open", run=run, stop_ns=stops[0], **missing) if stops else pl.DataFrame(),
    )


def _last_events(con: duckdb.DuckDBPyConnection, run: str, rank: dict[str, Any], longest_ns: int) -> pl.DataFrame:
    last_ns = rank["seen_own_ns"] if rank["last_own_ns"] is None else rank["last_own_ns"]
    read = {"read_ns": last_ns - 2 * longest_ns, "last_ns": last_ns, "max_rows": MAX_EVENTS}
    events = answers.frame(con, "postmortem_last_events", run=run, rank=rank["rank"], **read)
    return events.select(pl.lit(rank["rank"], pl.Int32).alias("rank"), pl.all())
