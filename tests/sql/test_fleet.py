"""From run to run: what a run is compared with, what is noise, which gates hold, which hosts are slow again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from evaluation import connection, create_empty, insert, rows
from longpole import catalog

Value = float | None

GIVEN = ("runs", "ranks", "straggler_ranks", "run_measures")


def night(
    runs: Sequence[tuple[str, Value]],
    *,
    job: Mapping[str, tuple[str | None, str | None]] | None = None,
    gates: Mapping[str, float] | None = None,
    measure: str = "step_time_ns",
    noise: float = 0,
    baseline: str | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return the fleet's relations of runs, by time, that have this value of one measure."""
    con = fleet()
    for place, (run, value) in enumerate(runs):
        insert(con, "runs", run=run, first_ns=1_700_000_000_000_000_000 + place, n_ranks=2, n_steps=4, verdict="ok")
        told = (job or {}).get(run, ("a", "w"))
        insert(con, "told_runs", run=run, job=told[0], workload=told[1], baseline=baseline if baseline != run else None)
        insert(con, "run_measures", run=run, measure=measure, value=value, noise=noise, n_steps=4,
               reason=None if value is not None else "told so")  # fmt: skip
        if measure != "step_time_ns":
            insert(con, "run_measures", run=run, measure="step_time_ns", value=100, noise=0, n_steps=4)
        for gate, threshold in (gates or {}).items():
            insert(con, "told_gates", run=run, gate=gate, threshold=threshold)
    return made(con)


def fleet() -> duckdb.DuckDBPyConnection:
    con = connection()
    for name in GIVEN:
        create_empty(con, name, of_runs=True)
    for name in ("told_runs", "told_gates"):
        create_empty(con, name)
    return con


