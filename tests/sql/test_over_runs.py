"""From rows of several runs: what they are compared with, gates, hosts that are slow again, and sums that must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation import Row, answer


def test_a_run_is_compared_with_the_last_good_runs_before_it_or_with_the_one_named() -> None:
    """The last two count here. Before z there are a, b, c, d, which failed, and e, whose steps have no time."""
    before = [("z", "e", 1), ("z", "d", 2), ("z", "c", 3), ("z", "b", 4), ("z", "a", 5), ("y", "a", 1), ("x", "a", 1)]
    named = {"y": "c", "x": "x", "z": None}
    times = {"a": 100, "b": 110, "c": 120, "d": 130, "e": None}
    measures = [{"run": run, "measure": "step_time_ns", "value": time} for run, time in times.items()]
    found = answer(
        "_baselines",
        _runs_before=[{"run": run, "before_run": other, "n_back": n} for run, other, n in before],
        _run_order=[{"run": run, "job": "j", "baseline": baseline} for run, baseline in named.items()],
        _failed_alone=[{"run": "d"}],
        run_measures=[*measures, {"run": "e", "measure": "mfu_ratio", "value": 0.4}],
        params=[{"baseline_runs": 2}],
    )
    assert found == [("y", "c", 1), ("z", "b", 2), ("z", "c", 1)]


def compared(value: float | None, **of_run: str) -> tuple[Any, ...]:
    """Return what fleet_regressions says of a step time with a noise of 3 ns; that of run a is 100, with one of 4."""
    times = {"a": (100, 4), "b": (value, 3)}
    [found] = answer(
        "fleet_regressions",
        "baseline_run, noise_floor, change, verdict, run",
        _baselines=[{"run": "b", "baseline_run": "a", "place": 1}] if "baseline" in of_run else [],
        _run_order=[{"run": "b", **of_run}],
        run_measures=[
            {"run": run, "measure": "step_time_ns", "value": time, "noise": noise, "reason": "told so"}
            for run, (time, noise) in times.items()
        ],
        params=[{"noise_sigmas": 2, "spread_runs": 3}],
    )
    return found[:4]


def test_a_run_of_no_job_is_compared_with_the_run_named() -> None:
    """Standard errors of 3 and 4 ns are one of 5 together, of which the noise is twice as much here."""
    assert compared(111, baseline="a") == ("a", 10.0, 0.11, "worse")
    assert compared(110, baseline="a") == ("a", 10.0, 0.1, "ok")
    assert compared(100, baseline="a") == ("a", 10.0, 0.0, "ok")
    assert compared(90, baseline="a") == ("a", 10.0, -0.1, "ok")
    assert compared(89, baseline="a") == ("a", 10.0, -0.11, "better")
    assert compared(None, baseline="a") == ("a", 10.0, None, "n/a: told so")
    assert compared(110) == (None, None, None, "n/a: run.toml says no job, model, batch, parallelism or hardware")
    assert compared(110, job="j") == (None, None, None, "n/a: no good run of this job and workload before it")


def gate(gate: str, threshold: float, **found: float | str | None) -> tuple[Any, ...]:
    """Return measure, value, is_most, baseline, noise_floor and verdict of one gate where the run was found so."""
    measure = {"step": "step_time_ns", "mfu_": "mfu_ratio"}[gate[:4]]
    [row] = answer(
        "fleet_gates",
        "measure, value, is_most, baseline, noise_floor, verdict",
        told_gates=[{"run": "b", "gate": gate, "threshold": threshold}],
        fleet_regressions=[{"run": "b", "measure": measure, **found}] if found else [],
    )
    assert row[0] == measure
    return row[1:]


@pytest.mark.parametrize(
    ("step_time", "change", "noise", "verdict"),
    [
        (108, 0.08, 0, "failed"),
        (108, 0.08, 7, "failed"),
        (108, 0.08, 8, "passed"),  # a difference up to the noise fails no gate
        (105, 0.05, 0, "passed"),  # nor does one that is the most allowed
        (92, -0.08, 0, "passed"),
    ],
)
def test_a_change_fails_beyond_what_is_allowed_and_the_noise(
    step_time: float, change: float, noise: float, verdict: str
) -> None:
    found: Row = {"value": step_time, "change": change, "baseline": 100, "noise_floor": noise, "verdict": "worse"}
    assert gate("step_time_worse_ratio", 0.05, **found) == (change, True, 100.0, noise, verdict)


def test_a_value_is_held_against_its_limit_alone() -> None:
    alike: Row = {"baseline": 110, "noise_floor": 50, "change": 0, "verdict": "ok"}
    assert gate("step_time_ns", 100, value=110, **alike) == (110, True, None, None, "failed")
    assert gate("step_time_ns", 100, value=100, **alike) == (100, True, None, None, "passed")
    assert gate("mfu_ratio", 0.5, value=0.5, **alike) == (0.5, False, None, None, "passed")
    assert gate("mfu_ratio", 0.5, value=0.25, **alike) == (0.25, False, None, None, "failed")


def test_a_gate_of_a_run_without_its_measure_says_why() -> None:
    assert gate("step_time_ns", 100) == (None, True, None, None, "n/a: the run is not analyzed")
    assert gate("step_time_worse_ratio", 0.05) == (None, True, None, None, "n/a: the run is not analyzed")
    assert gate("mfu_ratio", 0.5, verdict="n/a: no model") == (None, False, None, None, "n/a: no model")
    assert gate("step_time_worse_ratio", 0.05, value=9, verdict="worse")[-1] == "n/a: no share of a baseline of 0"
    assert gate("mfu_worse_ratio", 0.5, value=0.4, verdict="n/a: no good run") == (
        None,
        True,
        None,
        None,
        "n/a: no good run",
    )


def hosts(
    seats: Sequence[tuple[str, str | None, bool]], late: Sequence[tuple[str, str | None]]
) -> list[tuple[Any, ...]]:
    """Return what fleet_hosts says of ranks (run, host, whether recorded) and stragglers (run, host)."""
    return answer(
        "fleet_hosts",
        "host, n_runs, n_straggler_runs, share_ratio, expected_runs, runs, verdict",
        ranks=[{"run": run, "host": host, "is_recorded": is_recorded} for run, host, is_recorded in seats],
        straggler_ranks=[
            {"run": run, "host": host, "late_ns": 10, "lost_gpu_hours": 1, "cause": "host", "verdict": "ok"}
            for run, host in late
        ],
        runs=[{"run": run, "first_ns": n} for n, run in enumerate(sorted({seat[0] for seat in seats}))],
    )


def test_a_host_late_twice_as_often_as_chance_would_have_it_is_slow() -> None:
    """Four runs on the same four hosts, one of them late in each: by chance each would be late in one run."""
    runs = ("r1", "r2", "r3", "r4")
    seats = [(run, host, True) for run in runs for host in ("a", "b", "c", "d")]
    assert hosts(seats, [("r1", "a"), ("r2", "b"), ("r3", "a"), ("r4", "c")]) == [
        ("a", 4, 2, 0.5, 1.0, ["r1", "r3"], "slow in several runs"),
        ("b", 4, 1, 0.25, 1.0, ["r2"], "seen once"),
        ("c", 4, 1, 0.25, 1.0, ["r4"], "seen once"),
    ]
    assert hosts(seats, [("r1", "a"), ("r2", "b"), ("r3", "a"), ("r4", "c"), ("r4", "b")]) == [
        ("a", 4, 2, 0.5, 1.25, ["r1", "r3"], "as expected by chance"),
        ("b", 4, 2, 0.5, 1.25, ["r2", "r4"], "as expected by chance"),
        ("c", 4, 1, 0.25, 1.25, ["r4"], "seen once"),
    ]


def test_hosts_count_where_a_rank_on_them_was_recorded_and_stragglers_in_their_own_run() -> None:
    seats = [
        ("r1", "a", True),
        ("r1", "a", True),
        ("r1", "b", True),
        ("r1", "c", False),
        ("r1", None, True),
        ("r2", "a", False),
        ("r2", "b", True),
        ("r2", None, False),
        ("r3", "a", True),
        ("r3", "b", True),
    ]
    assert hosts(seats, [("r1", "a"), ("r1", None), ("r2", "b")]) == [
        ("a", 2, 1, 0.5, 0.5, ["r1"], "seen once"),  # one of the two hosts of r1, none of r3
        ("b", 3, 1, 1 / 3, 1.5, ["r2"], "seen once"),  # and the only host of r2
    ]


def test_a_run_is_listed_with_what_is_known_of_it() -> None:
    found = answer(
        "fleet_runs",
        "run, step_time_ns, compute_ratio, job, mfu_ratio, straggler_ratio, coverage_ratio, goodput_ratio",
        runs=[{"run": run} for run in ("a", "b", "c")],
        steps=[
            *({"run": "a", "duration_ns": duration} for duration in (130, None, 110, 120)),
            {"run": "b", "duration_ns": None},
        ],
        rank_steps=[
            {"run": run, "duration_ns": duration, "compute_ns": compute}
            for run, duration, compute in (("a", 100, 50), ("a", 100, 70), ("b", 70, 35), ("b", 30, 10), ("b", 100, 5))
        ],
        run_measures=[
            {"run": "a", "measure": measure, "value": value}
            for measure, value in (
                ("step_time_ns", 120),
                ("mfu_ratio", 0.4),
                ("straggler_ratio", 0.1),
                ("coverage_ratio", 0.9),
                ("goodput_ratio", 0.8),
            )
        ],
        told_runs=[{"run": "a", "job": "j"}],
    )
    assert found == [
        ("a", 120, 0.6, "j", 0.4, 0.1, 0.9, 0.8),
        ("b", 70, 0.25, None, None, None, None, None),  # clocks are not aligned: the median window of a rank
        ("c", None, None, None, None, None, None, None),
    ]


def test_a_ledger_that_is_not_ranks_times_step_time_or_has_a_part_below_zero_is_listed() -> None:
    parts = {
        1: {"model": 150, "idle_host": 60, "skew": -10},  # only skew may be below zero
        2: {"model": 150, "idle_host": 61, "skew": -10},
        3: {"model": 210, "idle_host": -10, "skew": 0},
        4: {"model": 200, "idle_host": 0, "skew": 0},
    }
    found = answer(
        "ledgers_add_up",
        "step, whole_ns, parts_ns, least_ns, round(share_ratio, 9)",
        steps=[{"run": "r", "step": step, "n_ranks": 2, "duration_ns": 100} for step in (1, 2, 3, 4, 5)],
        step_ledger=[
            {"run": "r", "step": step, "part": part, "device_ns": ns, "share_ratio": ns / 200 + (step == 4) * 1e-6}
            for step, of_step in parts.items()
            for part, ns in of_step.items()
        ],
    )
    assert found == [
        (2, 200, 201, 61, 1.005),
        (3, 200, 200, -10, 1.0),
        (4, 200, 200, 0, 1.000003),
        (5, 200, None, None, None),
    ]


def test_phases_of_one_run_that_are_longer_than_they_last_are_no_fault_of_another() -> None:
    found = answer(
        "phases_add_up",
        rank_steps=[{"run": run, "rank": 0, "step": 1, "duration_ns": 100, "idle_ns": 40} for run in ("a", "b")],
        phases=[
            {"run": run, "rank": 0, "step": 1, "gpu_ns": gpu, "window_ns": window}
            for run, gpu, window in (("a", 50, 50), ("a", 10, 100), ("b", 50, 49), ("b", 10, 101))
        ],
    )
    assert found == [("b", 0, 1, 60, 60, 2)]
