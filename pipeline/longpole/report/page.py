"""The overview page: what each section shows, and what it says where there is nothing to show.

Everything a dump could have written reaches the page through Jinja's autoescape; the block of chart data holds numbers
alone.
"""

from __future__ import annotations

import polars as pl

from longpole.report import charts, document, flight_page, words
from longpole.report.document import Figure, Section
from longpole.report.overview import Overview

CANVAS_CELLS = 5_000
"""Beyond this many cells a heat map is drawn on a canvas: as many SVG elements make a page slow to scroll."""

KIND_COLOURS = {"compute": "compute", "comm": "comm", "copy": "copy"}
"""The theme's colour of each kind of kernel; another kind, which no view should have, gets none."""


SECTIONS = (
    Section(
        "steps",
        "Step time",
        ("steps", "rank_steps"),
        "SELECT step, avg(compute_ns), avg(exposed_comm_ns), avg(exposed_copy_ns), avg(idle_ns) "
        "FROM rank_steps GROUP BY step ORDER BY step",
        "A step lasts from the last rank's end of the step before to the last rank's end of this one. Compute, exposed "
        "comm, exposed copies and idle add up to a rank's own window; the bars are their mean over the ranks.",
    ),
    Section(
        "path",
        "What steps waited for",
        ("step_critical_path", "step_path_kinds"),
        "SELECT kind, name, rank, sum(duration_ns) AS path_ns FROM step_critical_path "
        "GROUP BY kind, name, rank ORDER BY path_ns DESC LIMIT 10",
        "The critical path is the chain of work that decided a step's length, each nanosecond once. Only what is on it "
        "can shorten the step, as long as no other chain takes over. (no event): the host shows nothing, as in a "
        "sleep; unknown: nothing in the dump says.",
    ),
    Section(
        "stragglers",
        "Who was waited for",
        ("step_stragglers", "run_stragglers", "run_straggler_places", "ranks", "steps"),
        "SELECT step, rank, late_ns, is_straggler, cause, place, verdict FROM step_stragglers "
        "ORDER BY late_ns DESC, step, rank",
        "Late time is how long others waited for a rank, from when it had not to wait itself, and no more than it "
        "spent beyond the median rank. A step's straggler is late beyond the noise and twice as late as any other; "
        "two that stall in turns tie, and nobody is named. To a slow link nobody is late, and in a pipeline all wait "
        "in turns: those of a link are late by how much longer than its siblings' its transfers took, those of a stage "
        "by how much more than the median stage it computes. What it costs is another question: longpole whatif "
        "--fix-rank. Blank: lateness is not known there.",
    ),
    Section(
        "fix",
        "What to fix first",
        ("run_opportunities", "run_whatif"),
        "SELECT what, kind, rank, name, factor, saved_ns, speedup_ratio, verdict FROM run_opportunities "
        "ORDER BY saved_ns DESC",
        "Each change alone, predicted by a replay of every rank's dependencies over all steps recorded: another chain "
        "may take over, so savings do not add up. At the ranks' median: each launch and kernel takes no longer than "
        "the same one on the median rank.",
    ),
    Section(
        "ledger",
        "Where the devices' time goes",
        ("step_ledger", "step_mfu", "run_mfu"),
        "SELECT part, sum(device_ns) AS device_ns, min(reason) AS reason FROM step_ledger GROUP BY part, place "
        "ORDER BY place",
        "The parts add up to the step times of all ranks. Model FLOPs at peak is MFU; waiting for ranks, a pipeline "
        "bubble where it is a send or receive, and transfer are exposed communication; skew is what the ranks' own "
        "windows lack to the step time.",
    ),
    Section(
        "exchanges",
        "Exposed communication by group and operation",
        ("step_exchanges", "group_transfers", "collective_instances"),
        "SELECT group_id, op, sum(exposed_ns) AS exposed_ns, sum(wait_ns) AS wait_ns, median(busbw_bytes_per_s) "
        "AS busbw_bytes_per_s FROM step_exchanges GROUP BY group_id, op ORDER BY exposed_ns DESC",
        "Exposed is what these exchanges alone explain of the ranks' windows; waiting is the part of the time in them "
        "before the last rank had come, transfer the rest. Bus bandwidth by nccl-tests' convention, of exchanges whose "
        "members are all recorded.",
    ),
    Section(
        "stages",
        "Pipeline stages",
        ("pipeline_stages", "step_stages"),
        "SELECT * FROM pipeline_stages ORDER BY stage",
        "Bubble is device time that is idle or in an exposed send or receive; the schedule's is "
        "(p - 1) / (m + p - 1) for p stages and m microbatches that all take the same. Excess is compute beyond the "
        "median stage.",
    ),
    Section(
        "exposed-comm",
        "Exposed communication by rank and step",
        ("rank_steps",),
        "SELECT rank, step, exposed_comm_ns, duration_ns FROM rank_steps ORDER BY rank, step",
        "Exposed comm is time in which communication runs and compute does not. A rank that exposes little while the "
        "others expose much is often the one they wait for. Blank: the rank has no window there.",
    ),
    Section(
        "idle",
        "Idle by rank and step",
        ("rank_steps",),
        "SELECT rank, step, idle_ns, duration_ns FROM rank_steps ORDER BY rank, step",
        "Idle is time in which none of compute, communication and copies runs. Blank: the rank has no window there.",
    ),
    Section(
        "kernels",
        "Kernels",
        ("kernels",),
        "SELECT name, kind, sum(n_calls) AS n_calls, sum(total_ns) AS total_ns, sum(exposed_ns) AS exposed_ns "
        "FROM kernels GROUP BY name, kind ORDER BY exposed_ns DESC",
        "Total sums the calls' durations, so calls that overlap count each. Exposed is the part of the windows that "
        "this kernel alone explains, compute before comm before copies; over all kernels, with idle, it is the window.",
    ),
    Section(
        "ranks",
        "Ranks",
        ("ranks", "rank_steps", "rank_captures"),
        "SELECT rank, median(duration_ns), sum(compute_ns) / sum(duration_ns) AS compute_ratio, "
        "sum(idle_ns) / sum(duration_ns) AS idle_ratio FROM rank_steps GROUP BY rank ORDER BY rank",
        "Idle by what the next work waited for: input (the batch), sync (a synchronising call), host (launched after "
        "the device ran dry), launch (launched, not begun), turnaround (gaps up to 5 µs), other (no launch recorded).",
    ),
    Section(
        "coverage",
        "Coverage: what these numbers stand on",
        ("run_coverage", "dumps", "steps", "rank_steps", "rank_captures"),
        "SELECT * FROM run_coverage ORDER BY verdict",
        "A number that would mislead is left out and says n/a. Skipped events were left out on purpose, dropped ones "
        "are malformed, salvaged ones were read after a repair.",
    ),
)


