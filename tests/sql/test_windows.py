"""Markers of a dump, the steps they make on the host, and the windows in which the device completes those."""

from __future__ import annotations

from typing import Any

from evaluation import Row, answer

WEEK = 100
"""Longest event that is believed, in this file's small times."""


def marker(step: int | None, start: int, end: int, *, thread: int = 1) -> Row:
    return {"step": step, "thread": thread, "start_ns": start, "end_ns": end}


def event(category: str, start: int, duration: int | None, **more: Any) -> Row:
    return {"category": category, "start_ns": start, "duration_ns": duration, **more}


def host_step(capture: int, step: int, start: int, end: int, *, dump: int = 0, has_device: bool = True) -> Row:
    return {
        "dump_no": dump, "capture": capture, "step": step, "start_ns": start, "end_ns": end, "is_window": False,
        "has_device": has_device,
    }  # fmt: skip


def activity(start: int, end: int, launch: int | None, step: int | None, *, stream: int = 7, dump: int = 0) -> Row:
    """Return work on the device; without a launch it is unlinked, and in no step."""
    return {
        "dump_no": dump, "stream": stream, "start_ns": start, "end_ns": end, "launch_ns": launch,
        "is_linked": launch is not None, "step": step,
    }  # fmt: skip


def host_steps(*events: Row) -> list[tuple[Any, ...]]:
    """Return the steps of a rank's events, which say of which dump they are."""
    return answer("_host_steps", events=events)


def windows(steps: list[Row], *activities: Row) -> list[tuple[int, int, int, int, int]]:
    """Return capture, step, start, end and launches of each window."""
    return answer("_windows", "capture, step, start_ns, end_ns, n_launched", _host_steps=steps, _activities=activities)


def test_a_marker_on_several_threads_is_one_step_from_first_start_to_last_end() -> None:
    raw = [event("annotation", 0, 90)]
    markers = [marker(3, 10, 30), marker(3, 12, 40, thread=2), marker(4, 40, 50), marker(None, 50, 90)]
    assert answer("_dump_steps", raw=raw, _dump_markers=markers, params=[{"longest_event_ns": WEEK}]) == [
        (3, 10, 40, False),
        (4, 40, 50, False),
    ]


def test_a_dump_without_a_marker_is_one_window_around_all_whose_time_is_believed() -> None:
    raw = [
        event("kernel", 0, 10),
        event("cpu_op", 20, 50),
        event("cpu_op", 30, 5),
        event("trace", 1, 99),  # the profiler's own range of its recording
        event("cpu_op", -5, 10),
        event("cpu_op", 60, -1),
        event("cpu_op", 60, None),
        event("cpu_op", 60, WEEK + 1),
    ]
    # A marker without a usable number is none.
    for markers in ([], [marker(None, 0, 90)]):
        found = answer("_dump_steps", raw=raw, _dump_markers=markers, params=[{"longest_event_ns": WEEK}])
        assert found == [(0, 0, 70, True)]


def test_an_event_of_the_greatest_length_is_within_the_window() -> None:
    raw = [event("cpu_op", 5, WEEK)]
    assert answer("_dump_steps", raw=raw, params=[{"longest_event_ns": WEEK}]) == [(0, 5, 105, True)]


def test_the_steps_of_a_rank_are_those_of_finished_markers_with_a_number() -> None:
    # GIVEN step 7 marked on two threads and once more without an end; a marker without a number; a second dump, without
    # a marker; and a third, whose one row of a device occupies no lane.
    def step(number: int | None, start: int, duration: int | None, *, dump: int = 0, name: str | None = None) -> Row:
        return event("step", start, duration, dump_no=dump, step=number, name=name or f"ProfilerStep#{number}")

    found = host_steps(
        step(7, 10, 20),
        step(7, 12, 28),
        step(7, 5, None),
        step(8, 50, 10),
        step(None, 70, 0),
        event("kernel", 20, 5, dump_no=0, kind="compute"),
        step(0, 200, 50, dump=1, name="(window)"),
        step(9, 300, 10, dump=2),
        event("memcpy", 300, 5, dump_no=2, kind=None),
    )
    assert found == [
        (0, 0, 7, 10, 40, False, True),
        (0, 0, 8, 50, 60, False, True),
        (1, 1, 0, 200, 250, True, False),
        (2, 2, 9, 300, 310, False, False),
    ]


def test_rows_that_a_dump_itself_calls_steps_leave_its_window_a_window() -> None:
    found = host_steps(
        event("step", 0, 50, dump_no=0, step=0, name="(window)"),
        event("step", 10, 10, dump_no=0, step=0, name="batch"),
    )
    assert found == [(0, 0, 0, 0, 50, True, False)]


