"""The overview as one self-contained HTML file, and the document that every page is: same data, same bytes.

Everything a dump could have written reaches the page through Jinja's autoescape, or in the block of chart data as a
JSON string in which nothing can end the block.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2
import polars as pl
import vl_convert
from markupsafe import Markup

from longpole.report import charts, words
from longpole.report.overview import Overview

CANVAS_CELLS = 5_000
"""Beyond this many cells a heat map is drawn on a canvas: as many SVG elements make a page slow to scroll."""

KIND_COLOURS = {"compute": "compute", "comm": "comm", "copy": "copy"}
"""The theme's colour of each kind of kernel; another kind, which no view should have, gets none."""


@dataclass(frozen=True)
class Section:
    """One section: the views it reads, a query that prints its rows, and what its words mean."""

    id: str
    title: str
    views: tuple[str, ...]
    query: str
    glossary: str


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
        ("step_stragglers", "run_stragglers", "steps"),
        "SELECT step, rank, late_ns, is_straggler, cause, verdict FROM step_stragglers "
        "ORDER BY late_ns DESC, step, rank",
        "Late time is how long others waited for a rank, from when it had not to wait itself, and no more than it "
        "spent beyond the median rank. A step's straggler is late beyond the noise and twice as late as any other; "
        "two that stall in turns tie, and nobody is named. What it costs is another question: longpole whatif "
        "--fix-rank. Blank: lateness is not known there.",
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


@dataclass(frozen=True)
class Figure:
    """One chart of the page, or why it is not drawn; `finding` is its text for those who do not see it."""

    id: str
    finding: str
    chart: charts.Chart | None = None
    renderer: str = "svg"
    is_brushed: bool = False
    note: str = ""


def render(data: Overview, *, tool_version: str) -> str:
    """Return the page as HTML that needs no other file and makes no request."""
    figures = _figures(data)
    return document(
        "overview.html.j2",
        figures,
        _datasets(data),
        n_bins=data.step_bins.height,
        tool_version=tool_version,
        data=data,
        run=data.run,
        sections={section.id: section for section in SECTIONS},
        ranks_seen=words.ranks_seen(data.run),
        summary=words.summary(data.run),
        caveats=words.caveats(data.run),
        nobody=words.nobody_named(data.late),
        causes=charts.CAUSES,
        kinds=[(kind_colour(kind), kind) for kind in charts.KINDS],
        parts=_PARTS,
        kind_colours=KIND_COLOURS,
        path_colours={kind: kind_colour(kind) for kind in charts.KINDS},
    )


def document(
    template: str,
    figures: Sequence[Figure],
    datasets: dict[str, dict[str, list[Any]]],
    *,
    n_bins: int,
    tool_version: str,
    **context: Any,
) -> str:
    """Return a page made of a template, charts and the rows that they name; `n_bins` is 0 without a range of steps.

    Raises:
        ValueError: A chart names rows that the page has not got; a defect of the package, caught by its tests.
    """
    drawings = [_drawing(figure, figure.chart) for figure in figures if figure.chart is not None]
    check_names(drawings, datasets)
    block = {
        "bins": n_bins,
        "charts": drawings,
        "config": {scheme: _vega_config(scheme) for scheme in ("light", "dark")},
        "datasets": datasets,
    }
    return (
        _environment()
        .get_template(template)
        .render(
            context,
            figures={figure.id: figure for figure in figures},
            tool_version=tool_version,
            variables={scheme: _theme()["colours"][scheme] for scheme in ("light", "dark")},
            style=Markup(_asset("page.css")),  # noqa: S704 - shipped with the package
            bundle=Markup(_bundle()),  # noqa: S704 - made by vl-convert, checked for an end tag
            script=Markup(_asset("page.js")),  # noqa: S704 - shipped with the package
            block=Markup(json_block(block)),  # noqa: S704 - escaped by json_block
        )
    )


def json_block(value: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def check_names(drawings: list[dict[str, Any]], datasets: dict[str, dict[str, list[Any]]]) -> None:
    """Check that each chart's rows are there: Vega draws a name that does not resolve as an empty chart, silently.

    Raises:
        ValueError: A chart names rows that the page has not got; a defect of the package, caught by its tests.
    """
    for drawing in drawings:
        names = set(_data_names(drawing["spec"]))
        missing = sorted(name for name in names if not any(datasets.get(name, {}).values()))
        if missing or not names:
            raise ValueError(f"chart {drawing['id']} names rows that the page has not got: {missing}")


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
    for id_, cells, measure in (
        ("comm-map", data.comm_cells, charts.EXPOSED_COMM),
        ("idle-map", data.idle_cells, charts.IDLE),
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
    return drawn


def _drawing(figure: Figure, chart: charts.Chart) -> dict[str, Any]:
    spec = chart.to_dict()
    # The schema's address would be the page's only link to the outside; the page's own Vega-Lite needs none.
    del spec["$schema"]
    spec.pop("config", None)
    return {"id": figure.id, "is_brushed": figure.is_brushed, "renderer": figure.renderer, "spec": spec}


def _datasets(data: Overview) -> dict[str, dict[str, list[Any]]]:
    frames = {
        "comm_cells": data.comm_cells,
        "idle_cells": data.idle_cells,
        "late_cells": data.late_cells,
        "path_bins": data.path_bins,
        "step_bins": data.step_bins,
    }
    return {name: frame.to_dict(as_series=False) for name, frame in frames.items()}


def _data_names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, child in node.items():
            if key == "data" and isinstance(child, dict) and isinstance(child.get("name"), str):
                yield child["name"]
            else:
                yield from _data_names(child)
    elif isinstance(node, list):
        for child in node:
            yield from _data_names(child)


def _vega_config(scheme: str) -> dict[str, Any]:
    """Return Vega's config with `@name` put in as the scheme's colour and `@@name` as its ramp."""
    theme = _theme()

    def resolve(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: resolve(child) for key, child in node.items()}
        if isinstance(node, list):
            return [resolve(child) for child in node]
        if isinstance(node, str) and node.startswith("@@"):
            return theme["ramps"][scheme][node[2:]]
        if isinstance(node, str) and node.startswith("@"):
            return theme["colours"][scheme][node[1:]]
        return node

    config: dict[str, Any] = resolve(theme["vega"])
    return config


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("longpole.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "count": words.count,
        "cut_middle": words.cut_middle,
        "duration": words.duration,
        "hours": words.hours,
        "instant": words.instant,
        "listing": words.listing,
        "milliseconds": words.milliseconds,
        "percent": words.percent,
        "visible": words.visible,
    }
    environment.globals |= {"command_line": words.command_line, "query_line": words.query_line}
    return environment


@functools.cache
def _bundle() -> str:
    code: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    if "</script" in code.lower() or "<!--" in code:
        raise ValueError("the Vega bundle cannot stand in a script element")
    return code


@functools.cache
def _theme() -> dict[str, Any]:
    theme: dict[str, Any] = json.loads(_asset("theme.json"))
    return theme


@functools.cache
def _asset(name: str) -> str:
    return files("longpole.reports").joinpath("assets", name).read_text(encoding="utf-8")
