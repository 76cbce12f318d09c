"""The charts of a post-mortem: ranks over one step with the critical path drawn over them, and who came when.

As in `charts`, a chart names its rows; the names of one step's begin with its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from longpole.report import words
from longpole.report.charts import KINDS, Chart, framed, row_px
from longpole.report.postmortem import StepData

NAME_WIDTH = 100
"""Characters of a name in a tooltip: kernel names run to thousands."""

MOST_HIGH_LANES = 40
"""Up to as many lanes each is high; more are lower, or the chart leaves the screen."""

PAINTS = {"wait": "comm", "call": "host", "range": "unknown"}
"""The kind whose colour a bar takes that is of none: a wait is a paler collective, calls are host time, ranges grey."""

OVERLAPS = 2_000
"""Pieces of the path reach this part of the step under the next, or anti-aliased edges let the page shine through."""

PATH_OVERLAPS = 400
"""In the path's own row they reach further: pieces of less than a pixel would be blended with the page."""

_PATH_LANE = "critical path"


@dataclass(frozen=True)
class Lane:
    """A row of the timeline: `place` 0 is the first below the path's own."""

    place: int
    rank: int
    lane: str
    shows: str
    label: str


def lanes(bars: pl.DataFrame) -> list[Lane]:
    """Return the rows of a timeline, rank by rank from the top down."""
    found: list[Lane] = []
    rows = bars.select("rank", "lane_no", "lane", "shows").unique(maintain_order=True).sort("rank", "lane_no")
    for row in rows.iter_rows(named=True):
        is_first = not found or found[-1].rank != row["rank"]
        n_alike = sum(lane.rank == row["rank"] and lane.shows == row["shows"] for lane in found)
        what = (
            words.visible(row["lane"]) if row["shows"] == "work" else f"{row['shows']} {n_alike + 1 if n_alike else ''}"
        )
        label = (f"rank {row['rank']} · {what}" if is_first else what).strip()
        found.append(Lane(len(found), row["rank"], row["lane"], row["shows"], label))
    return found


def datasets(step: StepData) -> dict[str, dict[str, list[Any]]]:
    """Return the rows that the charts of a step name."""
    places = {(lane.rank, lane.lane, lane.shows == "ranges"): lane.place for lane in lanes(step.bars)}
    names = _Names()
    bars: dict[str, list[Any]] = {
        "place": [places[r["rank"], r["lane"], r["shows"] == "ranges"] for r in step.bars.iter_rows(named=True)],
        "name_no": [names.number(name) for name in step.bars["name"]],
        **{n: step.bars[n].to_list() for n in ("kind", "offset_ns", "end_ns", "busy_ns", "n_events", "shortest_ns")},
        "longest_ns": step.bars["longest_ns"].to_list(),
    }
    path: dict[str, list[Any]] = {
        "place": [places.get((r["rank"], r["lane"], False)) for r in step.path.iter_rows(named=True)],
        "from_place": [places.get((r["from_rank"], r["from_lane"], False)) for r in step.path.iter_rows(named=True)],
        "name_no": [names.number(name) for name in step.path["name"]],
        **{n: step.path[n].to_list() for n in ("rank", "lane", "kind", "offset_ns", "end_ns", "n_segments")},
        "longest_ns": step.path["longest_ns"].to_list(),
    }
    known = lanes(step.bars)
    ranks = list(dict.fromkeys(lane.rank for lane in known))
    shown = step.collectives.filter(pl.col("rank").is_in(step.ranks["rank"].to_list()))
    met: dict[str, list[Any]] = {n: shown[n].to_list() for n in _ARRIVAL_COLUMNS}
    met["op"] = [words.visible(op) for op in met["op"]]
    met["group_id"] = [words.cut_middle(words.visible(group)) for group in met["group_id"]]
    found: dict[str, dict[str, list[Any]]] = {
        "bars": bars,
        "path": path,
        "lanes": {
            "place": [lane.place for lane in known],
            "rank": [lane.rank for lane in known],
            "lane": [words.visible(lane.lane) for lane in known],
            "shows": [lane.shows for lane in known],
            "band": [ranks.index(lane.rank) % 2 for lane in known],
        },
        "names": {"name_no": list(range(len(names.texts))), "name": names.texts},
        "arrivals": met,
    }
    return {rows_name(step, name): rows for name, rows in found.items()}


_ARRIVAL_COLUMNS = (
    *("place", "op", "group_id", "seq", "rank", "arrival_ns", "behind_ns", "wait_ns", "is_last", "skew_ns"),
)


def rows_name(step: StepData, name: str) -> str:
    """Return what a step's rows are called on the page."""
    return f"step_{step.step.step}_{name}"


def timeline(step: StepData) -> Chart:
    """Return the lanes of the ranks over the step, in ms, and the critical path over them and in a row of its own."""
    known = lanes(step.bars)
    layers = [_bands(step), _bars(step)]
    if step.path.height:
        layers += [_path(step), _strips(step), _hops(step)]
    lane_px = 15 if len(known) <= MOST_HIGH_LANES else 11
    return framed(layers, f"Ranks over step {step.step.step}", height=lane_px * (len(known) + 2))


