"""Charts: each function turns the rows of one query into one Altair chart that names its rows instead of holding them.

The page fills the named rows in, once for all charts, and sets the two parameters `first_bin` and `last_bin` that say
which columns are shown. Colours come from the ranges of the theme, so a chart is drawn in either scheme unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import altair as alt
import polars as pl

Chart: TypeAlias = alt.Chart | alt.LayerChart

PARTS = ("compute", "exposed_comm", "exposed_copy", "idle")
"""The parts of a window in the order of the theme's category range; they add up to it."""

CAUSES = ("input", "sync", "host", "launch", "turnaround", "other")
"""The causes of idle time in the order of the theme's ordinal range; they add up to it."""

KINDS = ("compute", "comm", "copy", "host", "launch", "turnaround", "sync", "input", "unknown")
"""The kinds of a critical path in the order of the theme's diverging range, which is a list like the others; they add
up to the step."""

N_DOTTED = 60
"""Up to this many columns each step time has a dot: a line alone does not show a single step."""

MIN_COLUMNS = 4
"""A chart of fewer columns leaves room at its right: one step as wide as the page says less, not more."""

OVERLAP = 0.2
"""Cells of a heat map reach this far under the next column, else anti-aliased edges let the page shine through."""

MIN_SHARE_DOMAIN = 0.1
"""A heat map's colours span at least 0 to 10 % of the window: noise around 1 % must not look like a finding."""

PALE = 0.35
"""Opacity of what is within the noise."""

_APART = alt.Scale(paddingInner=0.04)
"""Workers are no course of time: their cells stand apart."""

_FIRST_STEP = "data('step_bins')[datum.value] ? data('step_bins')[datum.value].first_step : ''"
_SHOWN = "datum.bin >= first_bin && datum.bin <= last_bin"
_RANK_SHOWN = "shown_rank < 0 || datum.rank == shown_rank"
_LABEL = "datum.first_step == datum.last_step ? '' + datum.first_step : datum.first_step + '–' + datum.last_step"


@dataclass(frozen=True)
class Measure:
    """What a heat map shows: `rows` names its cells, `ramp` a range of the theme, `whole` what its shares are of."""

    rows: Literal["comm_cells", "idle_cells", "late_cells"]
    name: str
    ramp: Literal["heatmap", "ramp"]
    whole: str = "window"


EXPOSED_COMM = Measure("comm_cells", "exposed comm", "heatmap")
IDLE = Measure("idle_cells", "idle", "ramp")
LATE = Measure("late_cells", "late time", "heatmap", "step")


def step_breakdown(step_bins: pl.DataFrame) -> Chart:
    """Return the parts of the mean window stacked per column, under the line of the step times, in ms."""
    bars = _stacked(step_bins, PARTS, "part of the window", "category")
    times = (
        alt.Chart()
        .transform_filter(_SHOWN)
        .transform_calculate(
            ms="isValid(datum.step_ns) ? datum.step_ns / 1e6 : null",
            min_ms="datum.step_min_ns / 1e6",
            max_ms="datum.step_max_ns / 1e6",
            label=_LABEL,
        )
        .encode(x=_bin_axis("bin"), tooltip=_step_tooltip(step_bins))
    )
    line = times.mark_line(style="step-time").encode(y=_ms_axis("ms"), detail="capture:N", tooltip=alt.value(None))
    layers: list[alt.Chart] = [bars]
    if _is_binned(step_bins):
        layers.append(times.mark_rule(style="step-range").encode(y=_ms_axis("min_ms"), y2="max_ms:Q"))
    layers.append(line.add_params(alt.selection_interval(name="brush", encodings=["x"])))
    if step_bins.height <= N_DOTTED:
        layers.append(times.mark_point(style="step-dot").encode(y=_ms_axis("ms")))
    return _over_steps(layers, step_bins, "Step time and what the ranks did in it", height=260)


def idle_causes(step_bins: pl.DataFrame) -> Chart:
    """Return the mean idle time per column stacked by its cause, in ms."""
    names = tuple(f"idle_{cause}" for cause in CAUSES)
    bars = _stacked(step_bins, names, "cause", "ordinal")
    return _over_steps([bars], step_bins, "Idle time by cause", height=140)