def render(data: Overview, *, tool_version: str, hang: flight_page.Hang | None = None) -> str:
    """Return the page as HTML that needs no other file and makes no request.

    Args:
        hang: What the run's flight recorders say, where it has their dumps too.
    """
    return document.render(
        "overview.html.j2",
        _figures(data),
        _datasets(data),
        n_bins=data.step_bins.height,
        context={
            "data": data,
            "run": data.run,
            "tool_version": tool_version,
            "sections": _sections(data, hang),
            "hang": hang,
            "ranks_seen": words.ranks_seen(data.run),
            "summary": words.summary(data.run),
            "caveats": words.caveats(data.run),
            "answers": words.answers(data),
            "nobody": words.nobody_named(data.late),
            "causes": charts.CAUSES,
            "kinds": [(kind_colour(kind), kind) for kind in charts.KINDS],
            "parts": _PARTS,
            "kind_colours": KIND_COLOURS,
            "path_colours": {kind: kind_colour(kind) for kind in charts.KINDS},
        },
    )


def _sections(data: Overview, hang: flight_page.Hang | None) -> dict[str, Section]:
    """Return the sections that have rows, by id; those of flight recorders before the last, which is coverage."""
    mine = {s.id: s for s in SECTIONS if s.id != "stages" or data.stages.height}
    coverage = mine.pop("coverage")
    recorded = flight_page.shown(hang) if hang is not None else {}
    return {**mine, **{k: s for k, s in recorded.items() if k in ("hangs", "calls")}, "coverage": coverage}


_PARTS = (
    ("compute", "compute", "compute_ratio"),
    ("comm", "exposed comm", "exposed_comm_ratio"),
    ("copy", "exposed copies", "exposed_copy_ratio"),
    ("idle", "idle", "idle_ratio"),
)


def kind_colour(kind: str) -> str:
    """Return the theme's name of the colour of a kind of critical path."""
    return "idle" if kind == "unknown" else kind


