"""At which instants a rank's host goes on, on calls, activities and operators a person can check by eye."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation import Row, answer

MS = 1_000_000
SYNC = "cudaDeviceSynchronize"
INFERRED = "(inferred wait)"


def call(start: int, end: int | None, what: str | None = None, *, thread: int = 1, dump: int = 0, **more: Any) -> Row:
    """Return a call of a thread, or a record of a synchronisation."""
    name = SYNC if what in ("synchronise", "copy") else None
    return {"dump_no": dump, "thread": thread, "start_ns": start, "end_ns": end, "what": what, "name": name, **more}


def work(start: int, end: int, *, launch: int | None = 0, thread: int = 1, dump: int = 0, stream: int = 7) -> Row:
    """Return an activity on the device and who launched it when."""
    return {
        "dump_no": dump, "precedence": 0, "start_ns": start, "end_ns": end, "stream": stream, "launch_ns": launch,
        "launch_thread": thread, "is_device": True,
    }  # fmt: skip


def host(precedence: int, start: int, end: int, *, dump: int = 0) -> Row:
    """Return an activity of a rank without a device: 0 an operator, 1 a collective's span."""
    return {
        "dump_no": dump, "precedence": precedence, "start_ns": start, "end_ns": end, "launch_ns": start,
        "launch_thread": 1, "is_device": False,
    }  # fmt: skip


def inside(start: int, end: int, *, thread: int = 1, dump: int = 0, category: str = "cpu_op") -> Row:
    """Return an operator of a thread."""
    return {"dump_no": dump, "thread": thread, "category": category, "start_ns": start, "duration_ns": end - start}


def releases(
    calls: Sequence[Row], activities: Sequence[Row], operators: Sequence[Row] = (), select: str = "*"
) -> list[tuple[Any, ...]]:
    """Return the releases of a rank; its activities are numbered in their order."""
    numbered = [{"activity_no": n, **activity} for n, activity in enumerate(activities)]
    return answer("_releases", select, _calls=calls, _activities=numbered, events=operators)


def test_a_blocking_call_goes_on_when_the_activity_that_ends_last_inside_it_is_done() -> None:
    assert releases(
        [call(100, 200, "synchronise"), call(300, 400, "copy"), call(500, 600, "allocate"), call(700, 800)],
        [work(50, 150), work(60, 180), work(310, 390), work(510, 590), work(710, 790)],
    ) == [
        (0, 200, 100, 1, 180, 1, SYNC),
        (0, 400, 300, 2, 390, 1, SYNC),
    ]


@pytest.mark.parametrize(
    ("end", "releasing"),
    [(100, []), (101, [(200, 101)]), (200, [(200, 200)]), (201, [])],
)
def test_work_that_ends_as_a_call_begins_is_no_work_to_wait_for(end: int, releasing: list[tuple[int, int]]) -> None:
    assert releases([call(100, 200, "synchronise")], [work(50, end)], select="release_ns, released_ns") == releasing


def test_a_call_of_a_thread_that_launches_nothing_waits_for_nothing() -> None:
    # Thread 1 launches in dump 0, thread 2 in dump 1; the dump lacks the launch of the other activity there.
    assert releases(
        [
            call(100, 200, "synchronise", thread=1, dump=0),
            call(100, 200, "synchronise", thread=2, dump=0),
            call(100, 200, "synchronise", thread=1, dump=1),
            call(100, 300, "synchronise", thread=2, dump=1),
        ],
        [
            work(50, 150, thread=1, dump=0),
            work(50, 160, thread=2, dump=1),
            {**work(50, 170, launch=None, dump=1), "launch_thread": None},
        ],
    ) == [(0, 200, 100, 0, 150, 1, SYNC), (1, 300, 100, 2, 170, 2, SYNC)]


@pytest.mark.parametrize(("launch", "released"), [(179, 180), (180, 150), (181, 150), (None, 180)])
@pytest.mark.parametrize("stream", [None, 7])
def test_work_is_waited_for_only_if_it_was_launched_before_it_ended(
    launch: int | None, released: int, stream: int | None
) -> None:
    """Clocks of host and device may differ; work whose launch the dump lacks is taken to have been launched before."""
    assert releases(
        [call(100, 200, "synchronise", correlation_id=5), call(200, 200, "sync", correlation_id=5, stream=stream)],
        [work(50, 150), work(160, 180, launch=launch)],
        select="released_ns",
    ) == [(released,)]


