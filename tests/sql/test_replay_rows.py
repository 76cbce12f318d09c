"""What-ifs on hand-made rows: the graph of a rank, what a change makes of it, and the steps that a replay predicts."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer

Rows = list[tuple[Any, ...]]

PACES: Row = {"turnaround_ns": 5_000, "event_wait_ns": 20_000}
"""The device's own pace, and how long a stream takes to go on after an event."""

RANK: list[Row] = [{"rank": 0}]
CLOCK: list[Row] = [{"rank": 0, "offset_ns": 0}]
NOTHING = {"what": None, "kind": None, "rank": None, "pattern": None, "phase": None, "group_id": None, "factor": None}


def _changes(*changes: Row) -> list[Row]:
    """Return changes of scenario 1; what a change leaves out is not asked for."""
    return [{"scenario": 1, **NOTHING, "amount_ns": None, **change} for change in changes]


def _lags(select: str, *activities: Row) -> Rows:
    """Return lags of the activities of stream 7 unless they say otherwise."""
    return answer(
        "_graph_activities",
        f"activity_no, {select}",
        _blockers=[{"dump_no": 0, "precedence": 0, "lane": 7, **activity} for activity in activities],
        context=RANK,
        rank_clocks=CLOCK,
        params=[PACES],
    )


@pytest.mark.parametrize(
    ("blocker", "start", "launch_end", "kind"),
    [
        ("stream", 6_000, 900, "turnaround"),
        ("stream", 6_001, 900, "unknown"),
        ("stream", 6_001, 1_000, "unknown"),
        ("stream", 6_001, 1_001, "launch"),
        ("launch", 90_000, 900, "turnaround"),
        (None, 90_000, None, "turnaround"),
    ],
)
def test_a_lag_behind_the_stream_that_held_is_the_devices_pace_up_to_5_us(
    blocker: str | None, start: int, launch_end: int | None, kind: str
) -> None:
    """A longer one is the launch's where the call had not returned at 1000, when the stream was ready."""
    last: Row = {"blocker": blocker, "ready_ns": 1_000, "launch_end_ns": launch_end}
    found = _lags(
        "stream_kind",
        {"activity_no": 0, "start_ns": 0, "end_ns": 1_000},
        {"activity_no": 1, "start_ns": start, "end_ns": 99_000, **last},
    )
    assert found[1] == (1, kind)


@pytest.mark.parametrize(("start", "kind"), [(21_000, "turnaround"), (21_001, "unknown")])
def test_a_lag_behind_an_event_is_the_devices_pace_up_to_20_us(start: int, kind: str) -> None:
    found = _lags(
        "wait_kind, wait_lag_ns",
        {"activity_no": 0, "lane": 8, "start_ns": 0, "end_ns": 1_000},
        {"activity_no": 1, "start_ns": start, "end_ns": 99_000, "blocker": "wait", "wait_no": 0},
    )
    assert found[1] == (1, kind, start - 1_000)


def test_the_usual_lag_behind_a_stream_is_that_of_activities_behind_one_that_had_ended() -> None:
    """Such are 1, by 2000, and 4, by 2500; 2 and 3 start while the one before still runs and are tied to its start.

    The usual lag is the lower of the two, for 5, which its launch held for 6000; it would have gone on after 2000.
    """
    found = _lags(
        "is_behind, stream_lag_ns",
        {"activity_no": 0, "start_ns": 0, "end_ns": 1_000},
        {"activity_no": 1, "start_ns": 3_000, "end_ns": 4_000, "blocker": "stream"},
        {"activity_no": 2, "start_ns": 3_300, "end_ns": 4_100, "blocker": "stream"},
        {"activity_no": 3, "start_ns": 3_600, "end_ns": 4_200, "blocker": "stream"},
        {"activity_no": 4, "start_ns": 6_700, "end_ns": 7_000, "blocker": "stream"},
        {"activity_no": 5, "start_ns": 13_000, "end_ns": 14_000, "blocker": "launch", "launch_ns": 12_990},
        {"activity_no": 6, "start_ns": 15_999, "end_ns": 16_000, "blocker": "launch", "launch_ns": 15_990},
    )
    assert found == [
        (0, True, None),
        (1, True, 2_000),
        (2, False, 300),
        (3, False, 300),
        (4, True, 2_500),
        (5, True, 2_000),
        (6, True, 1_999),
    ]


def test_a_rank_at_the_median_follows_its_launches_within_what_is_usual_and_other_changes_still_hold() -> None:
    """20 are usual, or 10 early where clocks differ: what is longer takes that, and a launch three times as long.

    Activity 0 is late by launch and by stream, for the call had not returned; 1 is not; 2 starts before its launch,
    which is no time to scale; 3 is late by stream alone, which is nobody's launch.
    """
    cases: list[Row] = [
        {"launch_lag_ns": 30, "usual_launch_ns": 20, "stream_lag_ns": 30, "stream_kind": "launch"},
        {"launch_lag_ns": 10, "usual_launch_ns": 20, "stream_lag_ns": 10, "stream_kind": "launch"},
        {"launch_lag_ns": -10, "usual_launch_ns": -10, "stream_lag_ns": 0, "stream_kind": "turnaround"},
        {"launch_lag_ns": 20, "usual_launch_ns": 20, "stream_lag_ns": 30, "stream_kind": "turnaround"},
    ]
    found = answer(
        "_graph_costs",
        "scenario, activity_no, launch_ns, stream_ns",
        changes=_changes({"what": "fix"}),
        context=RANK,
        scenarios=[{"scenario": 0}, {"scenario": 1}],
        _graph_activities=[
            {
                "activity_no": n,
                "dump_no": 0,
                "lane": n,
                "precedence": 0,
                "is_behind": True,
                "before_is_comm": False,
                "start_ns": 0,
                "end_ns": 5,
                "wait_kind": "unknown",
                **case,
            }
            for n, case in enumerate(cases)
        ],
        _activity_classes=[{"activity_no": n, "class_no": 1} for n in range(4)],
        _class_factors=[{"scenario": 1, "class_no": 1, "kind": "launch", "factor": 3.0}],
    )
    assert found == [
        (0, 0, 30, 30),
        (0, 1, 10, 10),
        (0, 2, -10, 0),
        (0, 3, 20, 30),
        (1, 0, 60, 60),
        (1, 1, 30, 30),
        (1, 2, -10, 0),
        (1, 3, 60, 30),
    ]  # fmt: skip


def test_host_time_before_a_launch_is_that_of_its_own_dump_though_clocks_of_dumps_may_start_anew() -> None:
    activities: list[Row] = [
        {"activity_no": n, "dump_no": n, "lane": 7, "precedence": 0, "is_behind": True, "before_is_comm": False,
         "step": 10, "host_ns": 100, "start_ns": 100 + n, "end_ns": 150 + n}
        for n in range(2)
    ]  # fmt: skip
    points: list[Row] = [
        {"dump_no": 0, "point_no": 3, "own_ns": 100, "launches": True, "segment_no": 1},
        {"dump_no": 1, "point_no": 8, "own_ns": 100, "launches": True, "segment_no": 2},
    ]
    assert answer(
        "_graph_costs",
        "activity_no, segment_no, since_ns",
        context=RANK,
        changes=_changes({"what": "waits"}),
        scenarios=[{"scenario": 0}],
        _graph_activities=activities,
        _activity_classes=[{"activity_no": 0, "class_no": 1}, {"activity_no": 1, "class_no": 1}],
        _host_times=[{**p, "scenario": 0, "since_ns": 10 * p["point_no"]} for p in points],
    ) == [(0, 1, 30), (1, 2, 80)]
    assert answer(
        "_elements",
        "activity_no, point_no, host_ns",
        _graph_activities=activities,
        _activity_names=[{"activity_no": 0, "name": "gemm"}, {"activity_no": 1, "name": "gemm"}],
        _host_points=[{**p, "length_ns": 10 * p["point_no"]} for p in points],
    ) == [(0, 3, 30), (1, 8, 80)]


def test_a_change_of_host_time_saves_in_the_dump_whose_phase_it_names_and_not_what_a_group_does() -> None:
    """Both dumps have 100 ns of host time from 500 on their clocks, dump 0 in backward, dump 1 in forward.

    The part of step 4 is the path's, not a host point's.
    """

    def saved(*changes: Row) -> Rows:
        return answer(
            "_host_savings",
            changes=_changes(*changes),
            context=RANK,
            events=[{"name": "aten::mm"}],
            _host_parts=[
                {"piece_no": 3, "start_ns": 500, "end_ns": 600, "thread": 1, "kind": "host", "event_no": 0},
                {"piece_no": 8, "start_ns": 500, "end_ns": 600, "thread": 1, "kind": "host", "event_no": 0},
                {"piece_no": 8, "start_ns": 700, "end_ns": 900, "thread": 1, "kind": "host", "step": 4},
            ],
            _host_intervals=[{"point_no": 3, "dump_no": 0}, {"point_no": 8, "dump_no": 1}],
            _element_phases=[
                {"dump_no": 0, "thread": 1, "own_ns": 500, "phase": "backward"},
                {"dump_no": 1, "thread": 1, "own_ns": 500, "phase": "forward"},
            ],
        )

    half: Row = {"what": "scale", "factor": 0.5}
    assert saved(half) == [(1, 3, 50), (1, 8, 50)]
    assert saved({**half, "phase": "backward"}) == [(1, 3, 50)]
    assert saved({**half, "group_id": "dp", "factor": 0.1}, {**half, "phase": "forward"}) == [(1, 8, 50)]


NODE = "source >> 38, source & ((1::BIGINT << 38) - 1), node >> 38, node & ((1::BIGINT << 38) - 1), cost_ns, step"
"""Kinds and numbers of both nodes of an edge: 0 the start of an activity, 2 a host segment's, 3 a step's completion."""


def test_a_step_that_two_dumps_hold_is_completed_in_each_by_its_own_work() -> None:
    """A job that goes back to a checkpoint repeats steps: dumps 0 and 1 both have 7, with a kernel, and 8, without.

    Completions are numbered over both dumps from 1, so 7 of dump 1 is the third, and follows none of its capture.
    """
    steps: list[Row] = [
        {"dump_no": dump, "capture": dump, "step": step, "has_device": True, "start_ns": 1_000 * dump + step}
        for dump in (0, 1)
        for step in (7, 8)
    ]
    kernels: list[Row] = [
        {"activity_no": 0, "dump_no": 0, "step": 7, "lane": 7, "start_ns": 10, "end_ns": 15},
        {"activity_no": 1, "dump_no": 1, "step": 7, "lane": 7, "start_ns": 1_010, "end_ns": 1_016},
        {"activity_no": 2, "dump_no": 1, "lane": 7, "start_ns": 1_090, "end_ns": 1_097},
    ]
    found = answer(
        "rank_edges",
        NODE,
        context=RANK,
        rank_clocks=CLOCK,
        scenarios=[{"scenario": 0}],
        _completions=[{"dump_no": s["dump_no"], "step": s["step"]} for s in steps],
        _host_steps=steps,
        _windows=steps,
        _graph_activities=kernels,
        _graph_costs=[{"scenario": 0, "activity_no": n, "is_comm": False, "is_tied": False} for n in range(3)],
        _graph_runs=[
            {"scenario": 0, "activity_no": n, "node_no": n, "is_exit": False, "is_node": True, "run_ns": 5 + n}
            for n in range(3)
        ],
        _host_points=[
            {"point_no": 4, "dump_no": 0, "segment_no": 1, "completes": 8, "before_ns": 1},
            {"point_no": 9, "dump_no": 1, "segment_no": 2, "completes": 8, "before_ns": 1},
        ],
        _host_times=[
            {"scenario": 0, "point_no": 4, "segment_no": 1, "since_ns": 40},
            {"scenario": 0, "point_no": 9, "segment_no": 2, "since_ns": 90},
        ],
    )
    assert found == [
        (0, 0, 3, 1, 5, 7),
        (0, 1, 3, 3, 6, 7),
        (2, 1, 3, 2, 40, 8),
        (2, 2, 3, 4, 90, 8),
        (3, 1, 3, 2, 0, 8),
        (3, 3, 3, 4, 0, 8),
        # Activities that nothing holds start when they did, and captures with their first step.
        (None, None, 0, 0, 10, None),
        (None, None, 0, 1, 1_010, None),
        (None, None, 0, 2, 1_090, None),
        (None, None, 3, 1, 7, 7),
        (None, None, 3, 3, 1_007, 7),
    ]


def test_a_dump_that_begins_as_the_host_waits_for_the_device_has_its_first_segment_when_it_did() -> None:
    """Kernel 0, launched before the dump, let the host go on at point 1; so did kernel 2 at point 4, in segment 2."""
    found = answer(
        "rank_edges",
        NODE,
        context=RANK,
        rank_clocks=CLOCK,
        scenarios=[{"scenario": 0}],
        _graph_runs=[
            {"scenario": 0, "activity_no": 0, "node_no": 0, "is_exit": False, "run_ns": 50},
            {"scenario": 0, "activity_no": 2, "node_no": 2, "is_exit": False, "run_ns": 60},
        ],
        _host_points=[
            {"point_no": 1, "dump_no": 0, "segment_no": 1, "at_ns": 100, "released_no": 0, "release_lag_ns": 3},
            {"point_no": 4, "dump_no": 0, "segment_no": 2, "at_ns": 400, "released_no": 2, "release_lag_ns": 4,
             "before_ns": 350},
        ],
        _host_times=[{"scenario": 0, "point_no": 1, "segment_no": 1, "since_ns": 0},
                     {"scenario": 0, "point_no": 2, "segment_no": 1, "since_ns": 250}],
    )  # fmt: skip
    assert found == [
        (0, 2, 2, 2, 64, None),
        (2, 1, 2, 2, 250, None),
        (None, None, 2, 1, 100, None),
    ]


def _transfers(*changes: Row) -> Rows:
    """Return what collectives 4 and 5 of ranks 0 and 1 take, in this order; with nothing changed 40, 100, 40 and 101.

    Of 5 both are recorded: 100 behind the last arrival, and rank 1 leaves 1 later. Step 1's path goes through 30 of
    rank 0's 4, then through 5.
    """
    edges = answer(
        "replay_edges",
        "node, cost_ns",
        changes=_changes(*(changes or [{"what": "scale", "factor": 1.0}])),
        scenarios=[{"scenario": 1}],
        steps=[{"step": 1}],
        rank_edges=[
            {"scenario": 0, "rank": rank, "node": (rank << 41) + number, "cost_ns": 0, "activity_no": number,
             "work_ns": 40, "factor": 1.0}
            for rank in range(2) for number in (4, 5)
        ],
        _aligned=[{"rank": rank, "activity_no": 5, "instance_no": 1, "end_ns": 900 + rank} for rank in range(2)],
        _met_instances=[
            {"instance_no": 1, "group_id": "dp", "shard_step": 1, "is_matched": True, "last_arrival_ns": 800,
             "end_ns": 900}
        ],
        path_pieces=[
            {"step": 1, "piece_no": 1, "rank": 0, "is_comm": True, "activity_no": 5, "start_ns": 800, "end_ns": 900},
            {"step": 1, "piece_no": 3, "rank": 0, "is_comm": True, "activity_no": 4, "start_ns": 700, "end_ns": 730},
        ],
    )  # fmt: skip
    ends = [(rank << 41) + (1 << 38) + number for rank in range(2) for number in (4, 5)]
    found = dict(edges)
    return [tuple(found[node] for node in ends)]


def test_what_is_cut_of_the_exposed_exchange_is_cut_where_the_path_went_through_it() -> None:
    """The last on the path is cut first. Of 4 nobody met, so rank 1's, which only has the same number, stays."""
    assert _transfers() == [(40, 100, 40, 101)]
    assert _transfers({"what": "exposed"}) == [(10, 0, 40, 1)]
    assert _transfers({"what": "exposed", "amount_ns": 110}) == [(30, 0, 40, 1)]
    assert _transfers({"what": "exposed", "amount_ns": 60}) == [(40, 40, 40, 41)]


def test_only_a_scale_of_a_group_scales_its_transfers() -> None:
    half: Row = {"what": "scale", "group_id": "dp", "factor": 0.5}
    assert _transfers(half) == [(40, 50, 40, 51)]
    assert _transfers(half, half) == [(40, 25, 40, 26)]
    assert _transfers({**half, "group_id": "tp"}) == [(40, 100, 40, 101)]
    assert _transfers({**half, "group_id": None}) == [(40, 100, 40, 101)]
    assert _transfers({**half, "what": "fix"}) == [(40, 100, 40, 101)]


def test_a_step_is_predicted_from_the_end_of_the_one_before_it_where_it_follows_that() -> None:
    """Scenario 1 ends step 1 by 20 earlier, and step 2 as it was, so that pays.

    Step 4 follows none, for step 3 is not recorded, and step 5 is of another capture. Step 6 would end before step 5,
    which is no time, and nothing leads to the end of step 7.
    """
    steps = [(0, 1, 0, 100), (0, 2, 100, 200), (0, 4, 300, 400), (1, 5, 500, 600), (1, 6, 600, 700), (1, 7, 700, 800)]
    ends = {0: [100, 200, 400, 600, 700, 800], 1: [80, 200, 390, 595, 590]}
    assert answer(
        "predicted_steps",
        scenarios=[{"scenario": 0}, {"scenario": 1}],
        steps=[
            {"capture": capture, "step": step, "start_ns": start, "end_ns": end, "duration_ns": end - start}
            for capture, step, start, end in steps
        ],
        replayed=[
            {"scenario": scenario, "node": -1 - n, "at_ns": at}
            for scenario, ats in ends.items()
            for n, at in enumerate(ats)
        ],
    ) == [
        (0, 0, 1, 100, 100),
        (0, 0, 2, 100, 100),
        (0, 0, 4, 100, 100),
        (0, 1, 5, 100, 100),
        (0, 1, 6, 100, 100),
        (0, 1, 7, 100, 100),
        (1, 0, 1, 100, 80),
        (1, 0, 2, 100, 120),
        (1, 0, 4, 100, 90),
        (1, 1, 5, 100, 95),
        (1, 1, 6, 100, 0),
        (1, 1, 7, 100, None),
    ]


def test_what_groups_cost_a_run_is_told_of_the_steps_that_could_be_timed() -> None:
    """Step 1 takes 130 as recorded, 120 without gaps and 100 where all is ideal; ops of step 2 wait in a circle."""
    replays: list[tuple[str, str | None, str | None, int]] = [
        ("retimed", None, None, 120),
        ("ideal", None, None, 100),
        ("only", "stage", "0", 105),
        ("only", "stage", "1", 115),
        ("without", "stage", "1", 104),
        ("only", "worker", "slowest", 112),
        ("without", "worker", "slowest", 106),
    ]
    found = answer(
        "run_whatif",
        "* REPLACE (round(value_ratio, 4) AS value_ratio)",
        timeline_replays=[
            {"change": change, "dimension": dimension, "group_key": key, "step": step, "recorded_ns": 130,
             "duration_ns": took if step == 1 else None}
            for change, dimension, key, took in replays for step in (1, 2)
        ],
        timeline_workers=[{"rank": 3, "score_ratio": 1.04}],
        timeline_ideals=[{"n_unpaired": 0}],
    )  # fmt: skip
    doubt = "1 of 2 steps have ops that wait for each other in a circle"
    assert found == [
        ("M_S", "stage", "1", 0.8, 104, 120, doubt),
        ("M_S_alone", "stage", "1", 0.75, 115, 100, doubt),
        ("M_W", "workers", "slowest", 0.7, 106, 120, doubt),
        ("M_W_alone", "workers", "slowest", 0.6, 112, 100, doubt),
        ("S", "run", "all", 1.2, 120, 100, doubt),
        ("S", "stage", "0", 1.05, 105, 100, doubt),
        ("S", "stage", "1", 1.15, 115, 100, doubt),
        ("S", "step", "1", 1.2, 120, 100, doubt),
        ("launch_slowdown", "run", "all", 1.0833, 130, 120, doubt),
        ("launch_slowdown", "step", "1", 1.0833, 130, 120, doubt),
        ("score", "rank", "3", 1.04, None, None, doubt),
    ]


def test_of_a_run_without_a_step_that_could_be_timed_nothing_is_told() -> None:
    assert answer("run_whatif") == []
    circle: list[Row] = [{"change": change, "step": 2, "recorded_ns": 130} for change in ("retimed", "ideal")]
    assert answer("run_whatif", timeline_replays=circle) == []
