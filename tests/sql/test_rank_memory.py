"""What a rank's memory did in each step, by its allocations and releases."""

from __future__ import annotations

from typing import Any

from evaluation import Row, allocation, allocations, analyzed, kernel, launch_call, link, rows, step

WORK = [step(1, 100, 200), step(2, 200, 300), launch_call(110, 111), kernel(120, 130, launch=110)]


def memory_of(*dumped: Row) -> list[tuple[Any, ...]]:
    con = analyzed(link([*WORK, *dumped]), rank=5, memory=allocations([*WORK, *dumped]))
    return rows(con, "SELECT * EXCLUDE (rank) FROM rank_memory ORDER BY step, device")


def test_a_step_has_its_own_peak_with_what_was_there_before() -> None:
    found = memory_of(
        allocation(100, 10, 1_010, 2_000),  # 1,000 were there
        allocation(150, 30, 1_040, 3_000),
        allocation(199, -40, 1_000, 3_000),
        allocation(200, -100, 900, 2_500),
        allocation(299, 50, 950, 2_500),
    )
    assert found == [
        (1, 0, 3, 2, 1_000, 1_000, 1_040, 3_000, 40, None),
        (2, 0, 2, 1, 1_000, 950, 1_000, 2_500, 0, None),
    ]


def test_what_happens_outside_the_steps_and_on_the_host_counts_apart() -> None:
    found = memory_of(
        allocation(99, 7, 7, 8),
        allocation(150, 1, 8, 8),
        allocation(160, 64, 64, 0, device=None),
        allocation(300, 5, 13, 16),
    )
    assert found == [
        (1, 0, 1, 1, 7, 8, 8, 8, 1, None),
        (1, None, 1, 1, 0, 64, 64, 0, 64, None),
        (None, 0, 2, 2, 0, 13, 13, 16, None, None),
    ]


def test_without_totals_only_the_rise_is_known() -> None:
    found = memory_of(
        allocation(110, 100, None), allocation(120, -40, None), allocation(130, 50, None), allocation(140, -200, None)
    )
    assert found == [(1, 0, 4, 2, None, None, None, None, 110, "the dump has sizes of allocations, but no totals")]


def test_sizes_that_no_memory_has_break_nothing() -> None:
    most = 2**63 - 1
    found = memory_of(allocation(110, -most, most), allocation(120, most, most), allocation(130, most, most))
    assert found == [(1, 0, 3, 2, 0, most, most, None, most, None)]


def test_allocations_leave_events_and_windows_as_they_are() -> None:
    with_them, without = link([*WORK, allocation(1, 8, 8)]), link(WORK)
    assert with_them.drop_columns("row_id").equals(without.drop_columns("row_id"))
