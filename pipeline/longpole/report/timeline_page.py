"""The page of an op timeline: what stragglers cost its steps, and which workers they are."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import polars as pl

from longpole.report import answers, charts, document, stragglers, words
from longpole.report.document import Figure, Section
from longpole.report.overview import MAX_CHECK_ROWS, MAX_DUMP_ROWS, MAX_STAGE_ROWS, MAX_STEP_BINS

MAX_WORKERS = 4_096
"""Cells of the grid of workers: 64 stages of 64 replicas, still wider than a pixel each."""

MAX_GROUPS = 16
"""Rows of one kind of group, the slowest first."""

SECTIONS = (
    Section(
        "steps",
        "Step time as recorded, and without stragglers",
        ("run_whatif", "timeline_replays"),
        "SELECT group_key::BIGINT AS step, value_ratio, duration_ns, base_ns FROM run_whatif "
        "WHERE measure = 'S' AND dimension = 'step' ORDER BY step",
        "Re-timed: the dependencies replayed with each op's own duration, so gaps that no op explains are gone. Ideal: "
        "each compute op takes the mean of its type over dp ranks, stages and steps, each transfer the median. S is "
        "re-timed over ideal.",
    ),
    Section(
        "workers",
        "Which workers are slow",
        ("timeline_workers",),
        "SELECT dp_rank, stage, rank, score_ratio, is_slowest FROM timeline_workers ORDER BY score_ratio DESC, rank",
        "A worker's score is the smaller of the slowdowns that its dp rank and its stage alone make: a slow worker "
        "makes both slow, a slow stage every worker of it.",
    ),
    Section(
        "groups",
        "What each group costs",
        ("run_whatif",),
        "SELECT measure, dimension, group_key, value_ratio, duration_ns, base_ns, verdict FROM run_whatif "
        "WHERE dimension NOT IN ('step', 'rank') ORDER BY dimension, measure, value_ratio DESC",
        "S of a group: all ops ideal but its own. M_W and M_S: the share of the slowdown that goes when the slowest "
        "3 % of the workers, or the last stage, are made ideal; alone: the share they make while all else is ideal.",
    ),
    Section(
        "stages",
        "Pipeline stages",
        ("pipeline_stages",),
        "SELECT * FROM pipeline_stages ORDER BY stage",
        "Bubble is device time in no op, or in a send or receive alone; the schedule's is (p - 1) / (m + p - 1) for p "
        "stages and m microbatches that all take the same. Excess is compute beyond the median stage.",
    ),
    Section(
        "coverage",
        "Coverage: what these numbers stand on",
        ("run_coverage", "dumps"),
        "SELECT * FROM run_coverage ORDER BY verdict",
        "A number that would mislead is left out and says n/a.",
    ),
)


@dataclass(frozen=True)
class Timeline:
    """Everything the page shows: the terminal's lines, and the answers of the queries timeline_<field>."""

    run: str
    lines: tuple[str, ...]
    bins: pl.DataFrame
    grid: pl.DataFrame
    groups: pl.DataFrame
    stages: pl.DataFrame
    coverage: pl.DataFrame
    dumps: pl.DataFrame


def build(con: duckdb.DuckDBPyConnection, run: str) -> Timeline | None:
    """Return the page's rows; None for a run that is no op timeline."""
    told = stragglers.text(con, run)
    if not told:
        return None

    return Timeline(
        run=run,
        lines=tuple(told.split("\n")),
        bins=answers.frame(con, "timeline_bins", run=run, max_bins=MAX_STEP_BINS),
        grid=answers.frame(con, "timeline_grid", run=run, max_workers=MAX_WORKERS),
        groups=answers.frame(con, "timeline_groups", run=run, max_groups=MAX_GROUPS),
        stages=answers.frame(con, "overview_stages", run=run, max_stages=MAX_STAGE_ROWS),
        coverage=answers.frame(con, "overview_coverage", run=run, max_checks=MAX_CHECK_ROWS),
        dumps=answers.frame(con, "overview_dumps", run=run, max_dumps=MAX_DUMP_ROWS),
    )


def render(data: Timeline, *, tool_version: str) -> str:
    """Return the page as HTML that needs no other file and makes no request."""
    frames = {"step_bins": data.bins, "workers": data.grid}
    return document.render(
        "timeline.html.j2",
        _figures(data),
        {name: frame.to_dict(as_series=False) for name, frame in frames.items()},
        n_bins=data.bins.height,
        context={
            "data": data,
            "summary": data.lines[0],
            "findings": data.lines[1:],
            "sections": {s.id: s for s in SECTIONS if s.id != "stages" or data.stages.height},
            "tool_version": tool_version,
        },
    )


def _figures(data: Timeline) -> list[Figure]:
    if data.bins.height:
        n_steps = data.bins["n_all_steps"][0]
        steps = Figure(
            "step-chart",
            f"{words.count(n_steps)} {'step' if n_steps == 1 else 'steps'} as recorded, re-timed and ideal.",
            charts.timeline_steps(data.bins),
            is_brushed=data.bins.height > 1,
        )
    else:
        steps = Figure("step-chart", "n/a: no step could be replayed")
    if not data.grid.height:
        return [steps, Figure("worker-map", "n/a: no step could be replayed")]
    worst = data.grid.row(0, named=True)
    n_all = worst["n_workers"]
    finding = (
        f"The slowest worker is rank {worst['rank']}, dp rank {worst['dp_rank']} of stage {worst['stage']}: "
        f"{words.speedup(worst['score_ratio'])}."
    )
    note = f"The slowest {words.count(data.grid.height)} of {words.count(n_all)}." if data.grid.height < n_all else ""
    return [steps, Figure("worker-map", finding, charts.score_grid(data.grid), note=note)]
