"""What a night says: trends over the runs of each job, which gates hold, as a page, as JSON and as JUnit XML.

Every number is a row of the fleet's views; here they are only put together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import duckdb
from markupsafe import escape

from longpole.report import charts, document, words
from longpole.text import printable
from longpole.units import duration_text

VIEWS = ("runs", "run_measures", "fleet_regressions", "fleet_gates", "fleet_hosts", "_run_order")
"""What a session must show for `read`."""

Status = Literal["changed", "unchanged", "waiting", "failed"]

STATUSES: tuple[Status, ...] = ("changed", "unchanged", "waiting", "failed")

JSON_VERSION = 1
"""Of verdict.json: keys may be added; another meaning is another version."""

N_CHARTED_JOBS = 12
"""Jobs with charts of their own, those with the latest runs: each is two charts, drawn one after the other."""

N_RUN_ROWS = 120
"""Runs of a job in its table and charts, the latest: four months of nights."""

_MEASURES = {
    "step_time_ns": "step time",
    "mfu_ratio": "MFU",
    "exposed_comm_ratio": "exposed comm",
    "straggler_ratio": "straggler share",
    "coverage_ratio": "coverage",
    "goodput_ratio": "goodput",
}

_SHARES = tuple(name for name in _MEASURES if name != "step_time_ns")


@dataclass(frozen=True)
class Measured:
    """A row of fleet_regressions."""

    run: str
    measure: str
    value: float | None
    baseline_run: str | None
    baseline: float | None
    n_baseline: int
    noise_floor: float | None
    change: float | None
    verdict: str


@dataclass(frozen=True)
class Gate:
    """A row of fleet_gates."""

    run: str
    gate: str
    measure: str
    value: float | None
    threshold: float
    is_most: bool
    measured: float | None
    baseline_run: str | None
    baseline: float | None
    noise_floor: float | None
    verdict: str


@dataclass(frozen=True)
class Host:
    """A row of fleet_hosts."""

    host: str
    n_runs: int
    n_straggler_runs: int
    lost_gpu_hours: float
    causes: tuple[str, ...]
    runs: tuple[str, ...]
    verdict: str


@dataclass(frozen=True)
class Placed:
    """A run of the store among those of its job and workload."""

    run: str
    job: str | None
    workload: str | None
    first_ns: int | None
    place: int
    n_ranks: int
    n_steps: int
    verdict: str


@dataclass(frozen=True)
class Trend:
    """All runs of the store, as the fleet's views have them."""

    runs: tuple[Placed, ...] = ()
    measures: tuple[Measured, ...] = ()
    gates: tuple[Gate, ...] = ()
    hosts: tuple[Host, ...] = ()

    def baseline_of(self, run: str) -> str | None:
        """Return the last good run before a run, or the one named; None without."""
        return next((m.baseline_run for m in self.measures if m.run == run and m.baseline_run is not None), None)


@dataclass(frozen=True)
class Entry:
    """What a night did with one run."""

    run: str
    status: Status
    error: str = ""
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """One run of a night, with its numbers and gates; those of a run that did not change are not judged again."""

    entry: Entry
    placed: Placed | None
    measures: tuple[Measured, ...]
    gates: tuple[Gate, ...]
    page: str | None
    compare: str | None


@dataclass(frozen=True)
class Verdict:
    """A whole night; `pages` are paths below its folder."""

    root: str
    runs: tuple[Judged, ...]
    pages: frozenset[str]

    @property
    def failures(self) -> tuple[Gate, ...]:
        """Return the gates that failed."""
        return tuple(g for judged in self.runs for g in judged.gates if g.verdict == "failed")

    @property
    def exit_code(self) -> int:
        """Return what the command ends with."""
        return 3 if self.failures else 1 if any(j.entry.status == "failed" for j in self.runs) else 0


