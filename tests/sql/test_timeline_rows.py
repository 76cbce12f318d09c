"""Ops of a timeline as its dump has them, its stages, its workers and what is asked of them, on rows checked by eye."""

from __future__ import annotations

import math
from typing import Any

import pytest

from evaluation import Row, answer

WEEK_S = 7 * 24 * 3600


def ops(*raw: Row) -> list[tuple[Any, ...]]:
    """Return (place among these, start, duration) of the ops that are believed; what an op leaves out is plain."""
    plain: Row = {
        "step": 0, "dp_rank": 0, "stage": 0, "rank": 0, "optype": "forward-compute", "start_s": 0.0,
        "duration_s": 1e-9, "mc": -1, "gmc": -1, "mb_id": -1,
    }  # fmt: skip
    limits = {
        "longest_epoch_s": 9e9, "longest_event_ns": WEEK_S * 10**9, "largest_step": 10**15, "largest_world": 2**20,
        "most_stages": 256,
    }  # fmt: skip
    told = [{**plain, "seq_id": n, **op} for n, op in enumerate(raw)]
    return answer("timeline_ops", "seq_id, start_ns, duration_ns", raw_ops=told, params=[limits])


def test_an_op_is_believed_where_its_times_and_places_can_be() -> None:
    cases: list[tuple[Row, tuple[int, int] | None]] = [
        ({"duration_s": 0.0}, (0, 0)),  # it lasted no time at all, yet it was there
        ({"duration_s": -1e-9}, None),
        ({"duration_s": float(WEEK_S)}, (0, WEEK_S * 10**9)),
        ({"duration_s": WEEK_S + 1e-6}, None),  # a wrong clock
        ({"duration_s": math.nan}, None),
        ({"duration_s": math.inf}, None),
        ({"start_s": math.nan}, None),
        ({"start_s": -math.inf}, None),
        ({"start_s": 8_999_999_999.5}, (8_999_999_999_500_000_000, 1)),  # the year 2255, to the nanosecond
        ({"start_s": -8_999_999_999.5}, (-8_999_999_999_500_000_000, 1)),
        ({"start_s": 9_000_000_000.5}, None),
        ({"optype": None}, None),
        ({"dp_rank": 2**20 - 1}, (0, 1)),  # the last of as many as a job may have
        ({"dp_rank": 2**20}, None),
        ({"dp_rank": -1}, None),
        ({"rank": 2**20 - 1}, (0, 1)),
        ({"rank": 2**20}, None),
        ({"stage": 255}, (0, 1)),
        ({"stage": 256}, None),
        ({"mb_id": 2**20}, (0, 1)),
        ({"mb_id": 2**20 + 1}, None),
        ({"gmc": 2**20 + 1}, None),
    ]

    expected = [(n, *times) for n, (_, times) in enumerate(cases) if times is not None]

    assert ops(*(told for told, _ in cases)) == expected


def op(rank: int, start: int, duration: int, optype: str = "forward-compute", **more: Any) -> Row:
    """Return an op of step 0; without word of it, ranks are stages."""
    return {
        "step": 0, "rank": rank, "stage": rank, "optype": optype, "seq_id": 0, "start_ns": start,
        "duration_ns": duration, **more,
    }  # fmt: skip


def stages(select: str, *timeline: Row) -> list[tuple[Any, ...]]:
    return answer("timeline_stages", select, timeline_ops=timeline)


def test_a_moment_counts_once_whatever_ran_then() -> None:
    """The window is 0 to 100, of which the first stage computes 10 to 50 and gathers 50 to 60."""
    found = stages(
        "stage, device_ns, compute_ns, bubble_ns, bubble_ratio",
        op(0, 10, 20),
        op(0, 10, 5),  # beside it, from the same moment on
        op(0, 25, 25, "backward-compute"),  # before it is over
        op(0, 40, 20, "params-all-gather"),
        op(0, 60, 40, "forward-send"),  # alone: part of the bubble
        op(1, 0, 100),
    )

    assert found == [(0, 100, 40, 50, 0.5), (1, 100, 100, 0, 0.0)]


