"""The critical path on hand-made rows: what an activity waits for, where the path goes and what it is made of."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer

Rows = list[tuple[Any, ...]]

PACES: Row = {"turnaround_ns": 5_000, "event_wait_ns": 20_000}
"""The device's own pace, and how long a stream takes to go on after an event."""


def _activity(number: int, stream: int, start: int, end: int, **more: Any) -> Row:
    """Return a kernel of the device, launched at 5 unless more says otherwise."""
    told: Row = {
        "activity_no": number, "dump_no": 0, "precedence": 0, "stream": stream, "start_ns": start, "end_ns": end,
        "launch_ns": 5, "launch_end_ns": 6, "launch_thread": 1, "is_device": True,
    }  # fmt: skip
    return {**told, **more}


def _blockers(*activities: Row, waits: list[Row] | None = None) -> Rows:
    """Return of the last activity what it waited for."""
    return answer(
        "_blockers",
        "activity_no, blocker, ready_ns, source_no, wait_no, is_head",
        _activities=activities,
        _recorded_waits=waits or [],
        params=[PACES],
    )[-1:]


@pytest.mark.parametrize(
    ("after_ns", "free_ns", "waited"),
    [
        (0, 5_001, True),
        (0, 5_000, False),
        (5_000, 5_001, True),
        (5_001, 5_002, False),
        (12_000, 120_000, True),
        (12_000, 119_999, False),
        (20_000, 200_000, True),
        (20_001, 300_000, False),
    ],
)
def test_a_stream_that_was_free_waited_for_what_ended_elsewhere_just_before_it_went_on(
    after_ns: int, free_ns: int, waited: bool
) -> None:
    """Free for more than 5 µs, and not later than 5 µs behind that end; or 20 µs, if free for ten times as long."""
    start = 1_000 + free_ns
    found = _blockers(
        _activity(0, 7, 100, 1_000), _activity(1, 8, 200, start - after_ns), _activity(2, 7, start, start + 10)
    )
    assert found == ([(2, "wait", start - after_ns, 1, 1, True)] if waited else [(2, "stream", 1_000, 0, None, False)])


def test_what_ended_in_another_dump_is_not_waited_for() -> None:
    first = _activity(1, 7, 1_000, 2_000, dump_no=1, launch_ns=400)
    assert _blockers(_activity(0, 8, 200, 1_000), first) == [(1, "launch", 400, None, None, True)]


def test_of_a_wait_and_the_stream_that_let_go_at_once_the_wait_counts_and_heads_a_run() -> None:
    before, last = _activity(0, 7, 100, 1_000), _activity(2, 7, 1_200, 1_300)
    for end, row in [
        (1_000, (2, "wait", 1_000, 1, 1, True)),
        (1_001, (2, "wait", 1_001, 1, 1, True)),
        (999, (2, "stream", 1_000, 0, 1, False)),
    ]:
        waits: list[Row] = [{"activity_no": 2, "source_no": 1, "source_end_ns": end}]
        assert _blockers(before, _activity(1, 8, 200, end), last, waits=waits) == [row]


CLOCKS: list[Row] = [{"rank": 0, "offset_ns": 0}, {"rank": 1, "offset_ns": 0}]


def test_the_path_goes_from_each_collective_to_its_last_arriver_and_back_to_the_start_of_the_step() -> None:
    """Step 1 ends in rank 0's work behind collective 5, for which rank 1 came last, at 700, out of its collective 3.

    Step 2 ends with collective 8 at the step's end, which took no time: neither is a piece.
    """
    found = answer(
        "path_pieces",
        steps=[
            {"step": 1, "start_ns": 0, "end_ns": 1_000, "end_rank": 0},
            {"step": 2, "start_ns": 1_000, "end_ns": 2_000, "end_rank": 0},
            {"step": 3, "start_ns": 2_000, "end_ns": 2_000, "end_rank": 0},
        ],
        rank_clocks=CLOCKS,
        rank_chains=[
            {"rank": 0, "step": 1, "root_no": 5, "root_ns": 900},
            {"rank": 1, "activity_no": 6, "root_no": 3, "root_ns": 500},
            {"rank": 0, "step": 2, "root_no": 8, "root_ns": 2_000},
            {"rank": 0, "step": 3, "root_no": 8, "root_ns": 2_000},
        ],
        _hand_overs=[
            {"rank": 0, "activity_no": 5, "to_rank": 1, "to_no": 6, "at_ns": 700, "end_ns": 900, "is_matched": True},
            {"rank": 1, "activity_no": 3, "to_rank": 1, "to_no": 3, "at_ns": 400, "end_ns": 500, "is_matched": False},
            {"rank": 0, "activity_no": 8, "to_rank": 0, "to_no": 8, "at_ns": 2_000, "end_ns": 2_000},
        ],
    )
    assert found == [
        (1, 0, 0, False, None, 900, 1_000, None),
        (1, 1, 0, True, 5, 700, 900, True),
        (1, 2, 1, False, 6, 500, 700, None),
        (1, 3, 1, True, 3, 400, 500, False),
        (1, 4, 1, False, 3, 0, 400, None),
        (2, 2, 0, False, 8, 1_000, 2_000, None),
    ]