def test_what_the_manifest_says_of_a_dump_counts_steps_and_processes_once() -> None:
    # GIVEN step 3 marked twice on each of two threads, step 4 once on each, and two markers that have no number.
    def step(number: int, start: int, thread: int) -> Row:
        return event("step", start, 10, step=number, thread=thread, process=10, name=f"ProfilerStep#{number}")

    places = [(3, 100, 1), (3, 120, 1), (3, 100, 2), (3, 120, 2), (4, 140, 1), (4, 140, 2)]
    markers = [marker(number, start, start + 10, thread=thread) for number, start, thread in places]
    found = answer(
        "dump_devices",
        events=[
            *(step(*place) for place in places),
            event("runtime", 101, 1, process=20),
            event("kernel", 110, 60, kind="compute", device=0, process=0),
        ],
        _dump_markers=[*markers, marker(None, 150, 160), marker(None, 170, 180)],
    )
    assert found == [(0, 1, 1, 10, 100, 170, 3, 4, 2, 2, 1)]


def test_what_the_manifest_says_of_a_dump_without_markers_is_its_launchers_process() -> None:
    """Rows of a device have a process of their own, which is none of the host's."""
    events = [
        event("step", 5, 95, step=0, name="(window)"),
        event("runtime", 5, 1, process=20),
        event("kernel", 10, 5, kind="compute", device=1, process=0),
        event("kernel", 20, 5, kind="compute", device=1, process=0),
    ]
    assert answer("dump_devices", events=events) == [(1, 2, 2, 20, 5, 100, None, None, 0, 0, 0)]


def test_a_dump_without_any_activity_has_one_row_without_a_device() -> None:
    assert answer("dump_devices", events=[event("step", 5, 95, step=6, name="ProfilerStep#6", process=10)]) == [
        (None, 0, 0, 10, 5, 100, 6, 6, 1, 0, 0)
    ]


def test_the_first_window_starts_when_work_launched_before_it_is_done_on_any_stream() -> None:
    # GIVEN a copy launched before the step, on a stream where it launches nothing.
    steps = [host_step(0, 1, 100, 200)]
    before, first = activity(90, 130, 80, None, stream=9), activity(110, 150, 105, 1)
    assert windows(steps, before, first) == [(0, 1, 130, 150, 1)]


def test_the_first_window_starts_when_work_launched_before_it_is_done_though_it_launches_none() -> None:
    steps = [host_step(0, 1, 100, 200)]
    assert windows(steps, activity(90, 130, 80, None)) == [(0, 1, 130, 200, 0)]


def test_work_without_a_launch_is_before_a_step_where_it_starts_before_the_steps_first_on_its_stream() -> None:
    # GIVEN a first kernel that is launched as the step starts, and a second; and between them one without a launch.
    steps = [host_step(0, 1, 100, 300)]
    first, second = activity(120, 125, 100, 1), activity(200, 210, 150, 1)
    assert windows(steps, activity(110, 119, None, None), first, second) == [(0, 1, 119, 210, 2)]
    assert windows(steps, first, activity(150, 160, None, None), second) == [(0, 1, 100, 210, 2)]


def test_work_without_a_launch_on_a_stream_of_its_own_is_measured_by_the_first_of_any_stream() -> None:
    # GIVEN a step whose first on stream 7 starts at 120, and on stream 8 at 300; on stream 9 only one without a launch.
    steps = [host_step(0, 1, 100, 400)]
    launched = activity(120, 125, 110, 1), activity(300, 310, 115, 1, stream=8)
    for start, starts in ((119, 145), (120, 100), (200, 100)):
        unlinked = activity(start, 145 if start < 145 else 250, None, None, stream=9)
        assert windows(steps, *launched, unlinked) == [(0, 1, starts, 310, 2)]


def test_dumps_of_one_rank_do_not_tell_of_each_other() -> None:
    # GIVEN two dumps that both have a step 0. Stream 9 has launches in the second only; in the first a kernel without a
    # launch, after the first dump's first.
    steps = [host_step(0, 0, 100, 200), host_step(1, 0, 1000, 1100, dump=1)]
    found = windows(
        steps,
        activity(120, 130, 110, 0),
        activity(140, 160, None, None, stream=9),
        activity(1020, 1130, 1010, 0, stream=9, dump=1),
        activity(1130, 1140, 1015, 0, stream=9, dump=1),
    )
    assert found == [(0, 0, 100, 130, 1), (1, 0, 1000, 1140, 2)]


def test_without_a_device_a_window_is_its_marker() -> None:
    steps = [host_step(0, 1, 100, 200, has_device=False), host_step(0, 2, 250, 300, has_device=False)]
    assert windows(steps, activity(90, 240, 90, None), activity(110, 280, 110, 1)) == [
        (0, 1, 100, 200, 1),
        (0, 2, 250, 300, 0),
    ]