def arrivals(step: StepData) -> Chart:
    """Return collectives in order of time by ranks, coloured by how long after the first the rank came."""
    shown = step.collectives.filter(pl.col("rank").is_in(step.ranks["rank"].to_list()))
    n_places = shown["place"].max()
    n_rows = shown["rank"].n_unique()
    assert isinstance(n_places, int)
    base = alt.Chart(alt.NamedData(rows_name(step, "arrivals"))).transform_calculate(
        behind_ms="datum.behind_ns / 1e6",
        wait_ms="datum.wait_ns / 1e6",
        arrival_ms="datum.arrival_ns / 1e6",
        x0="datum.place - 0.5",
        x1="datum.place + 0.5",
    )
    y = alt.Y("rank:O", title="rank", axis=alt.Axis(labelOverlap=True, ticks=False))
    tooltip = [
        alt.Tooltip("op:N", title="collective"),
        alt.Tooltip("group_id:N", title="group"),
        alt.Tooltip("seq:Q", title="sequence number", format="d"),
        alt.Tooltip("rank:Q", title="rank", format="d"),
        alt.Tooltip("arrival_ms:Q", title="came at (ms)", format=",.3f"),
        alt.Tooltip("behind_ms:Q", title="after the first (ms)", format=",.3f"),
        alt.Tooltip("behind_ns:Q", title="after the first (ns)", format=",d"),
        alt.Tooltip("wait_ms:Q", title="waited (ms)", format=",.3f"),
    ]
    x = alt.X(
        "x0:Q",
        title="collective, in order of time",
        scale=alt.Scale(domain=[0.5, max(n_places, 7) + 0.5], nice=False, zero=False),
        axis=alt.Axis(format="d", tickMinStep=1, labelFlush=False),
    )
    cells = base.mark_rect(clip=True).encode(
        x=x,
        x2="x1",
        y=y,
        color=alt.Color(
            "behind_ms:Q",
            title="came after the first (ms)",
            scale=alt.Scale(domainMin=0, range="heatmap"),
            legend=alt.Legend(orient="top", direction="horizontal", gradientLength=240, titleLimit=300, tickCount=4),
        ),
        tooltip=tooltip,
    )
    dots = (
        base.transform_filter("datum.is_last")
        .mark_point(style="last-arrival", shape="circle", filled=True)
        .encode(x=alt.X("place:Q"), y=y, tooltip=tooltip)
    )
    title = f"Who came when to the collectives of step {step.step.step}"
    return framed([cells, dots], title, height=row_px(n_rows) * n_rows)