def _figures(data: Overview) -> list[Figure]:
    run, bins = data.run, data.step_bins
    has_windows = bins.filter(pl.col("n_windows") > 0).height > 0
    if bins.height == 0:
        why = "no step was found; Ranks has each capture as a whole" if run.n_windows else "no rank has a window"
    else:
        why = "no step has a time" if run.n_timed_steps == 0 else "no rank has a window of its own"
    if run.n_timed_steps == 0:
        drawn = [Figure("step-chart", f"n/a: {why}")]
    else:
        steps = charts.step_breakdown(bins)
        drawn = [Figure("step-chart", words.step_finding(run, bins), steps, is_brushed=bins.height > 1)]
    if has_windows:
        drawn.append(Figure("cause-chart", words.idle_finding(run), charts.idle_causes(bins)))
    else:
        drawn.append(Figure("cause-chart", f"n/a: {why}"))
    finding = words.path_finding(data.path, run)
    if data.path_bins.height == 0:
        drawn.append(Figure("path-chart", finding))
    else:
        drawn.append(Figure("path-chart", finding, charts.path_kinds(data.path_bins, bins)))
    if data.late_cells.height:
        n_shown = data.late_cells["rank"].n_unique()
        limited = run.n_window_ranks > n_shown
        note = f"{n_shown} of {run.n_window_ranks} ranks: those waited for longest." if limited else ""
        late_map = charts.heat_map(data.late_cells, bins, charts.LATE)
        drawn.append(Figure("late-map", words.late_finding(data.late), late_map, note=note))
    if data.worker_cells.height:
        grid = charts.worker_grid(data.worker_cells, bins)
        drawn.append(Figure("worker-map", words.grid_finding(data.worker_cells), grid))
    if data.ledger.height:
        drawn.append(Figure("ledger-chart", words.ledger_finding(data), charts.waterfall(_ledger_parts(data.ledger))))
    else:
        drawn.append(Figure("ledger-chart", words.ledger_finding(data)))
    for id_, cells, spread, measure in (
        ("comm-map", data.comm_cells, data.comm_bands, charts.EXPOSED_COMM),
        ("idle-map", data.idle_cells, data.idle_bands, charts.IDLE),
    ):
        if cells.height == 0:
            drawn.append(Figure(id_, f"n/a: {why}"))
            continue
        n_shown = cells["rank"].n_unique()
        note = (
            f"{n_shown} of {run.n_window_ranks} ranks: those with the largest share over all steps."
            if n_shown < run.n_window_ranks
            else ""
        )
        renderer = "canvas" if cells.height > CANVAS_CELLS else "svg"
        chart = charts.heat_map(cells, bins, measure)
        drawn.append(Figure(id_, words.heat_finding(data.extremes, measure), chart, renderer, note=note))
        if spread.height:
            band = charts.bands(spread, bins, measure)
            drawn.append(Figure(id_.replace("map", "bands"), words.bands_finding(spread, measure), band))
    return drawn


_LEDGER_COLOURS = {"model": "compute", "recompute": "compute", "kernel_inefficiency": "compute", "compute": "compute"}
_LEDGER_COLOURS |= dict.fromkeys(("bubble", "wait", "transfer", "unsplit_comm"), "exposed_comm")
_LEDGER_COLOURS |= {"copies": "exposed_copy"}
"""Part of a window that a part of the ledger belongs to; the others are idle."""


def _ledger_parts(ledger: pl.DataFrame) -> list[tuple[int, str, str]]:
    rows = ledger.select("place", "part").rows()
    return [(place, words.PART_WORDS[part], _LEDGER_COLOURS.get(part, "idle")) for place, part in rows]


def _datasets(data: Overview) -> document.Datasets:
    frames = {
        "comm_bands": data.comm_bands.drop("grouped_by", "name", "n_others"),
        "comm_cells": data.comm_cells,
        "idle_bands": data.idle_bands.drop("grouped_by", "name", "n_others"),
        "idle_cells": data.idle_cells,
        "late_cells": data.late_cells,
        "ledger": data.ledger.drop("part", "size_place"),
        "path_bins": data.path_bins,
        "step_bins": data.step_bins,
        "worker_cells": data.worker_cells.drop("is_latest"),
    }
    return {name: frame.to_dict(as_series=False) for name, frame in frames.items()}
