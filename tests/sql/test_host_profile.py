"""What a host thread ran when, how stretches of its time are split by it, and which thread carries the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation import Row, answer


def event(category: str, start: int, end: int, *, thread: int | None = 1, dump: int = 0, **more: Any) -> Row:
    return {
        "dump_no": dump, "category": category, "name": "f", "start_ns": start, "duration_ns": end - start,
        "thread": thread, **more,
    }  # fmt: skip


def stretch(start: int, end: int, *, thread: int = 1, dump: int = 0, **more: Any) -> Row:
    return {"dump_no": dump, "thread": thread, "start_ns": start, "end_ns": end, **more}


def innermost(
    *events: Row, stretches: Sequence[Row] = (stretch(0, 1_000),), select: str = "start_ns, event_no"
) -> list[tuple[Any, ...]]:
    """Return the profile of events that are numbered in their order, from 0."""
    return answer("_host_profile", select, events=events, _host_stretches=stretches)


def test_the_innermost_of_nested_events_is_named_and_all_of_them_count() -> None:
    # A range holds an operator that computes, that holds another with a call; then comes a wait for a batch.
    assert innermost(
        event("annotation", 0, 100),
        event("cpu_op", 10, 60, kind="compute"),
        event("cpu_op", 20, 50),
        event("runtime", 30, 40, name="cudaStreamSynchronize"),
        event("annotation", 70, 90, name="next_batch"),
        select="start_ns, event_no, is_busy, is_operator, is_compute, is_input, is_blocking",
    ) == [
        (0, 0, False, False, False, False, False),
        (10, 1, True, True, True, False, False),
        (20, 2, True, True, True, False, False),
        (30, 3, True, True, True, False, True),
        (40, 2, True, True, True, False, False),
        (50, 1, True, True, True, False, False),
        (60, 0, False, False, False, False, False),
        (70, 4, False, False, False, True, False),
        (90, 0, False, False, False, False, False),
        (100, None, False, False, False, False, False),
    ]


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("runtime", "cudaMemcpy", "blocking"),
        ("driver", "cuCtxSynchronize", "blocking"),
        ("runtime", "cudaMalloc", "call"),
        ("runtime", "cudaLaunchKernel", "call"),
        ("runtime", "next_batch", "call"),
        ("cpu_op", "next_batch", "input"),
        ("annotation", "next_batch", "input"),
        ("annotation", "cudaDeviceSynchronize", "range"),
        ("cpu_op", "cudaDeviceSynchronize", "operator"),
    ],
)
def test_a_call_blocks_or_not_and_a_range_or_an_operator_waits_for_input_or_not(
    category: str, name: str, kind: str
) -> None:
    """The names are those of calls, and of ranges: a range that is named for a call is none."""
    flags = {
        "blocking": (True, False, False, True),
        "call": (True, False, False, False),
        "input": (category == "cpu_op", category == "cpu_op", True, False),
        "range": (False, False, False, False),
        "operator": (True, True, False, False),
    }

    assert innermost(
        event(category, 0, 10, name=name),
        event("annotation", 20, 30, name="next_batch"),
        select="start_ns, is_busy, is_operator, is_input, is_blocking",
    ) == [
        (0, *flags[kind]),
        (10, False, False, False, False),
        (20, False, False, True, False),
        (30, False, False, False, False),
    ]


def test_a_call_is_innermost_even_if_it_begins_before_the_operator_that_makes_it() -> None:
    assert innermost(event("runtime", 0, 50), event("cpu_op", 10, 60), event("cpu_op", 20, 55)) == [
        (0, 0), (10, 0), (20, 0), (50, 2), (55, 1), (60, None),
    ]  # fmt: skip


def test_an_event_that_outlasts_what_it_stands_in_goes_on() -> None:
    # So it is on threads 1 and 2 of dump 0 and on thread 1 of dump 1, at the same time.
    places = [(0, 1), (0, 2), (1, 1)]
    overlapping = [
        event("cpu_op", start, end, dump=dump, thread=thread)
        for dump, thread in places
        for start, end in ((0, 50), (40, 60))
    ]

    assert innermost(
        *overlapping,
        stretches=[stretch(0, 1_000), stretch(0, 1_000, dump=1)],
        select="dump_no, thread, start_ns, event_no",
    ) == [
        (0, 1, 0, 0), (0, 1, 40, 1), (0, 1, 50, 1), (0, 1, 60, None),
        (0, 2, 0, 2), (0, 2, 40, 3), (0, 2, 50, 3), (0, 2, 60, None),
        (1, 1, 0, 4), (1, 1, 40, 5), (1, 1, 50, 5), (1, 1, 60, None),
    ]  # fmt: skip


def test_an_operator_that_begins_in_its_call_is_innermost_in_one_that_outlasts_another() -> None:
    # The second operator outlasts the first, in which it began, and holds a call with the operator that makes it.
    operators = [event("cpu_op", 0, 10), event("cpu_op", 5, 20), event("cpu_op", 12, 18)]

    assert innermost(*operators, event("runtime", 10, 13)) == [
        (0, 0), (5, 1), (10, 3), (12, 3), (13, 2), (18, 1), (20, None),
    ]  # fmt: skip


def test_what_runs_on_another_thread_or_in_another_dump_is_not_innermost_here() -> None:
    # When the inner operator ends, at 60, the outer one of its own thread and dump is innermost again.
    assert innermost(
        event("cpu_op", 0, 100),
        event("cpu_op", 40, 60),
        event("cpu_op", 50, 90, thread=2),
        event("cpu_op", 50, 80, dump=1),
        stretches=[stretch(0, 1_000), stretch(0, 1_000, dump=1)],
        select="dump_no, thread, start_ns, event_no",
    ) == [
        (0, 1, 0, 0), (0, 1, 40, 1), (0, 1, 60, 0), (0, 1, 100, None),
        (0, 2, 50, 2), (0, 2, 90, None),
        (1, 1, 50, 3), (1, 1, 80, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "is_seen"),
    [
        (event("cpu_op", 50, 100), False),
        (event("cpu_op", 50, 101), True),
        (event("cpu_op", 199, 250), True),
        (event("cpu_op", 200, 250), False),
        (event("cpu_op", 50, 250), True),
        (event("cpu_op", 150, 150), False),
        (event("cpu_op", 150, 160, thread=None), False),
        (event("cpu_op", 150, 160, dump=1), False),
        (event("sync", 150, 160), False),
        ({**event("cpu_op", 150, 160), "duration_ns": None}, False),
    ],
)
def test_only_what_a_thread_runs_during_a_stretch_of_its_dump_is_seen(one: Row, is_seen: bool) -> None:
    stretches = [stretch(100, 200), stretch(500, 600, dump=1)]

    assert innermost(one, stretches=stretches, select="event_no") == ([(0,), (None,)] if is_seen else [])


def ran(start: int, event_no: int | None, *kinds: str, thread: int = 1, dump: int = 0) -> Row:
    """Return what a thread runs from an instant on, and what that is: busy, operator, compute, input, blocking."""
    flags = {f"is_{kind}": kind in kinds for kind in ("busy", "operator", "compute", "input", "blocking")}
    return {"dump_no": dump, "thread": thread, "start_ns": start, "event_no": event_no, **flags}


def parts(
    stretches: Sequence[Row], profile: Sequence[Row], *launching: tuple[int, int | None]
) -> list[tuple[Any, ...]]:
    """Return the parts of stretches; `launching` are other threads that launch, by dump."""
    activities = [{"dump_no": dump, "launch_thread": thread} for dump, thread in launching]
    return answer("_host_parts", _host_stretches=stretches, _host_profile=profile, _activities=activities)


def test_a_stretch_is_cut_where_another_event_becomes_innermost() -> None:
    assert parts(
        [stretch(100, 200, step=3, piece_no=7)],
        [
            ran(50, 1, "busy"),
            ran(100, 2, "busy"),
            ran(120, 3, "busy", "blocking"),
            ran(130, 4, "input"),
            ran(140, 4, "input", "busy", "blocking"),
            ran(150, 5, "busy", "operator", "compute"),
            ran(160, 6, "busy", "operator", "compute", "blocking"),
            ran(170, None),
            ran(200, 7, "busy"),
        ],
    ) == [
        (3, 7, 100, 120, 1, "host", 2),
        (3, 7, 120, 130, 1, "sync", 3),
        (3, 7, 130, 150, 1, "input", 4),
        (3, 7, 150, 160, 1, "compute", 5),
        (3, 7, 160, 170, 1, "sync", 6),
        (3, 7, 170, 200, 1, "host", None),
    ]


def test_a_stretch_of_a_thread_without_events_is_one_part() -> None:
    assert parts([stretch(100, 200, step=3, piece_no=7)], []) == [(3, 7, 100, 200, 1, "host", None)]


def test_time_in_which_a_thread_runs_nothing_is_another_launching_thread_s_that_runs_an_operator() -> None:
    """On a rank without a device that is compute if the operator is. Of several threads the lowest counts."""
    assert parts(
        [stretch(100, 200, step=3, piece_no=7)],
        [
            ran(0, None),
            ran(180, 9, "busy"),
            ran(110, 1, "busy", thread=2),
            ran(120, 2, "busy", "operator", thread=2),
            ran(130, 3, "busy", "operator", "compute", thread=2),
            ran(150, None, thread=2),
            ran(170, 4, "busy", "operator", thread=2),
            ran(140, 5, "busy", "operator", thread=3),
            ran(160, None, thread=3),
            ran(100, 6, "busy", "operator", thread=4),
        ],
        (0, 2), (0, 3), (0, None), (1, 4),
    ) == [
        (3, 7, 100, 120, 1, "host", None),
        (3, 7, 120, 130, 2, "host", 2),
        (3, 7, 130, 150, 2, "compute", 3),
        (3, 7, 150, 160, 3, "host", 5),
        (3, 7, 160, 170, 1, "host", None),
        (3, 7, 170, 180, 2, "host", 4),
        (3, 7, 180, 200, 1, "host", 9),
    ]  # fmt: skip


def test_the_stretches_of_each_dump_are_split_by_what_ran_in_it() -> None:
    # Both dumps have a stretch from 100 on, and threads 1 and 2 that launch. In dump 0 thread 2 runs an operator, and
    # thread 1 one from 150 to 180. In dump 1 thread 1 runs another from 140 to 160, and thread 2 nothing.
    assert parts(
        [
            stretch(100, 200, step=3, piece_no=7),
            stretch(100, 120, step=4, piece_no=8, dump=1),
            stretch(130, 170, step=4, piece_no=9, dump=1),
        ],
        [
            ran(90, 1, "busy", "operator", thread=2),
            ran(150, 2, "busy", "operator"),
            ran(180, None),
            ran(140, 3, "busy", "operator", "compute", dump=1),
            ran(160, None, dump=1),
            ran(95, None, thread=2, dump=1),
            ran(155, None, thread=2, dump=1),
        ],
        (0, 2), (1, 2),
    ) == [
        (3, 7, 100, 150, 2, "host", 1),
        (3, 7, 150, 180, 1, "host", 2),
        (3, 7, 180, 200, 2, "host", 1),
        (4, 8, 100, 120, 1, "host", None),
        (4, 9, 130, 140, 1, "host", None),
        (4, 9, 140, 160, 1, "compute", 3),
        (4, 9, 160, 170, 1, "host", None),
    ]  # fmt: skip


def test_a_dump_s_steps_are_on_the_thread_of_its_longest_marker() -> None:
    """Several threads may carry a marker, and text may stand for the number of a thread. Of dump 1 nothing says one."""
    assert answer(
        "_marker_threads",
        events=[
            event("step", 0, 50),
            event("step", 10, 90, thread=2),
            event("step", 0, 100, thread=None),
            event("cpu_op", 0, 200, thread=3),
            event("step", 300, 340),
            event("step", 0, 100, dump=1, thread=None),
            event("cpu_op", 0, 200, dump=1, thread=3),
        ],
        _host_steps=[
            {"dump_no": 0, "step": 1, "has_device": True},
            {"dump_no": 0, "step": 2, "has_device": True},
            {"dump_no": 1, "step": 3, "has_device": False},
        ],
    ) == [(0, 2, True), (1, None, False)]
