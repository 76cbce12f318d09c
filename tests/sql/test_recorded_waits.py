"""Waits for events that a dump recorded: what is held and what it waits for, on rows checked by eye."""

from __future__ import annotations

from typing import Any

from evaluation import Row, answer


def call(what: str, at: int, *, dump_no: int = 0, **more: int) -> Row:
    return {"dump_no": dump_no, "what": what, "start_ns": at, **more}


def activity(no: int, stream: int | None, launched: int | None, end: int, *, dump_no: int = 0) -> Row:
    return {
        "activity_no": no, "dump_no": dump_no, "stream": stream, "launch_ns": launched, "end_ns": end,
        "is_device": stream is not None,
    }  # fmt: skip


def waits(calls: list[Row], activities: list[Row]) -> list[tuple[Any, ...]]:
    """Return (activity that waits, the one it waits for, its end)."""
    return answer("_recorded_waits", _calls=calls, _activities=activities)


RECORD = call("record", 20, correlation_id=5)
WAIT = {"wait_correlation_id": 5, "stream": 8, "wait_stream": 7}


def test_a_wait_holds_what_is_launched_next_until_what_the_event_stands_for_has_ended() -> None:
    """The event is recorded at 20, and waited for at 30."""
    before = [activity(0, 7, 10, 110), activity(1, 7, 19, 140), activity(2, 7, 20, 170)]

    assert waits(
        [RECORD, call("wait", 30, **WAIT)],
        [
            *before,
            activity(3, 8, 29, 180),
            activity(4, 8, 30, 190),
            activity(5, 8, 31, 200),
            activity(6, None, 30, 200),
            *(activity(7, 7, None, 210), activity(8, 8, None, 220)),
        ],
    ) == [
        (4, 1, 140)
    ]  # neither the host's own work nor what has no launch waits for it; what is launched at 20 is after


def test_of_the_activities_of_one_launch_the_last_is_waited_for_and_the_first_is_held() -> None:
    graph = [activity(0, 7, 10, 110), activity(1, 7, 10, 120), activity(2, 8, 40, 130), activity(3, 8, 40, 140)]

    assert waits([RECORD, call("wait", 30, **WAIT)], graph) == [(2, 1, 120)]


def test_a_host_that_waits_for_an_event_holds_no_stream() -> None:
    streams = [activity(0, 7, 10, 110), activity(1, 8, 40, 130)]

    assert waits([RECORD, call("sync", 30, **WAIT)], streams) == []
    assert waits([call("synchronise", 20, correlation_id=5), call("wait", 30, **WAIT)], streams) == []


def test_an_activity_does_not_wait_for_itself() -> None:
    """The clocks of call and record differ, so the event seems to be recorded after what waits for it was launched."""
    own_stream = {"wait_correlation_id": 5, "stream": 7, "wait_stream": 7}

    assert waits([RECORD, call("wait", 8, **own_stream)], [activity(0, 7, 10, 110)]) == []


def test_launches_of_one_dump_neither_wait_nor_are_waited_for_in_another() -> None:
    """In the first dump nothing follows the wait; in the second nothing was launched before the event."""
    calls = [
        *(RECORD, call("wait", 30, **WAIT)),
        *(call("record", 1_020, dump_no=1, correlation_id=5), call("wait", 1_030, dump_no=1, **WAIT)),
    ]
    activities = [activity(0, 7, 10, 110), activity(1, 8, 1_040, 1_100, dump_no=1)]

    assert waits(calls, activities) == []


def test_two_dumps_with_the_same_correlations_wait_for_their_own_records() -> None:
    calls = [
        *(RECORD, call("wait", 30, **WAIT)),
        *(call("record", 1_020, dump_no=1, correlation_id=5), call("wait", 1_030, dump_no=1, **WAIT)),
    ]
    activities = [
        *(activity(0, 7, 10, 110), activity(1, 7, 25, 120), activity(2, 8, 40, 130)),
        *(activity(3, 7, 1_010, 1_110, dump_no=1), activity(4, 8, 1_040, 1_120, dump_no=1)),
    ]

    assert waits(calls, activities) == [(2, 0, 110), (4, 3, 1_110)]
