"""Rules of `longpole check` over one table: rows that keep a rule are not listed, and each way to break it is."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import connection, create_empty, dump_rows, insert, rows
from longpole import catalog

PARTS = {"compute_ns": 100, "exposed_comm_ns": 30, "exposed_copy_ns": 20, "idle_ns": 60}
CAUSES = ("idle_input_ns", "idle_sync_ns", "idle_host_ns", "idle_launch_ns", "idle_turnaround_ns", "idle_other_ns")
WINDOW = {"duration_ns": 210, **PARTS, "overlapped_comm_ns": 5, **dict.fromkeys(CAUSES, 10)}


def broken(rule: str, **changed: int) -> list[tuple[Any, ...]]:
    """Return what a rule lists of one window of 210 ns, 60 of them idle, in which some numbers are others."""
    con = connection()
    create_empty(con, "rank_steps", of_runs=True)
    insert(con, "rank_steps", **{"run": "r", "rank": 1, "step": 7, **WINDOW, **changed})
    return rows(con, catalog.relations()[rule].sql)


def test_a_window_that_is_the_sum_of_its_parts_is_not_listed() -> None:
    assert broken("a_window_is_the_sum_of_its_parts") == []
    assert broken("idle_is_the_sum_of_its_causes") == []


@pytest.mark.parametrize("part", PARTS)
def test_a_window_whose_parts_are_more_or_less_than_it_is_listed(part: str) -> None:
    assert broken("a_window_is_the_sum_of_its_parts", **{part: PARTS[part] + 1}) == [("r", 1, 7, 210, 211)]
    assert broken("a_window_is_the_sum_of_its_parts", **{part: PARTS[part] - 1}) == [("r", 1, 7, 210, 209)]


@pytest.mark.parametrize("part", [*PARTS, "overlapped_comm_ns"])
def test_a_negative_part_of_a_window_is_listed_even_where_the_sum_is_right(part: str) -> None:
    other = "compute_ns" if part != "compute_ns" else "idle_ns"
    changed = {part: -1} if part not in PARTS else {part: -1, other: PARTS[other] + PARTS[part] + 1}
    assert broken("a_window_is_the_sum_of_its_parts", **changed) == [("r", 1, 7, 210, 210)]


@pytest.mark.parametrize("cause", CAUSES)
def test_idle_time_that_is_not_its_causes_is_listed_and_a_negative_cause_always(cause: str) -> None:
    other = CAUSES[0] if cause != CAUSES[0] else CAUSES[1]
    assert broken("idle_is_the_sum_of_its_causes", **{cause: 11}) == [("r", 1, 7, 60, 61)]
    assert broken("idle_is_the_sum_of_its_causes", **{cause: 9}) == [("r", 1, 7, 60, 59)]
    assert broken("idle_is_the_sum_of_its_causes", **{cause: -1, other: 21}) == [("r", 1, 7, 60, 60)]


def test_a_dump_of_which_events_are_missing_is_listed_unless_it_could_not_be_read() -> None:
    con = connection()
    told: list[dict[str, Any]] = [
        {"rank": 0, "n_events": 10, "n_stored": 5, "n_skipped": 3, "n_dropped": 2},
        {"rank": 1, "n_events": 10, "n_stored": 5, "n_skipped": 3, "n_dropped": 1},
        {"rank": 2, "n_events": 10, "n_stored": 5, "n_skipped": 2, "n_dropped": 2},
        {"rank": 3, "n_events": 10, "n_stored": 4, "n_skipped": 3, "n_dropped": 2},
        {"rank": 4, "n_events": 10, "n_stored": 0, "error": "it is damaged"},
    ]
    con.register("told", dump_rows(*told))
    con.execute("CREATE TABLE dumps AS SELECT 'r' AS run, * FROM told")
    found = rows(
        con, f"SELECT path, n_events, n_counted FROM ({catalog.relations()['every_event_is_accounted_for'].sql})"
    )
    assert sorted(found) == [("p/1.json", 10, 9), ("p/2.json", 10, 9), ("p/3.json", 10, 9)]