def path_kinds(path_bins: pl.DataFrame, step_bins: pl.DataFrame) -> Chart:
    """Return the mean time of a step's critical path per column stacked by kind, in ms."""
    bars = _stacked(step_bins, KINDS, "kind", "diverging", counted=("n_paths", "paths"), is_looked_up=True)
    return _over_steps([bars], step_bins, "Critical path by kind", height=200, rows="path_bins")


def heat_map(cells: pl.DataFrame, step_bins: pl.DataFrame, measure: Measure) -> Chart:
    """Return ranks by columns, coloured by the share of the rank's windows that the measure takes."""
    is_binned = _is_binned(step_bins)
    spread = [alt.Tooltip(f"{name}_ms:Q", title=f"{name} (ms)", format=",.3f") for name in ("min", "median", "max")]
    tooltip = [
        alt.Tooltip("rank:O"),
        alt.Tooltip("label:N", title="steps" if is_binned else "step"),
        alt.Tooltip("share_ratio:Q", title=f"{measure.name}, share of {measure.whole}", format=".2%"),
        alt.Tooltip("mean_ms:Q", title="mean (ms)" if is_binned else "ms", format=",.3f"),
        alt.Tooltip("value_mean_ns:Q", title="mean (ns)" if is_binned else "ns", format=",d"),
        *(spread if is_binned else []),
    ]
    n_rows = cells["rank"].n_unique()
    chart = (
        _with_steps(alt.Chart().transform_filter(_SHOWN).transform_filter(_RANK_SHOWN))
        .transform_calculate(
            x0="datum.bin - 0.5",
            x1=f"datum.bin + {0.5 + OVERLAP}",
            label=_LABEL,
            mean_ms="datum.value_mean_ns / 1e6",
            min_ms="datum.value_min_ns / 1e6",
            median_ms="datum.value_median_ns / 1e6",
            max_ms="datum.value_max_ns / 1e6",
        )
        .mark_rect(clip=True)
        .encode(
            x=_bin_axis("x0"),
            x2="x1",
            y=alt.Y("rank:O", title="rank", axis=alt.Axis(labelOverlap=True, ticks=False)),
            color=_share_colour(cells, measure),
            tooltip=tooltip,
        )
    )
    title = f"{measure.name.capitalize()} of each rank over the steps"
    return _over_steps([chart], step_bins, title, height=row_px(n_rows) * n_rows, rows=measure.rows)


def worker_grid(cells: pl.DataFrame, step_bins: pl.DataFrame) -> Chart:
    """Return data-parallel rows by pipeline stages, coloured by the share of the steps that each worker was late."""
    chart = (
        alt.Chart()
        .transform_calculate(late_ms="datum.late_mean_ns / 1e6", compute_ms="datum.compute_mean_ns / 1e6")
        .mark_rect()
        .encode(
            x=alt.X(
                "stage:O",
                title="pipeline stage",
                scale=_APART,
                axis=alt.Axis(labelAngle=0, labelOverlap=True, ticks=False),
            ),
            y=alt.Y("dp:O", title="dp rank", scale=_APART, axis=alt.Axis(labelOverlap=True, ticks=False)),
            color=_share_colour(cells, LATE),
            tooltip=[
                alt.Tooltip("ranks:N"),
                alt.Tooltip("stage:O"),
                alt.Tooltip("dp:O", title="dp rank"),
                alt.Tooltip("share_ratio:Q", title=f"{LATE.name}, share of {LATE.whole}", format=".2%"),
                alt.Tooltip("late_ms:Q", title="late in the mean step (ms)", format=",.3f"),
                alt.Tooltip("late_mean_ns:Q", title="late in the mean step (ns)", format=",d"),
                alt.Tooltip("compute_ms:Q", title="compute in the mean step (ms)", format=",.3f"),
            ],
        )
    )
    height = row_px(cells["dp"].n_unique()) * cells["dp"].n_unique()
    return _over_steps([chart], step_bins, "Late time of each worker", height=height, rows="worker_cells")