@pytest.mark.parametrize(("end_ns", "is_followed"), [(899, True), (900, False), (901, False)])
def test_a_collective_that_did_not_end_before_the_one_it_leads_from_is_not_followed(
    end_ns: int, is_followed: bool
) -> None:
    found = answer(
        "path_pieces",
        "piece_no, rank, is_comm, activity_no, start_ns, end_ns",
        steps=[{"step": 1, "start_ns": 0, "end_ns": 1_000, "end_rank": 0}],
        rank_clocks=CLOCKS,
        rank_chains=[
            {"rank": 0, "step": 1, "root_no": 5, "root_ns": 900},
            {"rank": 1, "activity_no": 6, "root_no": 3, "root_ns": 500},
        ],
        _hand_overs=[
            {"rank": 0, "activity_no": 5, "to_rank": 1, "to_no": 6, "at_ns": 700, "end_ns": 900},
            {"rank": 1, "activity_no": 3, "to_rank": 1, "to_no": 3, "at_ns": 400, "end_ns": end_ns},
        ],
    )
    assert found[:2] == [(0, 0, False, None, 900, 1_000), (1, 0, True, 5, 700, 900)]
    assert found[2:] == (
        [(2, 1, False, 6, 500, 700), (3, 1, True, 3, 400, 500), (4, 1, False, 3, 0, 400)]
        if is_followed
        else [(2, 1, False, 6, 0, 700)]
    )


def test_a_chain_stops_at_the_start_of_its_own_captures_step() -> None:
    """Captures may repeat a step, as a job does that goes back to a checkpoint; each has a window of its own.

    Collective 5's chain is older than its step in capture 1, from 1050, so it hangs on nothing there. Collective 8 has
    no window and hangs on what is right before it.
    """
    assert answer(
        "rank_chains",
        context=[{"rank": 3}],
        _windows=[
            {"capture": 0, "step": 10, "start_ns": 450},
            {"capture": 1, "step": 10, "start_ns": 1_050},
        ],
        rank_collectives=[
            {"capture": 0, "shard_step": 10, "activity_no": 2, "arrival_ns": 500},
            {"capture": 1, "shard_step": 10, "activity_no": 5, "arrival_ns": 1_300},
            {"capture": 1, "shard_step": 11, "activity_no": 8, "arrival_ns": 1_300},
        ],
        _hops=[
            {"head_no": 2, "next_no": 1, "source_ns": 460, "is_comm": False},
            {"head_no": 1, "next_no": 0, "source_ns": 440, "is_comm": True},
            {"head_no": 5, "next_no": 4, "source_ns": 1_040, "is_comm": False},
            {"head_no": 4, "next_no": 3, "source_ns": 1_030, "is_comm": True},
            {"head_no": 8, "next_no": 7, "source_ns": 1_200, "is_comm": True},
        ],
    ) == [(3, None, 2, 10, 0, 440), (3, None, 8, 11, 7, 1_200)]


def test_the_path_visits_a_run_also_where_the_rank_did_not_complete_the_step() -> None:
    """Piece 2 leads to collective 4 of a rank whose own recording lacks step 1; piece 0 to another's completion."""
    assert answer(
        "_path_visits",
        _path_pieces=[
            {"step": 1, "piece_no": 2, "is_comm": False, "activity_no": 4, "low_ns": 100, "high_ns": 400},
            {"step": 1, "piece_no": 3, "is_comm": True, "activity_no": 3, "low_ns": 50, "high_ns": 100},
            {"step": 2, "piece_no": 0, "is_comm": False, "low_ns": 500, "high_ns": 900},
        ],
        _completions=[{"step": 2, "source_no": 6, "source_ns": 850}],
        _runs=[
            {"activity_no": 3, "head_no": 3},
            {"activity_no": 4, "head_no": 4},
            {"activity_no": 6, "head_no": 5},
        ],
        _hops=[
            {"head_no": 4, "source_no": 2, "source_ns": 101, "next_no": 1},
            {"head_no": 1, "source_no": 0, "source_ns": 100, "next_no": 0},
            {"head_no": 5},
        ],
    ) == [
        (1, 2, 0, 100, 400, None, None, 4),
        (1, 2, 1, 100, 400, 2, 101, 1),
        (2, 0, 0, 500, 900, 6, 850, 5),
    ]