@pytest.mark.parametrize(
    ("record", "released"),
    [
        ({"what": "sync", "stream": 7}, (0, 150)),
        ({"what": "sync", "stream": 0}, (1, 160)),
        ({"what": "sync", "stream": -1}, (2, 170)),
        ({"what": "sync", "stream": None}, (2, 170)),
        ({"what": "wait", "stream": 0, "wait_stream": 7}, (0, 150)),
        ({"what": "sync", "stream": 7, "correlation_id": 6}, (2, 170)),
        ({"what": "sync", "stream": 7, "correlation_id": None}, (2, 170)),
        ({"what": "sync", "stream": 7, "dump_no": 1}, (2, 170)),
    ],
)
def test_a_call_waits_for_the_stream_that_its_record_names(record: Row, released: tuple[int, int]) -> None:
    """Stream 0 is one; -1, as a record of a whole context has it, is none."""
    assert releases(
        [call(100, 200, "synchronise", correlation_id=5), {"dump_no": 0, "correlation_id": 5, **record}],
        [work(50, 150, stream=7), work(50, 160, stream=0), work(50, 170, stream=9)],
        select="activity_no, released_ns",
    ) == [released]


def test_a_call_without_an_id_has_no_record() -> None:
    assert releases(
        [call(100, 200, "synchronise"), call(150, 160, "sync", stream=7)],
        [work(50, 150, stream=7), work(50, 170, stream=9)],
        select="activity_no, released_ns",
    ) == [(1, 170)]


def test_of_activities_that_end_together_the_last_counts() -> None:
    calls = [
        call(100, 200, "synchronise", correlation_id=5),
        call(100, 200, "sync", correlation_id=5, stream=7),
        call(250, 300, "synchronise"),
    ]

    assert releases(
        calls,
        [work(50, 150, stream=7), work(60, 150, stream=7), work(260, 290, stream=7), work(270, 290, stream=9)],
        select="release_ns, activity_no",
    ) == [(200, 1), (300, 3)]


def test_a_call_waits_for_work_of_its_own_dump() -> None:
    assert releases(
        [
            call(100, 200, "synchronise", dump=0),
            call(300, 400, "synchronise", dump=0, correlation_id=5),
            call(350, 360, "sync", dump=0, correlation_id=5, stream=7),
        ],
        [
            work(50, 150, dump=0),
            work(50, 160, dump=1),
            work(250, 350, dump=0),
            work(250, 360, dump=1),
        ],
        select="dump_no, release_ns, activity_no",
    ) == [(0, 200, 0), (0, 400, 2)]


def test_of_calls_that_return_together_the_one_that_began_last_counts() -> None:
    """The header: it has waited since the latest of their starts."""
    assert releases(
        [
            call(100, 200, "synchronise", thread=1, name="cudaMemcpy"),
            call(120, 200, "synchronise", thread=2, name="cudaStreamSynchronize"),
        ],
        [work(50, 190, thread=1), work(50, 180, thread=2)],
    ) == [(0, 200, 120, 0, 190, 2, "cudaStreamSynchronize")]


# A thread is silent from 100 ms, where its last call ended, to 120 ms. Its operator runs all the time; the device from
# 105 ms on.
SILENT = [call(99 * MS, 100 * MS), call(120 * MS, 121 * MS)]
AROUND = inside(0, 200 * MS)
LONG = work(105 * MS, 120 * MS)


@pytest.mark.parametrize(
    ("silent_until", "n_inferred"),
    [(110 * MS - 1, 0), (110 * MS, 1), (110 * MS + 1, 1)],
)
def test_a_silence_of_10_ms_inside_an_operator_is_a_wait(silent_until: int, n_inferred: int) -> None:
    assert (
        releases([call(99 * MS, 100 * MS), call(silent_until, 121 * MS)], [work(100 * MS, silent_until)], [AROUND])
        == [(0, silent_until, 100 * MS, 0, silent_until, 1, INFERRED)][:n_inferred]
    )


@pytest.mark.parametrize(
    ("operator", "is_wait"),
    [
        (AROUND, True),
        (inside(100 * MS, 120 * MS), True),
        (inside(100 * MS + 1, 120 * MS), False),
        (inside(100 * MS, 120 * MS - 1), False),
        (inside(0, 200 * MS, thread=2), False),
        (inside(0, 200 * MS, dump=1), False),
        (inside(0, 200 * MS, category="annotation"), False),
    ],
)
def test_only_an_operator_of_the_thread_around_the_whole_silence_makes_it_a_wait(operator: Row, is_wait: bool) -> None:
    expected = [(0, 120 * MS, 100 * MS, 0, 120 * MS, 1, INFERRED)]

    assert releases(SILENT, [LONG], [operator]) == (expected if is_wait else [])