@pytest.mark.parametrize(
    ("chunks", "n_microbatches"),
    [
        ((None, None, None, None), 4),  # a dump that names no chunks has one
        ((0, 0, 0, 0), 4),
        ((0, 1, 0, 1), 2),
    ],
)
def test_microbatches_are_the_forward_passes_of_the_first_stage_by_its_chunks(
    chunks: tuple[int | None, ...], n_microbatches: int
) -> None:
    """The second stage has three chunks and lost half of its passes: it says nothing of the schedule."""
    first = [op(0, 10 * n, 10, chunk=chunk) for n, chunk in enumerate(chunks)]
    second = [op(1, 0, 10, chunk=7), op(1, 10, 10, chunk=8), op(1, 20, 10, "backward-compute", chunk=9)]

    found = stages("stage, n_microbatches, schedule_ratio, verdict", *first, *second)

    assert found == [(0, n_microbatches, 1 / (4 + 1), "ok"), (1, n_microbatches, 1 / (4 + 1), "ok")]


@pytest.mark.parametrize(("missing", "verdict"), [(None, "ok"), (1, "2 of 3 stages recorded")])
def test_stages_that_nobody_recorded_are_said(missing: int | None, verdict: str) -> None:
    found = stages("DISTINCT verdict", *(op(stage, 0, 10) for stage in range(3) if stage != missing))

    assert found == [(verdict,)]


def replay(change: str, duration: int | None, dimension: str | None = None, key: str | None = None) -> Row:
    return {"change": change, "dimension": dimension, "group_key": key, "step": 0, "duration_ns": duration}


def test_a_worker_has_the_smaller_slowdown_of_its_dp_rank_and_stage_and_none_where_one_is_unknown() -> None:
    """The ideal step takes 100. No step of stage 1 could be re-timed, and dp rank 2 has no op that the model knows."""
    found = answer(
        "timeline_workers",
        "rank, dp_rank_ratio, stage_ratio, score_ratio, is_slowest",
        timeline_ops=[
            {"rank": 0, "dp_rank": 0, "stage": 0},
            {"rank": 1, "dp_rank": 0, "stage": 1},
            {"rank": 2, "dp_rank": 1, "stage": 0},
            {"rank": 2, "dp_rank": 1, "stage": 0},  # two ops
            {"rank": 3, "dp_rank": 2, "stage": 0},
            {"rank": 4, "dp_rank": 1, "stage": 5},
        ],
        timeline_replays=[
            replay("ideal", 100),
            replay("only", 125, "dp_rank", "0"),
            replay("only", 150, "dp_rank", "1"),
            replay("only", 175, "stage", "0"),
            replay("only", None, "stage", "1"),
        ],
        params=[{"slowest_percent": 3}],
    )

    assert found == [
        (0, 1.25, 1.75, 1.25, False),
        (1, 1.25, None, None, False),
        (2, 1.5, 1.75, 1.5, True),
        (3, None, 1.75, None, False),
        (4, 1.5, None, None, False),
    ]


def scenarios(*work: Row) -> list[tuple[Any, ...]]:
    return answer("timeline_scenarios", "scenario, change, dimension, group_key, needs_workers", _timeline_work=work)


def test_every_group_has_a_scenario_of_its_own() -> None:
    forward, backward = (
        {"stage": 0, "op_type": "forward-compute"},
        {"stage": 1, "op_type": "backward-compute"},
    )

    assert scenarios({"dp_rank": 10, **forward}, {"dp_rank": 9, **backward}, {"dp_rank": 9, **forward}) == [
        (0, "retimed", None, None, False),
        (1, "ideal", None, None, False),
        (2, "only", "dp_rank", "9", False),
        (3, "only", "dp_rank", "10", False),
        (4, "only", "stage", "0", False),
        (5, "only", "stage", "1", False),
        (6, "only", "op_type", "backward-compute", False),
        (7, "only", "op_type", "forward-compute", False),
        (8, "without", "stage", "1", False),
        (9, "only", "worker", "slowest", True),
        (10, "without", "worker", "slowest", True),
    ]


def test_a_timeline_without_ops_that_the_model_knows_has_no_last_stage() -> None:
    assert [change for _, change, dimension, *_ in scenarios() if dimension == "stage"] == []