def test_host_time_before_a_step_that_the_host_completed_is_its_last_pieces_alone() -> None:
    """Piece 0 is the completion's; piece 2 leads to collective 4, so the wait before the step's end is not in it."""
    assert answer(
        "_path_hosts",
        _path_pieces=[
            {"step": 1, "piece_no": 0, "is_comm": False, "low_ns": 500, "high_ns": 900},
            {"step": 1, "piece_no": 1, "is_comm": True, "activity_no": 4, "low_ns": 400, "high_ns": 500},
            {"step": 1, "piece_no": 2, "is_comm": False, "activity_no": 4, "low_ns": 0, "high_ns": 400},
        ],
        _completions=[
            {
                "step": 1,
                "dump_no": 0,
                "end_ns": 900,
                "source_no": 2,
                "source_ns": 300,
                "release_ns": 600,
                "call": "cudaDeviceSynchronize",
                "call_thread": 2,
            }
        ],
        _marker_threads=[{"dump_no": 0, "thread": 1, "has_device": True}],
    ) == [
        (1, 0, 0, 1, None, 600, 900),
        (1, 0, 0, 2, "cudaDeviceSynchronize", 500, 600),
    ]


def _gap(waited_ns: int, blocker: str, launch_end: int) -> str:
    """Return what the path calls the time from 1000, when the blocker let it go, to its start."""
    ((kind,),) = answer(
        "_path_device",
        "kind",
        _path_visits=[{"step": 1, "piece_no": 0, "visit_no": 0, "low_ns": 0, "high_ns": 90_000, "head_no": 1}],
        _blockers=[
            {"activity_no": 1, "precedence": 0, "lane": 7, "start_ns": 1_000 + waited_ns, "end_ns": 80_000,
             "ready_ns": 1_000, "blocker": blocker, "launch_end_ns": launch_end}
        ],
        params=[PACES],
    )  # fmt: skip
    return str(kind)


@pytest.mark.parametrize(
    ("waited_ns", "blocker", "launch_end", "kind"),
    [
        (5_000, "stream", 900, "turnaround"),
        (5_001, "stream", 900, "unknown"),
        (5_001, "stream", 1_000, "unknown"),
        (5_001, "stream", 1_001, "launch"),
        (20_000, "wait", 900, "turnaround"),
        (20_001, "wait", 900, "unknown"),
        (20_001, "wait", 1_001, "unknown"),
        (1, "launch", 1_001, "launch"),
    ],
)
def test_a_gap_is_the_devices_pace_up_to_5_us_and_up_to_20_behind_an_event(
    waited_ns: int, blocker: str, launch_end: int, kind: str
) -> None:
    """A longer one is the launch's where its stream was ready before the call returned; else nothing explains it."""
    assert _gap(waited_ns, blocker, launch_end) == kind


def test_a_piece_goes_through_a_run_from_the_activity_that_runs_when_it_begins() -> None:
    """Of two that start together the later one: activity 1 takes no time. 4 comes after the path's last, 3 at 450."""
    starts = [(0, 0, 100), (1, 100, 100), (2, 100, 300), (3, 310, 400), (4, 500, 600)]
    assert answer(
        "_path_device",
        _path_visits=[
            {"step": 1, "piece_no": 0, "visit_no": 0, "low_ns": 150, "high_ns": 460, "last_no": 3, "cursor_ns": 450,
             "head_no": 0}
        ],
        _runs=[{"activity_no": n, "dump_no": 0, "lane": 7, "head_no": 0, "place": n + 1} for n, _, _ in starts],
        _blockers=[
            {"activity_no": n, "dump_no": 0, "precedence": 0, "lane": 7, "start_ns": start, "end_ns": end,
             "ready_ns": starts[n - 1][2] if n else 0, "blocker": "stream" if n else None}
            for n, start, end in starts
        ],
        params=[PACES],
    ) == [
        (1, 0, 2, "compute", 7, 100, 300),
        (1, 0, 3, "compute", 7, 310, 450),
        (1, 0, 3, "turnaround", 7, 300, 310),
    ]  # fmt: skip


