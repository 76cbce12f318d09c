"""What every page shares: one self-contained HTML file with its data in one block, the same bytes for the same data.

A text that a template prints passes through Jinja's autoescape; the block of chart data is escaped besides.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from longpole.report import words
from longpole.report.charts import Chart

Datasets = dict[str, dict[str, list[Any]]]
"""Rows of charts by the name that a chart calls them, each column a list."""


@dataclass(frozen=True)
class Section:
    """One section: the views it reads, a query that prints its rows, and what its words mean."""

    id: str
    title: str
    views: tuple[str, ...]
    query: str
    glossary: str


@dataclass(frozen=True)
class Figure:
    """One chart of the page, or why it is not drawn; `finding` is its text for those who do not see it."""

    id: str
    finding: str
    chart: Chart | None = None
    renderer: str = "svg"
    is_brushed: bool = False
    note: str = ""


def render(
    template: str, figures: Sequence[Figure], datasets: Datasets, *, context: Mapping[str, Any], n_bins: int = 0
) -> str:
    """Return a page as HTML that needs no other file and makes no request.

    The template finds the figures by id as `figures`; `n_bins` columns of their charts are brushed together.
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
            **context,
            figures={figure.id: figure for figure in figures},
            variables={scheme: _theme()["colours"][scheme] for scheme in ("light", "dark")},
            style=Markup(_asset("page.css")),  # noqa: S704 - shipped with the package
            bundle=Markup(_bundle() if drawings else ""),  # noqa: S704 - made by vl-convert, checked for an end tag
            script=Markup(_asset("page.js")),  # noqa: S704 - shipped with the package
            block=Markup(json_block(block)),  # noqa: S704 - escaped by json_block
        )
    )


def columns(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, list[Any]]:
    """Return these columns of rows as a chart's rows stand in `Datasets`."""
    return {name: [row[name] for row in rows] for name in names}


def _drawing(figure: Figure, chart: Chart) -> dict[str, Any]:
    """Return a figure's chart as the page's script takes it; it is drawn where the element of its id stands."""
    spec = chart.to_dict()
    # The schema's address would be the page's only link to the outside; the page's own Vega-Lite needs none.
    del spec["$schema"]
    spec.pop("config", None)
    return {"id": figure.id, "is_brushed": figure.is_brushed, "renderer": figure.renderer, "spec": spec}


def json_block(value: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def check_names(drawings: list[dict[str, Any]], datasets: Datasets) -> None:
    """Check that each chart's rows are there: Vega draws a name that does not resolve as an empty chart, silently.

    Raises:
        ValueError: A chart names rows that the page has not got; a defect of the package, caught by its tests.
    """
    for drawn in drawings:
        names = set(_data_names(drawn["spec"]))
        missing = sorted(name for name in names if not any(datasets.get(name, {}).values()))
        if missing or not names:
            raise ValueError(f"chart {drawn['id']} names rows that the page has not got: {missing}")


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
        "calls": words.calls,
        "count": words.count,
        "cut_middle": words.cut_middle,
        "duration": words.duration,
        "hours": words.hours,
        "instant": words.instant,
        "listing": words.listing,
        "microseconds": words.microseconds,
        "milliseconds": words.milliseconds,
        "gigabytes": words.gigabytes,
        "percent": words.percent,
        "signed": words.signed,
        "signed_milliseconds": words.signed_milliseconds,
        "signed_percent": words.signed_percent,
        "size": words.size,
        "speedup": words.speedup,
        "visible": words.visible,
    }
    environment.globals |= {"command_line": words.command_line, "query_line": words.query_line}
    return environment


@functools.cache
def _bundle() -> str:
    import vl_convert  # only a page needs it, and its library is large

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
