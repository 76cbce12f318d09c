"""What a night says: the runs of each job, which gates hold, as plain data, as JSON and as JUnit XML.

Every number is a row of the fleet's views; here they are only put together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
from markupsafe import escape

from longpole.text import printable
from longpole.units import duration_text

VIEWS = ("runs", "run_measures", "fleet_regressions", "fleet_gates", "fleet_hosts", "_run_order")
"""What a session must show for `read`."""

Status = Literal["changed", "unchanged", "waiting", "failed"]

STATUSES: tuple[Status, ...] = ("changed", "unchanged", "waiting", "failed")

JSON_VERSION = 1
"""Of verdict.json: keys may be added; another meaning is another version."""


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
        "SELECT o.run, o.job, o.workload, o.first_ns, o.place, r.verdict"
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
            page_of("runs", entry.run, pages),
            page_of("compare", entry.run, pages),
        )
        for entry in sorted(entries, key=lambda e: (e.run, e.error))
    )
    return Verdict(root, runs, pages)


def page_of(folder: str, run: str, pages: frozenset[str]) -> str | None:
    """Return the path of a run's page in a folder of the night's; None where it has none."""
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
