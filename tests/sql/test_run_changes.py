"""How much a part of a step changed between two runs, and what is noise, on rows a person can check by eye."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from evaluation import connection, rows
from longpole import catalog

Part = tuple[str, str, str, list[int]]
"""Run, dimension, item, and what it took in steps 0, 1, 2 and so on; a step that lacks it has -1."""


def compared(*parts: Part) -> duckdb.DuckDBPyConnection:
    """Return a connection with run_parts and run_changes over these rows of step_parts."""
    con = connection()
    columns = ", ".join(f"{c.name} {c.type}" for c in catalog.relations()["step_parts"].columns)
    con.execute(f"CREATE TABLE step_parts ({columns})")
    for run, dimension, item, values in parts:
        kind, calls = ("compute", 2) if dimension == "kernel" else (None, None)
        for step, value in enumerate(values):
            if value != -1:
                con.execute(
                    "INSERT INTO step_parts VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [run, step, dimension, item, kind, value, calls],
                )
    con.execute("CREATE TABLE rank_steps AS SELECT DISTINCT run, step FROM step_parts WHERE dimension = 'step'")
    con.execute("CREATE TABLE step_path_kinds AS SELECT DISTINCT run, step FROM step_parts WHERE dimension = 'path'")
    for name in ("params", "run_parts", "run_changes"):
        con.execute(f"CREATE TABLE {name} AS {catalog.relations()[name].sql}")
    return con


def parts(con: duckdb.DuckDBPyConnection, item: str) -> list[tuple[Any, ...]]:
    return rows(con, f"SELECT n_steps, n_found, median_ns, low_ns, high_ns FROM run_parts WHERE item = '{item}'")


def changes(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, int | None, str]]:
    found = rows(
        con, "SELECT item, change_ns, noise_ns, verdict FROM run_changes WHERE baseline = 'old' AND run = 'new'"
    )
    return {item: (change, noise, verdict) for item, change, noise, verdict in found}


def test_a_step_without_the_part_counts_as_none_of_it() -> None:
    con = compared(
        ("old", "step", "step", [100] * 5),
        ("old", "kernel", "now and then", [50, -1, -1, -1, 70]),
        ("old", "contention", "below and above", [-8, -1, -1, 5, 6]),
    )

    assert parts(con, "now and then") == [(5, 2, 0, 0, 50)]
    assert parts(con, "below and above") == [(5, 3, 0, 0, 5)]


def test_a_change_below_two_per_cent_of_the_part_or_a_thousandth_of_the_step_is_noise() -> None:
    con = compared(
        *(("old", *part) for part in _ways(step=10_000, large=5_000, small=4)),
        *(("new", *part) for part in _ways(step=10_201, large=5_103, small=14)),
    )

    assert changes(con) == {
        "step": (201, 204, "within noise"),
        "large": (103, 102, "grew"),
        "small": (10, 10, "within noise"),
    }


def _ways(**values: int) -> list[tuple[str, str, list[int]]]:
    return [("step" if item == "step" else "time", item, [value] * 4) for item, value in values.items()]


def test_the_spread_of_steps_is_noise_and_one_outlier_is_not() -> None:
    # Quartiles 90 and 115 in both: sigma 25 / 1.349 = 18.532, times sqrt(pi / 2 / 8) a median is known to 8.212, the
    # difference of two to 11.613, and three times that is 34.84.
    steps = [80, 90, 95, 100, 105, 110, 115, 120]
    wild = [*steps[:-1], 100_000]
    con = compared(
        ("old", "step", "step", steps),
        ("new", "step", "step", [step + 34 for step in wild]),
        ("more", "step", "step", [step + 36 for step in wild]),
    )

    found = rows(
        con, "SELECT run, change_ns, noise_ns, verdict FROM run_changes WHERE baseline = 'old' ORDER BY run DESC"
    )
    assert found == [("new", 34, 35, "within noise"), ("more", 36, 35, "grew")]


@pytest.mark.parametrize("n_steps", [1, 2])
def test_of_fewer_than_three_steps_no_spread_is_known_and_so_no_verdict(n_steps: int) -> None:
    con = compared(("old", "step", "step", [100] * n_steps), ("new", "step", "step", [900] * 9))

    assert changes(con) == {"step": (800, None, "n/a: fewer than three steps")}


def test_kernels_appear_and_vanish_and_a_dimension_that_one_run_lacks_says_nothing() -> None:
    con = compared(
        ("old", "step", "step", [100] * 3),
        ("new", "step", "step", [100] * 3),
        ("old", "kernel", "gone", [7, 7, 7]),
        ("new", "kernel", "come", [5, -1, -1]),
        ("new", "phase", "forward", [60] * 3),
    )

    assert changes(con) == {"step": (0, 2, "within noise"), "gone": (-7, 0, "vanished"), "come": (0, 8, "appeared")}
    calls = "SELECT item, baseline_calls_per_step, round(calls_per_step, 3) FROM run_changes WHERE baseline = 'old'"
    assert sorted(rows(con, f"{calls} AND dimension = 'kernel'")) == [("come", 0.0, 0.667), ("gone", 2.0, 0.0)]