@pytest.mark.parametrize(
    ("start", "end", "is_wait"),
    [
        (110 * MS, 120 * MS, True),
        (110 * MS + 1, 120 * MS, False),
        (112 * MS, 120 * MS, False),
        (115 * MS, 120 * MS, False),
        (90 * MS, 120 * MS, True),
        (105 * MS, 120 * MS - 100_000, True),
        (105 * MS, 120 * MS - 100_001, False),
        (105 * MS, 120 * MS + 1, False),
    ],
)
def test_a_silence_is_a_wait_for_work_of_half_its_length_that_ends_within_100_us_of_it(
    start: int, end: int, is_wait: bool
) -> None:
    assert releases(SILENT, [work(start, end)], [AROUND], "activity_no, released_ns") == ([(0, end)] if is_wait else [])


def test_of_long_activities_that_end_together_one_of_half_the_silence_is_enough() -> None:
    """The last of them is named, as for a call; one of 1 ms is none of the long ones."""
    assert releases(
        SILENT, [LONG, work(112 * MS, 120 * MS), work(119 * MS, 120 * MS)], [AROUND], "activity_no, released_ns"
    ) == [(1, 120 * MS)]


def test_work_of_5_ms_fills_half_of_the_shortest_silence() -> None:
    calls = [call(99 * MS, 100 * MS), call(110 * MS, 111 * MS)]

    assert releases(calls, [work(105 * MS, 110 * MS)], [AROUND], "activity_no") == [(0,)]


@pytest.mark.parametrize("what", ["sync", "wait"])
def test_a_record_during_a_silence_is_no_call(what: str) -> None:
    """Kineto numbers a record's thread by its stream, which may be the number of a thread."""
    record = call(112 * MS, 113 * MS, what)

    assert releases([*SILENT, record], [LONG], [AROUND], "release_ns, blocked_ns") == [(120 * MS, 100 * MS)]


def test_a_call_during_a_silence_ends_it() -> None:
    assert releases([*SILENT, call(112 * MS, 113 * MS)], [LONG], [AROUND]) == []


def test_a_silence_lasts_from_the_end_of_the_longest_call() -> None:
    """A call inside another ends before it."""
    calls = [call(98 * MS, 103 * MS), call(99 * MS, 100 * MS), call(120 * MS, 121 * MS)]

    assert releases(calls, [LONG], [AROUND], "release_ns, blocked_ns") == [(120 * MS, 103 * MS)]


def test_only_a_thread_that_launches_waits_in_silence_and_for_work_of_its_own_dump() -> None:
    # Threads 1 and 2 are silent in dumps 0 and 1 alike. Thread 1 launches in dump 0, thread 2 in dump 1.
    calls = [{**each, "thread": thread, "dump_no": dump} for each in SILENT for thread in (1, 2) for dump in (0, 1)]
    operators = [inside(0, 200 * MS, thread=thread, dump=dump) for thread in (1, 2) for dump in (0, 1)]

    assert releases(
        calls,
        [work(105 * MS, 120 * MS - 10, thread=1, dump=0), work(105 * MS, 120 * MS - 5, thread=2, dump=1)],
        operators,
    ) == [
        (0, 120 * MS, 100 * MS, 0, 120 * MS - 10, 1, INFERRED),
        (1, 120 * MS, 100 * MS, 1, 120 * MS - 5, 2, INFERRED),
    ]


def test_without_a_device_a_collective_that_ends_while_no_operator_runs_lets_the_host_go_on() -> None:
    # Before any operator; inside one; as one ends; as the next begins; after the last.
    assert releases(
        [],
        [
            host(1, 0, 50),
            host(0, 100, 200),
            host(1, 110, 190),
            host(1, 110, 200),
            host(1, 120, 300),
            host(0, 300, 400),
            host(1, 310, 450),
        ],
    ) == [
        (0, 50, 50, 0, 50, None, None),
        (0, 200, 200, 3, 200, None, None),
        (0, 300, 300, 4, 300, None, None),
        (0, 450, 450, 6, 450, None, None),
    ]


def test_of_operators_that_begin_together_the_longest_keeps_the_host_busy() -> None:
    activities = [host(1, 0, 150), host(0, 100, 120), host(0, 100, 200), host(1, 110, 250)]

    assert releases([], activities, select="release_ns, activity_no") == [(250, 3)]


def test_an_earlier_operator_that_still_runs_keeps_the_host_busy() -> None:
    activities = [host(0, 0, 200), host(0, 50, 100), host(1, 60, 150), host(1, 60, 201)]

    assert releases([], activities, select="release_ns, activity_no") == [(201, 3)]


def test_of_collectives_that_end_together_the_last_lets_the_host_go_on() -> None:
    activities = [host(1, 0, 50), host(1, 10, 50)]

    assert releases([], activities, select="release_ns, activity_no") == [(50, 1)]


def test_an_operator_of_another_dump_keeps_no_host_busy() -> None:
    activities = [host(0, 0, 60, dump=0), host(0, 10, 100, dump=1), host(1, 20, 70, dump=0)]

    assert releases([], activities, select="dump_no, release_ns") == [(0, 70)]
