"""A sheet of the planner as one self-contained page: its numbers, and its curve where it has one."""

from __future__ import annotations

from typing import Any

import altair as alt

from longpole.report import charts, document
from longpole.report.document import Figure
from longpole.report.sheets import Axis, Curve, Sheet


def render(sheet: Sheet, *, tool_version: str) -> str:
    """Return the page as HTML that needs no other file and makes no request."""
    curve = sheet.curve
    figures = [Figure(curve.id, curve.finding, _chart(curve), note=_note(curve))] if curve else []
    return document.render(
        "plan.html.j2",
        figures,
        {"curve": document.columns(curve.rows, (curve.x.column, curve.y.column, "series"))} if curve else {},
        context={"sheet": sheet, "given": _flat(sheet.given), "tool_version": tool_version},
    )


def _note(curve: Curve) -> str:
    return "" if curve.at is None else "The dashed line is the question asked."


def _chart(curve: Curve) -> alt.LayerChart:
    """Return the lines of the curve's series over its x axis, and a rule where the question stands."""
    x_title, y_title = curve.x.title, curve.y.title
    shown = {series for row in curve.rows if (series := row["series"])}
    x = alt.X(
        "x:Q",
        title=x_title,
        scale=_scale(curve.x, is_whole=False),
        axis=_axis(curve.x),
    )
    scaled = (
        alt.Chart()
        .transform_calculate(
            x=f"datum.{curve.x.column} / {curve.x.unit_size!r}", y=f"datum.{curve.y.column} / {curve.y.unit_size!r}"
        )
        .encode(
            x=x,
            y=alt.Y(
                "y:Q",
                title=y_title,
                scale=_scale(curve.y, is_whole=True),
                axis=_axis(curve.y, n_ticks=5),
            ),
            color=alt.Color(
                "series:N",
                title=None,
                scale=alt.Scale(domain=list(curve.series), range="category"),
                legend=alt.Legend(orient="top", values=[s for s in curve.series if s in shown])
                if len(shown) > 1
                else None,
            ),
            tooltip=[
                alt.Tooltip("series:N", title="line"),
                alt.Tooltip("x:Q", title=x_title, format=".4~g"),
                alt.Tooltip("y:Q", title=y_title, format=".4~g"),
            ],
        )
    )
    layers: list[alt.Chart] = [scaled.mark_line(strokeWidth=2), scaled.mark_point(size=14, filled=True, opacity=0.7)]
    if curve.at is not None:
        here = alt.Chart().transform_aggregate(n="count()").transform_calculate(x=repr(curve.at / curve.x.unit_size))
        layers.insert(0, here.mark_rule(strokeDash=[4, 3], style="step-time").encode(x=x, tooltip=alt.value(None)))
    return charts.framed(layers, curve.title, height=300, rows="curve")


def _scale(axis: Axis, *, is_whole: bool) -> alt.Scale:
    """Return the axis's scale; a whole one begins at zero, where it can, and ends at a round number."""
    if axis.is_log:
        return alt.Scale(type="log", nice=is_whole)
    return alt.Scale(zero=is_whole, nice=is_whole)


def _axis(axis: Axis, *, n_ticks: int | None = None) -> alt.Axis:
    drawn: alt.Axis = alt.Axis(labelOverlap=True)
    if axis.format is not None:
        drawn["format"] = axis.format
    if n_ticks is not None:
        drawn["tickCount"] = n_ticks
    return drawn


def _flat(given: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Return what was given as names and values; what was not is left out."""
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name} ")
        elif value is not None:
            found.append((f"{prefix}{name}", _number(value) if isinstance(value, int | float) else str(value)))
    return found


def _number(value: float) -> str:
    return f"{int(value) if value == int(value) else value:,}"
