"""Each chart as a specification: its title, its units, its rows, and that Vega can draw it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import vl_convert

from longpole.report import charts
from longpole.report.overview import Overview, build
from report import scenes

CHARTS: dict[str, Callable[[Overview], charts.Chart]] = {
    "steps": lambda data: charts.step_breakdown(data.step_bins),
    "causes": lambda data: charts.idle_causes(data.step_bins),
    "path": lambda data: charts.path_kinds(data.path_bins, data.step_bins),
    "late": lambda data: charts.heat_map(data.late_cells, data.step_bins, charts.LATE),
    "workers": lambda data: charts.worker_grid(data.worker_cells, data.step_bins),
    "comm": lambda data: charts.heat_map(data.comm_cells, data.step_bins, charts.EXPOSED_COMM),
    "idle": lambda data: charts.heat_map(data.idle_cells, data.step_bins, charts.IDLE),
}

SIZES = {"one step": (2, 1), "ten steps": (2, 10), "binned": (3, 700)}


def spec(chart: charts.Chart, data: Overview) -> dict[str, Any]:
    """Return a chart's specification with the rows that it names put in."""
    whole: dict[str, Any] = chart.to_dict()
    whole["datasets"] = {
        "step_bins": data.step_bins.to_dicts(),
        "comm_cells": data.comm_cells.to_dicts(),
        "idle_cells": data.idle_cells.to_dicts(),
        "late_cells": data.late_cells.to_dicts(),
        "path_bins": data.path_bins.to_dicts(),
        "worker_cells": data.worker_cells.to_dicts(),
    }
    return whole | {"width": 600}


def titles(whole: dict[str, Any], channel: str) -> set[str]:
    """Return the axis titles of one channel in every layer."""
    return {
        layer["encoding"][channel]["title"] for layer in whole["layer"] if "title" in layer["encoding"].get(channel, {})
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_has_a_title_units_and_rows_and_can_be_drawn(name: str, size: str) -> None:
    data = build(scenes.many(*SIZES[size]), "many")
    whole = spec(CHARTS[name](data), data)
    assert whole["title"]
    assert titles(whole, "x") == {"pipeline stage" if name == "workers" else "step number"}
    rows = {"workers": "dp rank", "comm": "rank", "idle": "rank", "late": "rank"}
    assert titles(whole, "y") == {rows.get(name, "time (ms)")}
    assert whole["data"]["name"] in whole["datasets"]
    assert len(whole["datasets"][whole["data"]["name"]]) > 0
    svg = vl_convert.vegalite_to_svg(whole)
    assert svg.startswith("<svg")
    assert "mark-rect" in svg


def test_the_stack_shows_each_part_once_in_the_order_of_the_theme() -> None:
    data = build(scenes.tiny(), "tiny")
    bars = spec(CHARTS["steps"](data), data)["layer"][0]
    assert bars["encoding"]["color"]["scale"] == {
        "domain": ["compute", "exposed comm", "exposed copy", "idle"],
        "range": "category",
    }
    causes = spec(CHARTS["causes"](data), data)["layer"][0]
    assert causes["encoding"]["color"]["scale"] == {
        "domain": ["input", "sync", "host", "launch", "turnaround", "other"],
        "range": "ordinal",
    }
    kinds = spec(CHARTS["path"](data), data)["layer"][0]
    assert kinds["encoding"]["color"]["scale"] == {
        "domain": ["compute", "comm", "copy", "host", "launch", "turnaround", "sync", "input", "unknown"],
        "range": "diverging",
    }


def test_a_heat_map_says_its_unit_in_its_legend_and_starts_at_zero() -> None:
    data = build(scenes.tiny(), "tiny")
    colour = spec(CHARTS["comm"](data), data)["layer"][0]["encoding"]["color"]
    assert colour["title"] == "exposed comm, share of window (%)"
    assert colour["scale"] == {"domain": [0, 0.55], "range": "heatmap"}


def test_late_time_is_a_share_of_the_step() -> None:
    data = build(scenes.tiny(), "tiny")
    colour = spec(CHARTS["late"](data), data)["layer"][0]["encoding"]["color"]
    assert colour["title"] == "late time, share of step (%)"
    assert colour["scale"] == {"domain": [0, 0.5], "range": "heatmap"}


def test_noise_around_one_percent_does_not_use_the_whole_ramp() -> None:
    con = scenes.tiny()
    con.execute("UPDATE rank_steps SET idle_ns = duration_ns // 100")
    data = build(con, "tiny")
    assert spec(CHARTS["idle"](data), data)["layer"][0]["encoding"]["color"]["scale"]["domain"] == [0, 0.1]


def test_tooltips_show_milliseconds_and_whole_nanoseconds() -> None:
    data = build(scenes.tiny(), "tiny")
    for name in CHARTS:
        tooltip = spec(CHARTS[name](data), data)["layer"][0]["encoding"]["tooltip"]
        formats = {entry["title"]: entry.get("format") for entry in tooltip if "title" in entry}
        assert {f for t, f in formats.items() if "ms" in t} == {",.3f"}
        assert [f for t, f in formats.items() if "ns" in t] == [",d"]


def test_a_binned_chart_shows_its_shortest_and_longest() -> None:
    data = build(scenes.many(2, 700), "many")
    tooltip = spec(CHARTS["comm"](data), data)["layer"][0]["encoding"]["tooltip"]
    assert [entry.get("title") for entry in tooltip][-3:] == ["min (ms)", "median (ms)", "max (ms)"]
    assert any(layer["mark"]["type"] == "rule" for layer in spec(CHARTS["steps"](data), data)["layer"])