def read(con: duckdb.DuckDBPyConnection) -> Trend:
    """Return what the fleet's views say of every run of the store."""
    placed = con.execute(
        "SELECT o.run, o.job, o.workload, o.first_ns, o.place, r.n_ranks, r.n_steps, r.verdict"
        " FROM _run_order AS o JOIN runs AS r ON o.run = r.run"
        " ORDER BY o.job NULLS LAST, o.workload NULLS LAST, o.place"
    ).fetchall()
    measures = con.execute(
        "SELECT f.run, f.measure, f.value, f.baseline_run, f.baseline, f.n_baseline, f.noise_floor, f.change, f.verdict"
        " FROM fleet_regressions AS f JOIN measure_kinds AS k ON f.measure = k.measure ORDER BY f.run, k.place::INTEGER"
    ).fetchall()
    hosts = con.execute(
        "SELECT host, n_runs, n_straggler_runs, lost_gpu_hours, causes, runs, verdict FROM fleet_hosts"
        " WHERE n_straggler_runs > 1 ORDER BY verdict = 'slow in several runs' DESC, lost_gpu_hours DESC, host"
    ).fetchall()
    return Trend(
        tuple(Placed(*row) for row in placed),
        tuple(Measured(*row) for row in measures),
        read_gates(con),
        tuple(Host(row[0], row[1], row[2], row[3], tuple(row[4]), tuple(row[5]), row[6]) for row in hosts),
    )


def read_gates(con: duckdb.DuckDBPyConnection) -> tuple[Gate, ...]:
    """Return every gate of every run; the session needs to show fleet_gates alone."""
    rows = con.execute(
        "SELECT run, gate, measure, value, threshold, is_most, measured, baseline_run, baseline, noise_floor, verdict"
        " FROM fleet_gates ORDER BY run, gate"
    ).fetchall()
    return tuple(Gate(*row) for row in rows)


def judge(entries: Sequence[Entry], trend: Trend, *, root: str, pages: frozenset[str]) -> Verdict:
    """Return the night's verdict: gates are those of the runs that changed."""
    placed = {p.run: p for p in trend.runs}
    runs = tuple(
        Judged(
            entry,
            placed.get(entry.run),
            tuple(m for m in trend.measures if m.run == entry.run) if entry.status != "failed" else (),
            tuple(g for g in trend.gates if g.run == entry.run) if entry.status == "changed" else (),
            _page("runs", entry.run, pages),
            _page("compare", entry.run, pages),
        )
        for entry in sorted(entries, key=lambda e: (e.run, e.error))
    )
    return Verdict(root, runs, pages)


def _page(folder: str, run: str, pages: frozenset[str]) -> str | None:
    path = f"{folder}/{run}.html"
    return path if path in pages else None


def sentence(gate: Gate) -> str:
    """Return a gate in words: its run, name, value and limit."""
    side = "at most" if gate.is_most else "at least"
    limit = f"{side} {value_text(gate.gate, gate.threshold)}"
    told = f"run {gate.run}: {gate.gate} is {value_text(gate.gate, gate.value)}, {limit} is allowed"
    if gate.baseline is None:
        return told
    return (
        f"{told} ({value_text(gate.measure, gate.measured)} against {value_text(gate.measure, gate.baseline)} of"
        f" {gate.baseline_run}, noise {value_text(gate.measure, gate.noise_floor)})"
    )


def value_text(name: str, value: float | None) -> str:
    """Return a value of a measure or a gate with its unit."""
    if value is None:
        return "n/a"
    if name.endswith("_ns"):
        return duration_text(round(value))
    return f"{value:.4g} ({100 * value:.2f} %)"


def to_json(verdict: Verdict, *, tool_version: str) -> str:
    """Return verdict.json; README lists its keys. Equal nights give equal bytes."""
    runs = [
        {
            "run": j.entry.run,
            "status": j.entry.status,
            "error": j.entry.error or None,
            "waiting": list(j.entry.waiting),
            "job": j.placed.job if j.placed else None,
            "workload": j.placed.workload if j.placed else None,
            "baseline_run": next((m.baseline_run for m in j.measures), None),
            "page": j.page,
            "compare": j.compare,
            "measures": [_fields(m, "run", "baseline_run") for m in j.measures],
            "gates": [_fields(g, "run") for g in j.gates],
        }
        for j in verdict.runs
    ]
    whole = {
        "version": JSON_VERSION,
        "tool_version": tool_version,
        "root": verdict.root,
        "exit_code": verdict.exit_code,
        "n_gates_failed": len(verdict.failures),
        "runs": runs,
    }
    return json.dumps(whole, indent=1) + "\n"


def _fields(row: Measured | Gate, *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in vars(row).items() if name not in left_out}