def _share_colour(cells: pl.DataFrame, measure: Measure) -> alt.Color:
    top = cells["share_ratio"].max()
    largest = max(MIN_SHARE_DOMAIN, top if isinstance(top, float) else 0.0)
    return alt.Color(
        "share_ratio:Q",
        title=f"{measure.name}, share of {measure.whole} (%)",
        scale=alt.Scale(domain=[0, largest], range=measure.ramp),
        legend=alt.Legend(
            orient="top", direction="horizontal", format=".0%", gradientLength=240, titleLimit=300, tickCount=5
        ),
    )


def row_px(n_rows: int) -> int:
    """Return how high a row is where there are so many, in px."""
    return 22 if n_rows <= 8 else 14 if n_rows <= 20 else 9


def timeline_steps(step_bins: pl.DataFrame) -> Chart:
    """Return the recorded, re-timed and ideal time of an op timeline's steps as lines, in ms."""
    names = ["recorded_ns", "retimed_ns", "ideal_ns"]
    lines = (
        alt.Chart()
        .transform_filter(_SHOWN)
        .transform_fold(list[str | alt.FieldName](names), as_=["column", "ns"])
        .transform_calculate(
            line="{recorded_ns: 'recorded', retimed_ns: 're-timed', ideal_ns: 'ideal'}[datum.column]",
            ms="isValid(datum.ns) ? datum.ns / 1e6 : null",
            label=_LABEL,
        )
        .encode(
            x=_bin_axis("bin"),
            y=_ms_axis("ms"),
            color=alt.Color(
                "line:N",
                title=None,
                scale=alt.Scale(domain=["ideal", "recorded", "re-timed"], range="category"),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=[
                alt.Tooltip("label:N", title="step"),
                alt.Tooltip("line:N"),
                alt.Tooltip("ms:Q", title="median (ms)", format=",.3f"),
                alt.Tooltip("ns:Q", title="median (ns)", format=",d"),
            ],
        )
    )
    layers = [lines.mark_line().add_params(alt.selection_interval(name="brush", encodings=["x"]))]
    if step_bins.height <= N_DOTTED:
        layers.append(lines.mark_point(filled=True))
    return _over_steps(layers, step_bins, "Step time", height=260)


def score_grid(grid: pl.DataFrame) -> Chart:
    """Return data-parallel ranks by pipeline stages, coloured by the slowdown that each worker's score says."""
    top = grid["score_ratio"].max()
    largest = max(1 + MIN_SHARE_DOMAIN, top if isinstance(top, float) else 0.0)
    n_rows = grid["dp_rank"].n_unique()
    cells = (
        alt.Chart()
        .mark_rect()
        .encode(
            x=alt.X("stage:O", title="pipeline stage", axis=alt.Axis(labelAngle=0, labelOverlap=True, ticks=False)),
            y=alt.Y("dp_rank:O", title="dp rank", axis=alt.Axis(labelOverlap=True, ticks=False)),
            color=alt.Color(
                "score_ratio:Q",
                title="score, times the ideal step",
                scale=alt.Scale(domain=[1, largest], range="heatmap", clamp=True),
                legend=alt.Legend(
                    orient="top", direction="horizontal", format=".2f", gradientLength=240, titleLimit=300, tickCount=5
                ),
            ),
            tooltip=[
                alt.Tooltip("rank:O"),
                alt.Tooltip("dp_rank:O", title="dp rank"),
                alt.Tooltip("stage:O"),
                alt.Tooltip("score_ratio:Q", title="score", format=".4f"),
                alt.Tooltip("dp_rank_ratio:Q", title="S of its dp rank alone", format=".4f"),
                alt.Tooltip("stage_ratio:Q", title="S of its stage alone", format=".4f"),
            ],
        )
    )
    framed: Chart = cells.properties(
        data=alt.NamedData("workers"),
        width="container",
        height=row_px(n_rows) * n_rows,
        title="Score of each worker",
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )
    return framed


def bands(rows: pl.DataFrame, step_bins: pl.DataFrame, measure: Measure) -> Chart:
    """Return the middle nine tenths of the ranks without a row in the heat map, and their median, by group."""
    by = str(rows["grouped_by"][0])
    places = sorted(rows["place"].unique().to_list())
    colour = alt.Color(
        "place:N",
        title="pipeline stage" if by == "stage" else by,
        scale=alt.Scale(domain=places, range=list(_GROUP_COLOURS)),
        legend=alt.Legend(orient="top") if len(places) > 1 else None,
    )
    base = _with_steps(alt.Chart().transform_filter(_SHOWN)).transform_calculate(label=_LABEL)
    y = alt.Y("low_ratio:Q", title=f"share of {measure.whole} (%)", axis=alt.Axis(format=".0%", tickCount=5))
    tooltip = [
        alt.Tooltip("label:N", title="steps" if _is_binned(step_bins) else "step"),
        *([alt.Tooltip("place:N", title=by)] if len(places) > 1 else []),
        alt.Tooltip("n_ranks:Q", title="ranks", format=",d"),
        alt.Tooltip("low_ratio:Q", title="p5", format=".2%"),
        alt.Tooltip("mid_ratio:Q", title="median", format=".2%"),
        alt.Tooltip("high_ratio:Q", title="p95", format=".2%"),
    ]
    spread = base.mark_area(opacity=0.25).encode(x=_bin_axis("bin"), y=y, y2="high_ratio:Q", color=colour)
    middle = base.mark_line().encode(x=_bin_axis("bin"), y=alt.Y("mid_ratio:Q"), color=colour, tooltip=tooltip)
    title = f"{measure.name.capitalize()} of the other ranks: p5 to p95, and median"
    return _over_steps([spread, middle], step_bins, title, height=160, rows=measure.rows.replace("cells", "bands"))


_GROUP_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6d31", "#999999")
"""Okabe and Ito's colours that a colour-blind reader tells apart, yellow left out for it fades on white."""


def waterfall(parts: Sequence[tuple[int, str, str]]) -> Chart:
    """Return the ledger's parts one under the other, each from where those before it end, in % of all device time.

    Args:
        parts: Of each its place, its name, and the part of a window whose colour it has.
    """
    named = ", ".join(f"{place}: '{label}'" for place, label, _ in parts)
    coloured = ", ".join(f"{place}: '{colour}'" for place, _, colour in parts)
    base = alt.Chart().transform_calculate(
        label=f"{{{named}}}[datum.place]",
        colour=f"{{{coloured}}}[datum.place]",
        hours="datum.device_ns / 3.6e12",
        share="format(datum.share_ratio, '.1%')",
        edge="max(datum.start_ratio, datum.end_ratio)",
    )
    y = alt.Y("label:N", title=None, sort=alt.SortField("place"), axis=alt.Axis(ticks=False, labelLimit=220))
    x = alt.X("start_ratio:Q", title="share of the devices' time (%)", axis=alt.Axis(format=".0%", tickCount=6))
    bars = base.mark_bar().encode(
        y=y,
        x=x,
        x2="end_ratio:Q",
        color=alt.Color("colour:N", legend=None, scale=alt.Scale(domain=list(PARTS), range="category")),
        tooltip=[
            alt.Tooltip("label:N", title="part"),
            alt.Tooltip("share_ratio:Q", title="share", format=".3%"),
            alt.Tooltip("device_ns:Q", title="device time (ns)", format=",d"),
            alt.Tooltip("hours:Q", title="device hours", format=",.4f"),
        ],
    )
    shares = base.mark_text(align="left", dx=5, style="share").encode(y=y, x=alt.X("edge:Q"), text="share:N")
    return framed([bars, shares], "Where the devices' time goes", height=22 * len(parts), rows="ledger")


def part_changes(rows: str, items: Sequence[str], title: str) -> Chart:
    """Return the change of each part as a bar in ms, over the range that is noise; `items` from top to bottom."""
    y = alt.Y("item:N", title=None, sort=list(items), axis=alt.Axis(minExtent=96, maxExtent=150, ticks=False))
    base = alt.Chart().transform_calculate(
        ms="datum.change_ns / 1e6",
        baseline_ms="datum.baseline_ns / 1e6",
        value_ms="datum.value_ns / 1e6",
        noise_ms="isValid(datum.noise_ns) ? datum.noise_ns / 1e6 : 0",
        low_ms="-datum.noise_ms",
    )
    tooltip = [
        alt.Tooltip("item:N", title="part"),
        alt.Tooltip("baseline_ms:Q", title="baseline (ms)", format=",.3f"),
        alt.Tooltip("value_ms:Q", title="this run (ms)", format=",.3f"),
        alt.Tooltip("ms:Q", title="change (ms)", format="+,.3f"),
        alt.Tooltip("change_ns:Q", title="change (ns)", format="+,d"),
        alt.Tooltip("noise_ms:Q", title="noise up to (ms)", format=",.3f"),
        alt.Tooltip("verdict:N"),
    ]
    x = alt.X(
        "ms:Q",
        stack=None,
        title="change of the median step (ms)",
        axis=alt.Axis(grid=True, format="+,.6~f", tickCount=6),
    )
    noise = base.mark_bar(style="noise", height=alt.RelativeBandSize(0.9)).encode(
        x=alt.X("low_ms:Q"), x2="noise_ms:Q", y=y, tooltip=tooltip
    )
    bars = base.mark_bar(style="change", height=alt.RelativeBandSize(0.5)).encode(
        x=x, y=y, opacity=alt.condition("datum.is_changed", alt.value(1), alt.value(PALE)), tooltip=tooltip
    )
    zero = alt.Chart().mark_rule(style="zero").encode(x=alt.datum(0, type="quantitative"))
    return framed([noise, bars, zero], title, height=22 * len(items), rows=rows)


def step_shares(title: str) -> Chart:
    """Return the step times of two runs, from the shortest to the longest, by the share of the run's steps."""
    base = alt.Chart().transform_calculate(
        ms="datum.value_ns / 1e6", whose="datum.side == 'run' ? 'this run' : 'baseline'"
    )
    lines = [
        base.transform_filter(f"datum.side == '{side}'")
        .mark_line(style=style, interpolate="step-before")
        .encode(
            x=alt.X(
                "percent:Q",
                title="share of the steps that take no longer (%)",
                scale=alt.Scale(domain=[0, 100], nice=False),
            ),
            y=alt.Y(
                "ms:Q", title="step time (ms)", scale=alt.Scale(zero=False, padding=10), axis=alt.Axis(tickCount=5)
            ),
            tooltip=[
                alt.Tooltip("whose:N", title="run"),
                alt.Tooltip("percent:Q", title="steps (%)"),
                alt.Tooltip("ms:Q", title="step time (ms)", format=",.3f"),
            ],
        )
        for side, style in (("baseline", "baseline-time"), ("run", "step-time"))
    ]
    return framed(lines, title, height=220, rows="step_shares")


def _stacked(
    step_bins: pl.DataFrame,
    names: tuple[str, ...],
    what: str,
    colours: Literal["category", "ordinal", "diverging"],
    *,
    counted: tuple[str, str] = ("n_windows", "windows"),
    is_looked_up: bool = False,
) -> alt.Chart:
    half = 0.42 if step_bins.height <= N_DOTTED else 0.5
    columns: list[str | alt.FieldName] = [f"{name}_ns" for name in names]
    words = [name.removeprefix("idle_").replace("_", " ") for name in names]
    order = "{" + ", ".join(f"'{column}': {i}" for i, column in enumerate(columns)) + "}[datum.column]"
    word = "[" + ", ".join(f"'{word}'" for word in words) + "][datum.order]"
    steps = "steps" if _is_binned(step_bins) else "step"
    base = alt.Chart().transform_filter(_SHOWN)
    bars: alt.Chart = (
        (_with_steps(base) if is_looked_up else base)
        .transform_fold(columns, as_=["column", "ns"])
        .transform_calculate(order=order, label=_LABEL)
        .transform_stack(
            stack="ns", groupby=["bin"], sort=[alt.SortField("order")], as_=["low_ns", "high_ns"], offset="zero"
        )
        .transform_calculate(
            part=word,
            x0=f"datum.bin - {half}",
            x1=f"datum.bin + {half}",
            ms="datum.ns / 1e6",
            low_ms="datum.low_ns / 1e6",
            high_ms="datum.high_ns / 1e6",
        )
        .mark_rect(clip=True)
        .encode(
            x=_bin_axis("x0"),
            x2="x1",
            y=_ms_axis("low_ms"),
            y2="high_ms",
            color=alt.Color("part:N", legend=None, scale=alt.Scale(domain=words, range=colours)),
            tooltip=[
                alt.Tooltip("label:N", title=steps),
                alt.Tooltip("part:N", title=what),
                alt.Tooltip("ms:Q", title="mean (ms)", format=",.3f"),
                alt.Tooltip("ns:Q", title="mean (ns)", format=",d"),
                alt.Tooltip(f"{counted[0]}:Q", title=counted[1], format=",d"),
            ],
        )
    )
    return bars


def _with_steps(chart: alt.Chart) -> alt.Chart:
    # The lookup also brings `step_bins` into the chart, which the labels of the axis are taken from.
    steps = alt.LookupData(alt.NamedData("step_bins"), "bin", ["first_step", "last_step"])
    joined: alt.Chart = chart.transform_lookup("bin", from_=steps)
    return joined


def _is_binned(step_bins: pl.DataFrame) -> bool:
    return step_bins.filter(pl.col("n_steps") > 1).height > 0


def _step_tooltip(step_bins: pl.DataFrame) -> list[alt.Tooltip]:
    if not _is_binned(step_bins):
        return [
            alt.Tooltip("label:N", title="step"),
            alt.Tooltip("ms:Q", title="step time (ms)", format=",.3f"),
            alt.Tooltip("step_ns:Q", title="step time (ns)", format=",d"),
        ]
    return [
        alt.Tooltip("label:N", title="steps"),
        alt.Tooltip("min_ms:Q", title="shortest (ms)", format=",.3f"),
        alt.Tooltip("ms:Q", title="median (ms)", format=",.3f"),
        alt.Tooltip("max_ms:Q", title="longest (ms)", format=",.3f"),
        alt.Tooltip("step_max_ns:Q", title="longest (ns)", format=",d"),
    ]


def _bin_axis(field: str) -> alt.X:
    # Columns stand side by side whatever their step numbers, so a gap between captures takes no room.
    domain = [
        alt.ExprRef("first_bin - 0.5"),
        alt.ExprRef(f"max(last_bin + 0.5, first_bin + {MIN_COLUMNS - 0.5})"),
    ]
    return alt.X(
        f"{field}:Q",
        title="step number",
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(format="d", tickMinStep=1, labelExpr=_FIRST_STEP, labelOverlap=True, labelFlush=False),
    )


def _ms_axis(field: str) -> alt.Y:
    return alt.Y(f"{field}:Q", title="time (ms)", scale=alt.Scale(nice=True, zero=True), axis=alt.Axis(tickCount=5))


def framed(layers: Sequence[alt.Chart], title: str, *, height: int, rows: str | None = None) -> alt.LayerChart:
    """Return layers as one chart as wide as the page; `rows` names what those without rows of their own draw."""
    layered = alt.layer(*layers)
    assert isinstance(layered, alt.LayerChart)  # a layer of facets would be something else; none is made here
    drawn: alt.LayerChart = layered.properties(
        width="container",
        height=height,
        title=title,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        **({} if rows is None else {"data": alt.NamedData(rows)}),
    )
    return drawn


def _over_steps(
    layers: Sequence[alt.Chart], step_bins: pl.DataFrame, title: str, *, height: int, rows: str = "step_bins"
) -> Chart:
    """Return layers as a chart that follows the range of steps and the rank that the page shows."""
    return framed(layers, title, height=height, rows=rows).add_params(
        alt.param(name="first_bin", value=0),
        alt.param(name="last_bin", value=max(0, step_bins.height - 1)),
        alt.param(name="shown_rank", value=-1),
    )