def made(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    given = {*GIVEN, "told_runs", "told_gates", *catalog.data_names()}
    for relation in catalog.leading_to(["fleet_regressions", "fleet_gates", "fleet_hosts"], given):
        con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
    return con


def compared(con: duckdb.DuckDBPyConnection, run: str) -> tuple[Any, ...]:
    sql = "SELECT baseline_run, baseline, n_baseline, round(noise_floor, 3), round(change, 4), verdict"
    return rows(con, f"{sql} FROM fleet_regressions WHERE run = '{run}' AND measure = 'step_time_ns'")[0]


def test_the_baseline_is_of_the_same_job_and_workload_only() -> None:
    jobs = {"b": ("a", "other"), "c": ("other", "w"), "e": (None, None), "f": (None, None)}
    con = night([("a", 100), ("b", 1), ("c", 2), ("d", 150), ("e", 3), ("f", 4)], job=jobs)

    assert compared(con, "d") == ("a", 100.0, 1, 0.0, 0.5, "worse")
    assert compared(con, "b")[:2] == (None, None)
    assert compared(con, "b")[5] == "n/a: no good run of this job and workload before it"
    assert compared(con, "f")[5] == "n/a: run.toml says no job, model, batch, parallelism or hardware"


def test_a_job_without_a_workload_is_compared_with_itself() -> None:
    con = night([("a", 100), ("b", 90)], job={"a": ("x", None), "b": ("x", None)})

    assert compared(con, "b") == ("a", 100.0, 1, 0.0, -0.1, "better")


def test_a_run_that_failed_its_gates_or_has_no_step_time_is_no_baseline() -> None:
    con = night([("a", 100), ("b", 300), ("c", None), ("d", 101)], gates={"step_time_ns": 200})

    assert compared(con, "d")[:3] == ("a", 100.0, 1)
    assert rows(con, "SELECT run, verdict FROM fleet_gates ORDER BY run") == [
        ("a", "passed"),
        ("b", "failed"),
        ("c", "n/a: told so"),
        ("d", "passed"),
    ]


def test_a_run_that_regressed_is_no_baseline_until_it_is_the_new_normal() -> None:
    gates = {"step_time_worse_ratio": 0.05}
    few = night([("a", 100), ("b", 120), ("c", 120)], gates=gates)
    assert compared(few, "c")[:3] == ("a", 100.0, 1)

    # The median of the ten before the eighth is 120: from then on 120 is good.
    many = night([("a", 100), ("b", 100), *((f"c{n}", 120) for n in range(6))], gates=gates)
    failed = rows(many, "SELECT run FROM fleet_gates WHERE verdict = 'failed' ORDER BY run")
    assert failed == [("c0",), ("c1",), ("c2",), ("c3",)]


def test_the_noise_floor_is_three_of_the_deviations_between_good_runs() -> None:
    values = [100, 104, 96, 102, 98]
    con = night([*((f"r{n}", v) for n, v in enumerate(values)), ("s", 108), ("t", 110)])

    # Deviations of the five from 100 are 0, 4, 4, 2, 2: 3 x 1.4826 x 2 = 8.896.
    assert compared(con, "s") == ("r4", 100.0, 5, 8.896, 0.08, "ok")
    # Of the six from 101: 1, 3, 5, 1, 3, 7, median 3.
    assert compared(con, "t") == ("s", 101.0, 6, 13.343, 0.0891, "ok")


def test_of_one_run_alone_its_steps_say_the_noise() -> None:
    con = night([("a", 100), ("b", 104), ("c", 112)], noise=1)

    assert compared(con, "b") == ("a", 100.0, 1, 4.243, 0.04, "ok")
    assert compared(con, "c") == ("b", 102.0, 2, 4.243, 0.098, "worse")


def test_one_bad_night_moves_no_baseline() -> None:
    con = night([*((f"r{n}", 100 + n % 2) for n in range(6)), ("bad", 900), ("next", 101)])

    assert compared(con, "bad")[5] == "worse"
    assert compared(con, "next")[:2] == ("bad", 101.0)
    assert compared(con, "next")[5] == "ok"


def test_a_named_baseline_is_the_only_one() -> None:
    con = night([("a", 100), ("b", 200), ("c", 220)], job={"a": ("other", "other")}, baseline="a")

    assert compared(con, "c") == ("a", 100.0, 1, 0.0, 1.2, "worse")
    assert compared(con, "a")[0] is None


def gate(con: duckdb.DuckDBPyConnection, run: str) -> tuple[Any, ...]:
    sql = "SELECT round(value, 4), threshold, is_most, baseline_run, baseline, verdict FROM fleet_gates"
    return rows(con, f"{sql} WHERE run = '{run}'")[0]


def test_a_limit_is_the_most_of_what_is_worse_when_more_and_else_the_least() -> None:
    most = night([("a", 0.2)], measure="exposed_comm_ratio", gates={"exposed_comm_ratio": 0.1})
    assert gate(most, "a") == (0.2, 0.1, True, None, None, "failed")

    least = night([("a", 0.4)], measure="mfu_ratio", gates={"mfu_ratio": 0.3})
    assert gate(least, "a") == (0.4, 0.3, False, None, None, "passed")

    at = night([("a", 0.3)], measure="mfu_ratio", gates={"mfu_ratio": 0.3})
    assert gate(at, "a")[5] == "passed"


def test_a_change_fails_beyond_its_limit_and_the_noise() -> None:
    slow = night([("a", 100), ("b", 108)], gates={"step_time_worse_ratio": 0.05})
    assert gate(slow, "b") == (0.08, 0.05, True, "a", 100.0, "failed")

    noisy = night([("a", 100), ("b", 108)], gates={"step_time_worse_ratio": 0.05}, noise=2)
    assert gate(noisy, "b") == (0.08, 0.05, True, "a", 100.0, "passed")

    fell = night([("a", 0.40), ("b", 0.37)], measure="mfu_ratio", gates={"mfu_worse_ratio": 0.02})
    assert gate(fell, "b") == (0.03, 0.02, True, "a", 0.4, "failed")

    rose = night([("a", 0.40), ("b", 0.47)], measure="mfu_ratio", gates={"mfu_worse_ratio": 0.02})
    assert gate(rose, "b")[5] == "passed"


def test_a_gate_that_cannot_be_held_against_anything_says_why() -> None:
    first = night([("a", 100)], gates={"step_time_worse_ratio": 0.05})
    assert gate(first, "a")[5] == "n/a: no good run of this job and workload before it"

    unknown = night([("a", None)], measure="mfu_ratio", gates={"mfu_ratio": 0.3})
    assert gate(unknown, "a") == (None, 0.3, False, None, None, "n/a: told so")


def hosts(*late: tuple[str, str, str], n_hosts: int = 4, n_runs: int = 3) -> list[tuple[Any, ...]]:
    """Return fleet_hosts where these runs' ranks of these hosts straggled for this cause."""
    con = fleet()
    for n in range(n_runs):
        insert(con, "runs", run=f"r{n}", first_ns=n)
        for rank in range(n_hosts):
            insert(con, "ranks", run=f"r{n}", rank=rank, host=f"h{rank}", is_recorded=True)
    for run, host, cause in late:
        insert(con, "straggler_ranks", run=run, rank=int(host[1:]), host=host, late_ns=100, lost_gpu_hours=0.5,
               cause=cause, verdict="ok")  # fmt: skip
    sql = "SELECT host, n_runs, n_straggler_runs, expected_runs, late_ns, causes, runs, verdict FROM fleet_hosts"
    return rows(made(con), f"{sql} ORDER BY host")


def test_a_host_that_straggles_in_several_runs_is_named() -> None:
    found = hosts(("r0", "h1", "host"), ("r2", "h1", "compute"), ("r1", "h2", "host"))

    assert found == [
        ("h1", 3, 2, 0.75, 200, ["compute", "host"], ["r0", "r2"], "slow in several runs"),
        ("h2", 3, 1, 0.75, 100, ["host"], ["r1"], "seen once"),
    ]


def test_of_two_hosts_one_straggles_in_half_of_the_runs_anyway() -> None:
    found = hosts(("r0", "h0", "host"), ("r1", "h0", "host"), ("r2", "h1", "host"), n_hosts=2)

    assert [(host, n, verdict) for host, _, n, _, _, _, _, verdict in found] == [
        ("h0", 2, "as expected by chance"),
        ("h1", 1, "seen once"),
    ]


def test_a_slow_stage_or_a_long_sequence_is_no_fault_of_its_host() -> None:
    assert hosts(("r0", "h1", "stage"), ("r1", "h1", "sequence")) == []