def _parts(low: int, high: int, *told: tuple[int, int, int], activity: int | None = 9) -> Rows:
    """Return the parts of a piece that leads to an activity; what is told is an activity of stream 7, start and end."""
    return answer(
        "_path_parts",
        "start_ns, end_ns, kind, activity_no, lane_no",
        _path_pieces=[
            {"step": 1, "piece_no": 0, "is_comm": False, "activity_no": activity, "low_ns": low, "high_ns": high}
        ],
        _path_device=[
            {"step": 1, "piece_no": 0, "activity_no": n, "kind": "compute", "lane": 7, "start_ns": start, "end_ns": end}
            for n, start, end in told
        ],
        _runs=[{"activity_no": n, "lane": 7} for n in range(9)] + [{"activity_no": 9, "lane": 8}],
    )


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        # Nothing is told: all of it leads to the piece's activity.
        ([], [(100, 200, "unknown", 9, 8)]),
        # Of a part only what lies in the piece counts.
        ([(1, 0, 150), (2, 150, 300)], [(100, 150, "compute", 1, 7), (150, 200, "compute", 2, 7)]),
        # What touches the piece, or takes no time, is no part and names no hole.
        ([(1, 0, 100), (2, 110, 180), (3, 200, 300)], [
            (100, 110, "unknown", 2, 7), (110, 180, "compute", 2, 7), (180, 200, "unknown", 9, 8),
        ]),
        ([(1, 100, 120), (2, 140, 140), (3, 150, 200)], [
            (100, 120, "compute", 1, 7), (120, 150, "unknown", 3, 7), (150, 200, "compute", 3, 7),
        ]),
        # Of two that overlap the first has the time they share; one within another has none.
        ([(1, 100, 160), (2, 150, 200)], [(100, 160, "compute", 1, 7), (160, 200, "compute", 2, 7)]),
        ([(1, 100, 160), (2, 110, 159), (3, 120, 160), (4, 160, 200)], [
            (100, 160, "compute", 1, 7), (160, 200, "compute", 4, 7),
        ]),
    ],
)  # fmt: skip
def test_the_parts_of_a_piece_are_all_of_it_once(told: list[tuple[int, int, int]], parts: Rows) -> None:
    assert _parts(100, 200, *told) == parts


def test_a_hole_that_leads_to_no_activity_is_on_no_lane() -> None:
    assert _parts(100, 200, (1, 100, 130), activity=None) == [
        (100, 130, "compute", 1, 7),
        (130, 200, "unknown", None, None),
    ]


def test_a_collective_is_one_part_on_its_lane_and_host_time_is_on_its_thread() -> None:
    assert answer(
        "_path_parts",
        _path_pieces=[
            {"step": 1, "piece_no": 0, "is_comm": False, "low_ns": 200, "high_ns": 300},
            {"step": 1, "piece_no": 1, "is_comm": True, "activity_no": 4, "low_ns": 100, "high_ns": 200},
        ],
        _runs=[{"activity_no": 4, "lane": 20}],
        _host_parts=[
            {"step": 1, "piece_no": 0, "thread": 1, "kind": "host", "event_no": 6, "start_ns": 250, "end_ns": 300}
        ],
        _path_hosts=[
            {"step": 1, "piece_no": 0, "thread": 2, "start_ns": 250, "end_ns": 300},
            {"step": 1, "piece_no": 0, "thread": 3, "call": "cudaFree", "start_ns": 200, "end_ns": 250},
        ],
    ) == [
        (1, 0, 200, 250, "sync", None, None, 3, "cudaFree", True),
        (1, 0, 250, 300, "host", None, 6, 1, None, True),
        (1, 1, 100, 200, "comm", 4, None, 20, None, False),
    ]


def test_a_part_that_the_runs_clock_cannot_tell_from_nothing_is_no_segment() -> None:
    """The rank's clock gains 1 ns in 10,000: what it calls 4999 and 5000 is one instant of the run, 4999."""

    def part(kind: str, lane: int, start: int, end: int, **more: Any) -> Row:
        told: Row = {"step": 1, "piece_no": 0, "kind": kind, "lane_no": lane, "start_ns": start, "end_ns": end}
        return {**told, "is_host": False, **more}

    assert answer(
        "path_segments",
        context=[{"rank": 2}],
        rank_clocks=[{"rank": 2, "offset_ns": 0, "drift_ppb": 100_000, "reference_ns": 0}],
        events=[{"name": "first"}, {"name": "second"}],
        _activity_names=[{"activity_no": 3, "name": "gemm", "is_host": False}],
        _path_pieces=[
            {
                "step": 1,
                "piece_no": 0,
                "is_comm": False,
                "start_ns": 4_990,
                "end_ns": 5_010,
                "low_ns": 4_990,
                "high_ns": 5_011,
            }
        ],
        _path_parts=[
            part("compute", 7, 4_990, 4_999, activity_no=3),
            part("unknown", 7, 4_999, 5_000),
            part("host", 4, 5_000, 5_011, event_no=1, is_host=True),
        ],
    ) == [
        (2, 1, 0, "stream 7", "compute", "gemm", 4_990, 4_999, "ok"),
        (2, 1, 0, "thread 4", "host", "second", 4_999, 5_010, "ok"),
    ]
