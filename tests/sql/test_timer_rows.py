"""Which range each line of a timers log becomes, and which line becomes none; times are in whole nanoseconds."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from evaluation import Row, answer

STEP = "ProfilerStep#4"


class Log(NamedTuple):
    """What lines become."""

    steps: list[tuple[str, int, int]]
    """Name, start and end of each step."""
    ranges: list[tuple[str, str, int, int]]
    """Category, name, start and end of all else that is a range, in order of start."""
    left_out: list[tuple[str, str | None, str | None]]
    """Each line that is no range, why it is dropped and why skipped."""


def timed(name: str, start: int | None, duration: int, **more: Any) -> Row:
    """Return a timer of step 4 of rank 0."""
    return {"rank": 0, "step": 4, "name": name, "start_ns": start, "duration_ns": duration, "comm_group": None, **more}


def log_of(*lines: Row) -> Log:
    """Return what becomes of lines that stand in a log in this order."""
    log = [{**line, "row_id": n} for n, line in enumerate(lines)]
    found = answer(
        "_timer_rows",
        "start_ns, end_ns, row_id, category, name, dropped, skipped",
        raw_timers=log,
        params=[{"timer_slack_ratio": 0.01}],
    )
    placed = [row for row in found if row[0] is not None]
    return Log(
        [(name, start, end) for start, end, _, _, name, *_ in placed if name.startswith("ProfilerStep")],
        [(kind, name, start, end) for start, end, _, kind, name, *_ in placed if not name.startswith("ProfilerStep")],
        [(name, dropped, skipped) for start, _, _, _, name, dropped, skipped in found if start is None],
    )


def test_a_name_that_says_two_things_is_what_the_first_pattern_says() -> None:
    """An all-reduce of the optimizer is an exchange, and no part of it; optimizer-step is the optimizer itself."""
    lines = [timed("optimizer-all-reduce", 0, 5), timed("optimizer-step", 5, 5)]
    log = [{**line, "row_id": n} for n, line in enumerate(lines)]
    found = answer("_timer_rows", "name, category, comm_op", raw_timers=log, params=[{"timer_slack_ratio": 0.01}])
    assert found == [
        (STEP, "annotation", None),
        ("optimizer-all-reduce", "annotation", "all_reduce"),
        ("optimizer-step", "cpu_op", None),
    ]


def test_the_optimizer_by_its_longer_name_is_left_to_its_parts_too() -> None:
    assert log_of(timed("optimizer-step", 0, 10), timed("clip-grad", 2, 3)).ranges == [
        ("annotation", "optimizer-step", 0, 10),
        ("cpu_op", "clip-grad", 2, 5),
    ]


def test_a_step_is_where_its_own_timers_say_and_they_are_no_ranges_besides() -> None:
    # GIVEN data of the step that began before its timer, and a second timer of the step within the first.
    found = log_of(
        timed("data", 5, 20),
        timed("interval-time", 10, 100),
        timed("train-step", 20, 80),
        timed("forward", 30, 60),
    )
    assert found == ([(STEP, 10, 110)], [("annotation", "data", 5, 25), ("cpu_op", "forward", 30, 90)], [])


def test_a_step_timer_outside_of_any_step_is_a_range_where_it_has_a_start() -> None:
    assert log_of(timed("forward", 0, 10), timed("iteration-time", 50, 10, step=None)).ranges == [
        ("cpu_op", "forward", 0, 10),
        ("annotation", "iteration-time", 50, 60),
    ]


def test_a_step_timer_that_nothing_places_is_counted() -> None:
    found = log_of(
        timed("step", 0, 100),
        timed("step", None, 100, step=5),
        timed("step", None, 100, step=None),
    )
    why_placed = "no start, where other steps of the rank have one"
    assert found == ([(STEP, 0, 100)], [], [("step", why_placed, None), ("step", "neither a start nor a step", None)])


def test_input_without_a_start_takes_nothing_out_of_a_pass_that_has_one() -> None:
    found = log_of(timed("forward", 0, 10), timed("data", None, 2))
    why = "no start, where others of its step have one"
    assert found == ([(STEP, 0, 10)], [("cpu_op", "forward", 0, 10)], [("data", why, None)])


def test_timers_that_exceed_their_step_by_up_to_a_hundredth_lie_behind_each_other() -> None:
    """Logs round durations; 101 of 100 may be rounded, 102 is not."""
    found = log_of(
        *(timed("step", None, 100), timed("forward", None, 60), timed("backward", None, 41)),
        *(timed("step", None, 100, step=5), timed("forward", None, 60, step=5), timed("backward", None, 42, step=5)),
    )
    why = "no start, and durations that add up to more than their step"
    assert found.ranges == [("cpu_op", "forward", 0, 60), ("cpu_op", "backward", 60, 101)]
    assert found.left_out == [("forward", why, None), ("backward", why, None)]


@pytest.mark.parametrize(
    ("start", "duration", "passes"),
    [
        (4, 2, [(0, 4), (6, 10)]),  # within
        (0, 3, [(3, 10)]),  # from its first instant
        (7, 3, [(0, 7)]),  # to its last
        (8, 3, [(0, 10)]),  # beyond its end: not within
        (4, 0, [(0, 10)]),  # nothing waited
    ],
)
def test_a_batch_is_taken_out_of_the_pass_it_lies_in(start: int, duration: int, passes: list[tuple[int, int]]) -> None:
    found = log_of(timed("forward", 0, 10), timed("batch-generator", start, duration)).ranges
    assert [(first, last) for _, name, first, last in found if name == "forward"] == passes
    assert ("annotation", "batch-generator", start, start + duration) in found


def test_a_batch_of_another_step_or_rank_is_not_taken_out_of_a_pass() -> None:
    found = log_of(timed("forward", 0, 10), timed("data", 4, 2, step=5), timed("data", 5, 2, rank=1))
    assert found.ranges == [
        ("cpu_op", "forward", 0, 10),
        ("annotation", "data", 4, 6),
        ("annotation", "data", 5, 7),
    ]


def test_a_timer_that_took_no_time_is_a_range_all_the_same() -> None:
    assert log_of(timed("forward", 0, 10), timed("optimizer", 10, 0)).ranges == [
        ("cpu_op", "forward", 0, 10),
        ("cpu_op", "optimizer", 10, 10),
    ]


@pytest.mark.parametrize(
    ("start", "end", "begins"),
    [
        (5, 10, 5),  # ends with the first: it lies within
        (5, 11, 10),  # ends after it: rounded, so it lies behind
        (10, 11, 10),
    ],
)
def test_compute_begins_where_earlier_compute_ends_unless_it_lies_within(start: int, end: int, begins: int) -> None:
    assert log_of(timed("forward", 0, 10), timed("backward", start, end - start)).ranges == [
        ("cpu_op", "forward", 0, 10),
        ("cpu_op", "backward", begins, end),
    ]