class _Names:
    """Each text once, cut to what a tooltip holds, in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}

    def number(self, name: str | None) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        return [words.cut_middle(words.visible(name), NAME_WIDTH) for name in self._numbers]


def _time(step: StepData, field: str) -> alt.X:
    return alt.X(
        f"{field}:Q",
        title="time from the start of the step (ms)",
        scale=alt.Scale(domain=[0, step.step.length_ns / 1e6], nice=False, zero=False),
        axis=alt.Axis(orient="bottom", tickCount=8),
    )


def _place(step: StepData, field: str) -> alt.Y:
    known = lanes(step.bars)
    top = -1 if step.path.height else 0
    labels = [_PATH_LANE, *(lane.label for lane in known)]
    texts = ", ".join(f"'{label}'" for label in _plain(labels))
    return alt.Y(
        f"{field}:Q",
        title=None,
        scale=alt.Scale(domain=[top - 0.5, len(known) - 0.5], reverse=True, nice=False, zero=False),
        axis=alt.Axis(
            values=list(range(top, len(known))),
            labelExpr=f"[{texts}][datum.value + 1]",
            grid=False,
            ticks=False,
            minExtent=60,
            maxExtent=150,
            labelLimit=145,
        ),
    )


def _plain(labels: Sequence[str]) -> Iterator[str]:
    # A lane's name is made of a word and a number; what else a dump could put there stays out of an expression.
    for label in labels:
        yield "".join(c if c.isalnum() or c in " ·-" else " " for c in label)


def _bands(step: StepData) -> alt.Chart:
    drawn: alt.Chart = (
        alt.Chart(alt.NamedData(rows_name(step, "lanes")))
        .transform_filter("datum.band == 0")
        .transform_calculate(y0="datum.place - 0.5", y1="datum.place + 0.5")
        .mark_rect(style="rank-band", tooltip=False)
        .encode(y=_place(step, "y0"), y2="y1")
    )
    return drawn


def _bars(step: StepData) -> alt.Chart:
    paint = "{" + ", ".join(f"'{kind}': '{paint}'" for kind, paint in PAINTS.items()) + "}[datum.kind] || datum.kind"
    fullness = "0.4 + 0.6 * datum.busy_ns / max(1, datum.end_ns - datum.offset_ns)"
    drawn: alt.Chart = (
        alt.Chart(alt.NamedData(rows_name(step, "bars")))
        .transform_lookup("name_no", from_=alt.LookupData(alt.NamedData(rows_name(step, "names")), "name_no", ["name"]))
        .transform_lookup(
            "place", from_=alt.LookupData(alt.NamedData(rows_name(step, "lanes")), "place", ["rank", "lane"])
        )
        .transform_calculate(
            start_ms="datum.offset_ns / 1e6",
            end_ms="datum.end_ns / 1e6",
            y0="datum.place - 0.4",
            y1="datum.place + 0.4",
            paint=paint,
            fullness=f"{fullness} - (datum.kind == 'wait' ? 0.6 : datum.kind == 'range' ? 0.5 : 0)",
            events="datum.n_events + (datum.n_events == 1 ? ' event' : ' events')",
        )
        .mark_rect(clip=True)
        .encode(
            x=_time(step, "start_ms"),
            x2="end_ms",
            y=_place(step, "y0"),
            y2="y1",
            color=alt.Color("paint:N", legend=None, scale=alt.Scale(domain=list(KINDS), range="diverging")),
            opacity=alt.Opacity("fullness:Q", legend=None, scale=None),
            tooltip=[
                alt.Tooltip("rank:Q", title="rank", format="d"),
                alt.Tooltip("lane:N", title="lane"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("name:N", title="longest"),
                alt.Tooltip("start_ms:Q", title="from (ms)", format=",.6f"),
                alt.Tooltip("end_ms:Q", title="to (ms)", format=",.6f"),
                alt.Tooltip("events:N", title="in this bar"),
                alt.Tooltip("busy_ns:Q", title="time they cover (ns)", format=",d"),
                alt.Tooltip("longest_ns:Q", title="the longest (ns)", format=",d"),
                alt.Tooltip("shortest_ns:Q", title="the shortest (ns)", format=",d"),
            ],
        )
    )
    return drawn


def _path_rows(step: StepData) -> alt.Chart:
    names = alt.LookupData(alt.NamedData(rows_name(step, "names")), "name_no", ["name"])
    joined: alt.Chart = (
        alt.Chart(alt.NamedData(rows_name(step, "path")))
        .transform_lookup("name_no", from_=names)
        .transform_calculate(
            start_ms="datum.offset_ns / 1e6",
            end_ms="datum.end_ns / 1e6",
            under_ms=f"datum.end_ns / 1e6 + {step.step.length_ns / 1e6 / PATH_OVERLAPS}",
            drawn_ms=f"datum.end_ns / 1e6 + {step.step.length_ns / 1e6 / OVERLAPS}",
            path_ns="datum.end_ns - datum.offset_ns",
            segments="datum.n_segments + (datum.n_segments == 1 ? ' segment' : ' segments')",
            y0="-1.42",
            y1="-0.58",
            low="datum.place + 0.24",
            high="datum.place + 0.5",
            left="datum.from_place",
        )
    )
    return joined


def _path_tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("kind:N", title="the step waited for"),
        alt.Tooltip("rank:Q", title="rank", format="d"),
        alt.Tooltip("lane:N", title="lane"),
        alt.Tooltip("name:N", title="most in"),
        alt.Tooltip("start_ms:Q", title="from (ms)", format=",.6f"),
        alt.Tooltip("end_ms:Q", title="to (ms)", format=",.6f"),
        alt.Tooltip("path_ns:Q", title="on the path (ns)", format=",d"),
        alt.Tooltip("segments:N", title="in this piece"),
        alt.Tooltip("longest_ns:Q", title="the longest (ns)", format=",d"),
    ]


def _path(step: StepData) -> alt.Chart:
    drawn: alt.Chart = (
        _path_rows(step)
        .mark_rect(clip=True)
        .encode(
            x=_time(step, "start_ms"),
            x2="under_ms",
            y=_place(step, "y0"),
            y2="y1",
            color=alt.Color("kind:N", legend=None, scale=alt.Scale(domain=list(KINDS), range="diverging")),
            tooltip=_path_tooltip(),
        )
    )
    return drawn


def _strips(step: StepData) -> alt.Chart:
    drawn: alt.Chart = (
        _path_rows(step)
        .transform_filter("isValid(datum.place)")
        .mark_rect(clip=True, style="path-strip")
        .encode(x=_time(step, "start_ms"), x2="drawn_ms", y=_place(step, "low"), y2="high", tooltip=_path_tooltip())
    )
    return drawn


def _hops(step: StepData) -> alt.Chart:
    drawn: alt.Chart = (
        _path_rows(step)
        .transform_filter("isValid(datum.place) && isValid(datum.left)")
        .transform_calculate(from_y="datum.left + 0.37", to_y="datum.place + 0.37")
        .mark_rule(clip=True, style="path-hop")
        .encode(x=_time(step, "start_ms"), y=_place(step, "from_y"), y2="to_y", tooltip=_path_tooltip())
    )
    return drawn