def to_junit(verdict: Verdict) -> str:
    """Return JUnit XML: a suite a run that changed or failed, a case for reading it and one for each gate."""
    suites = []
    for judged in verdict.runs:
        if judged.entry.status not in ("changed", "failed"):
            continue
        run, cases = _xml(judged.entry.run), []
        fault = f'<error message="{_xml(judged.entry.error)}"/>' if judged.entry.status == "failed" else ""
        cases.append(f'<testcase classname="{run}" name="read and analyzed">{fault}</testcase>')
        for gate in judged.gates:
            inside = ""
            if gate.verdict == "failed":
                inside = f'<failure message="{_xml(sentence(gate))}"/>'
            elif gate.verdict != "passed":
                inside = f'<skipped message="{_xml(gate.verdict)}"/>'
            cases.append(f'<testcase classname="{run}" name="{_xml(gate.gate)}">{inside}</testcase>')
        counts = (
            f'tests="{len(cases)}" failures="{sum(g.verdict == "failed" for g in judged.gates)}"'
            f' errors="{int(bool(fault))}" skipped="{sum(g.verdict.startswith("n/a") for g in judged.gates)}"'
        )
        suites.append(f' <testsuite name="{run}" {counts}>\n  ' + "\n  ".join(cases) + "\n </testsuite>\n")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="longpole">\n{"".join(suites)}</testsuites>\n'


def _xml(text: str) -> str:
    return str(escape(printable(text).replace("\n", " ").replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")))


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
    """One job and workload: its latest runs, the latest first, and the ids of its charts where it has any."""

    name: str
    workload: str | None
    rows: tuple[Row, ...]
    n_left_out: int
    charts: tuple[tuple[str, str], ...]  # id, what it shows in words


def render(verdict: Verdict, trend: Trend, *, tool_version: str) -> str:
    """Return the index page as HTML that needs no other file and makes no request."""
    jobs, drawings, rows = _jobs(verdict, trend)
    failed = [j.entry for j in verdict.runs if j.entry.status == "failed"]
    waiting = [j.entry for j in verdict.runs if j.entry.waiting]
    columns: dict[str, list[Any]] = {
        name: [row[name] for row in rows] for name in ("job_no", "place", "run", "measure", "value")
    }
    return document.render(
        "nightly.html.j2",
        drawings,
        {"trend": columns} if rows else {},
        n_bins=0,
        context={
            "verdict": verdict,
            "jobs": jobs,
            "failed": failed,
            "waiting": waiting,
            "hosts": trend.hosts,
            "counts": [(s, sum(j.entry.status == s for j in verdict.runs)) for s in STATUSES],
            "measures": _MEASURES,
            "sentence": sentence,
            "value_text": value_text,
            "share_text": _share_text,
            "change_text": _change_text,
            "tool_version": tool_version,
        },
    )


def _jobs(verdict: Verdict, trend: Trend) -> tuple[list[Job], list[dict[str, Any]], list[dict[str, Any]]]:
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
    jobs, drawings, rows = [], [], []
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
                    drawings.append(document.drawing(id_, chart))
                    drawn.append((id_, _finding(names, shown, measures)))
            rows += values if drawn else []
        table = tuple(
            Row(
                p,
                measures.get(p.run, {}),
                judged[p.run].entry.status if p.run in judged else "",
                tuple(gates.get(p.run, ())),
                _page("runs", p.run, verdict.pages),
                _page("compare", p.run, verdict.pages),
            )
            for p in reversed(shown)
        )
        name = key[0] if key[0] is not None else "Runs of no job"
        jobs.append(Job(name, key[1] if key[1] != key[0] else None, table, len(by_job[key]) - len(shown), tuple(drawn)))
    return jobs, drawings, rows


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
    return _framed([base.mark_line(strokeWidth=2), base.mark_point(size=30, filled=True)], "Step time from run to run")


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
    return _framed([base.mark_line(strokeWidth=2), base.mark_point(size=24, filled=True)], "Shares from run to run")


def _names(field: str) -> str:
    pairs = ", ".join(f"{json.dumps(name)}: {json.dumps(text)}" for name, text in _MEASURES.items())
    return f"{{{pairs}}}[{field}]"


def _run_axis() -> alt.X:
    return alt.X("place:O", title="run, by time", axis=alt.Axis(labelOverlap=True, labelAngle=0))


def _framed(layers: list[alt.Chart], title: str) -> charts.Chart:
    layered = alt.layer(*layers)
    assert isinstance(layered, alt.LayerChart)
    return layered.properties(
        data=alt.NamedData("trend"),
        width="container",
        height=180,
        title=title,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )
