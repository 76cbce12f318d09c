"""Phase of training at each instant of a host thread, of several dumps each for itself, on rows checked by eye."""

from __future__ import annotations

from typing import Any

from evaluation import Row, answer

Range = tuple[str, int, int]
"""Name, start and end."""


def phase_changes(
    *dumps: list[Range], thread: int | None = 1, category: str = "annotation", form: str = "kineto"
) -> list[tuple[Any, ...]]:
    """Return (dump, start, phase) of dumps with these ranges on one thread."""
    events = [
        {
            "dump_no": n,
            "thread": thread,
            "category": category,
            "name": name,
            "start_ns": start,
            "duration_ns": end - start,
        }
        for n, ranges in enumerate(dumps)
        for name, start, end in ranges
    ]
    return answer(
        "_phase_changes", "dump_no, start_ns, phase", events=events, dump_facts=[{"format": form} for _ in dumps]
    )


ADAM, AUTOGRAD = "Optimizer.step#Adam.step", "autograd::engine::evaluate_function: MmBackward0"


def test_of_timers_that_overlap_the_optimizer_comes_first_and_then_backward() -> None:
    timers = [("forward", 90, 130), ("backward", 0, 100), ("optimizer", 50, 70)]

    assert phase_changes(timers, form="timers") == [
        (0, 0, "backward"),
        (0, 50, "optimizer"),
        (0, 70, "backward"),
        (0, 90, "backward"),
        (0, 100, "forward"),
        (0, 130, None),
    ]
    assert phase_changes(timers) == []  # elsewhere these names are anybody's


def test_two_dumps_that_overlap_in_time_keep_their_phases_apart() -> None:
    """A rank's thread is recorded twice. Each dump says what it saw, and nothing of the other."""
    assert phase_changes([(AUTOGRAD, 0, 100)], [(AUTOGRAD, 50, 150), (ADAM, 60, 80)]) == [
        (0, 0, "backward"),
        (0, 100, None),
        (1, 50, "backward"),
        (1, 60, "optimizer"),
        (1, 80, "backward"),
        (1, 150, None),
    ]


def test_ranges_that_touch_are_two_and_ranges_of_no_length_or_thread_or_host_are_none() -> None:
    assert phase_changes([(AUTOGRAD, 0, 100), (ADAM, 100, 120), (ADAM, 200, 200)]) == [
        (0, 0, "backward"),
        (0, 100, "optimizer"),
        (0, 120, None),
    ]
    assert phase_changes([(ADAM, 0, 100)], thread=None) == []
    assert phase_changes([(ADAM, 0, 100)], category="kernel") == []


def element_phases(asked: str | None, *parts: Row) -> list[tuple[Any, ...]]:
    """Return (dump, thread, instant, phase) of parts of two dumps that overlap in time; a change asks for a phase."""
    return answer(
        "_element_phases",
        _host_parts=parts,
        _host_intervals=[{"point_no": 0, "dump_no": 0}, {"point_no": 1, "dump_no": 1}],
        _phase_changes=[
            {"dump_no": 0, "thread": 1, "start_ns": 100, "phase": "backward"},
            {"dump_no": 0, "thread": 1, "start_ns": 200, "phase": None},
            {"dump_no": 0, "thread": 2, "start_ns": 120, "phase": "input"},
            {"dump_no": 1, "thread": 1, "start_ns": 110, "phase": "optimizer"},
        ],
        changes=[{"phase": asked}],
    )


PARTS: list[Row] = [
    {"piece_no": 0, "thread": 1, "start_ns": 99},
    {"piece_no": 0, "thread": 1, "start_ns": 100},
    {"piece_no": 0, "thread": 1, "start_ns": 150},
    {"piece_no": 0, "thread": 1, "start_ns": 200},
    {"piece_no": 0, "thread": 2, "start_ns": 150},
    {"piece_no": 0, "thread": None, "start_ns": 150},
    {"piece_no": 1, "thread": 1, "start_ns": 150},
    {"piece_no": 1, "thread": 1, "start_ns": 160, "step": 7},  # of a step's own path: it is priced there
]


def test_a_part_of_host_time_has_the_phase_of_its_own_thread_and_dump() -> None:
    assert element_phases("backward", *PARTS) == [
        (0, 1, 99, "forward"),
        (0, 1, 100, "backward"),
        (0, 1, 150, "backward"),
        (0, 1, 200, "forward"),
        (0, 2, 150, "input"),
        (0, None, 150, "forward"),
        (1, 1, 150, "optimizer"),
    ]


def test_no_phase_is_looked_up_where_no_change_asks_for_one() -> None:
    assert element_phases(None, *PARTS) == []
