"""The index page of a night: trends over the runs of each job, drawn, and their gates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from longpole.report import charts, document, nights, words
from longpole.report.document import Figure
from longpole.report.nights import Gate, Measured, Placed, Trend, Verdict
from longpole.units import duration_text

N_CHARTED_JOBS = 12
"""Jobs with charts of their own, those with the latest runs: each is two charts, drawn one after the other."""

CHART_PX = 180
"""Height of each."""

N_RUN_ROWS = 120
"""Runs of a job in its table and charts, the latest: four months of nights."""

_MEASURES = {
    "step_time_ns": "step time",
    "mfu_ratio": "MFU",
    "exposed_comm_ratio": "exposed comm",
    "straggler_ratio": "straggler share",
    "coverage_ratio": "coverage",
    "goodput_ratio": "goodput",
    "memory_ratio": "peak memory",
}

_SHARES = tuple(name for name in _MEASURES if name != "step_time_ns")


@dataclass(frozen=True)
class Row:
    """One run in a job's table."""

    placed: Placed
    measures: dict[str, Measured]
    status: str
    gates: tuple[Gate, ...]
    page: str | None
    compare: str | None


@dataclass(frozen=True)
class Job:
    """One job and workload: its latest runs, the latest first, and its charts where it has any."""

    name: str
    workload: str | None
    rows: tuple[Row, ...]
    n_left_out: int
    figures: tuple[Figure, ...]


def render(verdict: Verdict, trend: Trend, *, tool_version: str) -> str:
    """Return the index page as HTML that needs no other file and makes no request."""
    jobs, rows = _jobs(verdict, trend)
    failed = [j.entry for j in verdict.runs if j.entry.status == "failed"]
    waiting = [j.entry for j in verdict.runs if j.entry.waiting]
    return document.render(
        "nightly.html.j2",
        [figure for job in jobs for figure in job.figures],
        {"trend": document.columns(rows, ("job_no", "place", "run", "measure", "value"))} if rows else {},
        context={
            "verdict": verdict,
            "jobs": jobs,
            "failed": failed,
            "waiting": waiting,
            "hosts": trend.hosts,
            "counts": [(s, sum(j.entry.status == s for j in verdict.runs)) for s in nights.STATUSES],
            "measures": _MEASURES,
            "sentence": nights.sentence,
            "value_text": nights.value_text,
            "share_text": _share_text,
            "change_text": _change_text,
            "tool_version": tool_version,
        },
    )


def _jobs(verdict: Verdict, trend: Trend) -> tuple[list[Job], list[dict[str, Any]]]:
    judged = {j.entry.run: j for j in verdict.runs}
    measures: dict[str, dict[str, Measured]] = {}
    for measured in trend.measures:
        measures.setdefault(measured.run, {})[measured.measure] = measured
    gates: dict[str, list[Gate]] = {}
    for gate in trend.gates:
        gates.setdefault(gate.run, []).append(gate)
    by_job: dict[tuple[str | None, str | None], list[Placed]] = {}
    for placed in trend.runs:
        by_job.setdefault((placed.job, placed.workload), []).append(placed)
    latest = sorted(by_job, key=lambda k: (k[0] is None, -max(p.first_ns or 0 for p in by_job[k]), str(k)))
    jobs, rows = [], []
    for job_no, key in enumerate(latest):
        shown = by_job[key][-N_RUN_ROWS:]
        values = [
            {"job_no": job_no, "place": p.place, "run": p.run, "measure": m.measure, "value": m.value}
            for p in shown
            for m in measures.get(p.run, {}).values()
            if m.value is not None
        ]
        drawn = []
        if job_no < N_CHARTED_JOBS and key[0] is not None:
            for id_, names, chart in (
                (f"time-{job_no}", ("step_time_ns",), _time_chart(job_no)),
                (f"shares-{job_no}", _SHARES, _share_chart(job_no)),
            ):
                if any(v["measure"] in names for v in values):
                    drawn.append(Figure(id_, _finding(names, shown, measures), chart))
            rows += values if drawn else []
        table = tuple(
            Row(
                p,
                measures.get(p.run, {}),
                judged[p.run].entry.status if p.run in judged else "",
                tuple(gates.get(p.run, ())),
                nights.page_of("runs", p.run, verdict.pages),
                nights.page_of("compare", p.run, verdict.pages),
            )
            for p in reversed(shown)
        )
        name = key[0] if key[0] is not None else "Runs of no job"
        jobs.append(Job(name, key[1] if key[1] != key[0] else None, table, len(by_job[key]) - len(shown), tuple(drawn)))
    return jobs, rows


def _finding(names: Sequence[str], shown: Sequence[Placed], measures: dict[str, dict[str, Measured]]) -> str:
    last = shown[-1].run
    told = [
        f"{_MEASURES[n]} {_share_text(n, m.value)}"
        for n in names
        if (m := measures.get(last, {}).get(n)) and m.value is not None
    ]
    of = ", ".join(told) or "n/a"
    return f"{len(shown)} run{'s' if len(shown) > 1 else ''}; the last, {words.visible(last)}: {of}."


def _share_text(name: str, value: float | None) -> str:
    if value is None:
        return "n/a"
    return duration_text(round(value)) if name.endswith("_ns") else f"{100 * value:.1f} %"


def _change_text(measured: Measured) -> str:
    if measured.change is None:
        return ""
    unit = "%" if measured.measure.endswith("_ns") else "points"
    return f"{100 * measured.change:+.1f} {unit}"


def _time_chart(job_no: int) -> charts.Chart:
    """Return the median step time of each run, in ms."""
    y = alt.Y("ms:Q", title="step time (ms)", scale=alt.Scale(zero=False, nice=True))
    base = (
        alt.Chart()
        .transform_filter(f"datum.job_no == {job_no} && datum.measure == 'step_time_ns'")
        .transform_calculate(ms="datum.value / 1e6")
        .encode(x=_run_axis(), y=y, tooltip=["run:N", alt.Tooltip("ms:Q", title="step time (ms)", format=",.3f")])
    )
    layers = [base.mark_line(strokeWidth=2), base.mark_point(size=30, filled=True)]
    return charts.framed(layers, "Step time from run to run", height=CHART_PX, rows="trend")


def _share_chart(job_no: int) -> charts.Chart:
    """Return the shares of each run, in per cent, a line each."""
    base = (
        alt.Chart()
        .transform_filter(f"datum.job_no == {job_no} && datum.measure != 'step_time_ns'")
        .transform_calculate(percent="100 * datum.value", name=_names("datum.measure"))
        .encode(
            x=_run_axis(),
            y=alt.Y("percent:Q", title="share (%)", scale=alt.Scale(zero=True, nice=True)),
            color=alt.Color(
                "name:N",
                title=None,
                scale=alt.Scale(domain=[_MEASURES[n] for n in _SHARES], range="diverging"),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["run:N", alt.Tooltip("name:N", title="share"), alt.Tooltip("percent:Q", title="%", format=".2f")],
        )
    )
    layers = [base.mark_line(strokeWidth=2), base.mark_point(size=24, filled=True)]
    return charts.framed(layers, "Shares from run to run", height=CHART_PX, rows="trend")


def _names(field: str) -> str:
    pairs = ", ".join(f"{json.dumps(name)}: {json.dumps(text)}" for name, text in _MEASURES.items())
    return f"{{{pairs}}}[{field}]"


def _run_axis() -> alt.X:
    return alt.X("place:O", title="run, by time", axis=alt.Axis(labelOverlap=True, labelAngle=0))
