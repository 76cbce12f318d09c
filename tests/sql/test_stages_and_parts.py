"""What a pipeline's stages, a rank at the median and the parts of a step come to."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer


def schedule(exchanges: dict[int, int], **sizes: int) -> list[tuple[Any, ...]]:
    """Return (stage, n_microbatches, schedule_ratio, verdict) of a step's stages, with so many sends and receives."""
    return answer(
        "pipeline_stages",
        "stage, n_microbatches, schedule_ratio, verdict",
        step_stages=[
            {
                "step": 1,
                "stage": stage,
                "n_ranks": 1,
                "device_ns": 100,
                "compute_ns": 50,
                "bubble_ns": 50,
                "n_exchanges": n,
            }
            for stage, n in exchanges.items()
        ],
        parallel=[{name: sizes.get(name) for name in ("pp", "microbatches", "virtual_stages")}],
    )


def test_the_first_stage_sends_and_receives_once_a_microbatch() -> None:
    """Two stages and four microbatches: 1 / (4 + 1)."""
    assert schedule({0: 8, 1: 8}) == [(0, 4, 0.2, "ok"), (1, 4, 0.2, "ok")]


def test_a_first_stage_that_sends_more_than_it_receives_does_not_tell() -> None:
    untold = "schedule n/a: [parallel] microbatches is not given and its sends and receives do not tell"

    assert schedule({0: 7, 1: 8}) == [(0, None, None, untold), (1, None, None, untold)]
    assert schedule({0: 8, 1: 8}, virtual_stages=2) == [(0, None, None, untold), (1, None, None, untold)]
    assert schedule({0: 12, 1: 12}, virtual_stages=2) == [(0, 2, 0.2, "ok"), (1, 2, 0.2, "ok")]


def test_a_stage_in_the_middle_does_not_tell_and_stages_that_are_not_recorded_are_said() -> None:
    untold = "schedule n/a: [parallel] microbatches is not given and its sends and receives do not tell"
    missing = "2 of 4 stages recorded"

    assert schedule({1: 16, 2: 16}, pp=4) == [
        (1, None, None, f"{untold}; {missing}"),
        (2, None, None, f"{untold}; {missing}"),
    ]
    assert schedule({0: 8, 1: 16}, pp=4) == [(0, 4, 3 / 7, missing), (1, 4, 3 / 7, missing)]


def whatif(**predicted: tuple[str, int, int, int]) -> dict[str, tuple[Any, ...]]:
    """Return value and verdict of scenarios, each of a measure, so many steps, their time and that with the change.

    The replay without a change is wrong by a quarter.
    """
    found = answer(
        "straggler_whatif",
        "group_key, value_ratio, verdict",
        straggler_scenarios=[
            {"scenario": n, "measure": measure, "dimension": "x", "group_key": key}
            for n, (key, (measure, *_)) in enumerate(predicted.items())
        ],
        predictions=[
            {"scenario": n, "n_steps": steps, "measured_ns": old, "predicted_ns": new, "replay_error_ratio": 0.25}
            for n, (_, steps, old, new) in enumerate(predicted.values())
        ],
    )
    return {key: tuple(rest) for key, *rest in found}


SMALL = "below the error of the unchanged replay"


def test_a_slowdown_counts_from_the_error_of_the_unchanged_replay_on() -> None:
    """A share of the slowdown is held against no error, however near to 1 it is."""
    assert whatif(
        all=("S", 5, 1_250, 1_000),
        stage=("fix", 5, 1_250, 1_024),
        gain=("fix", 5, 1_000, 1_600),
        slowest=("M_W", 5, 1_250, 1_000),
        last=("M_S", 5, 1_250, 1_125),
    ) == {
        "all": (1.25, "ok"),
        "stage": (1_250 / 1_024, SMALL),
        "gain": (0.625, "ok"),
        "slowest": (1, "ok"),
        "last": (0.5, "ok"),
    }


@pytest.mark.parametrize("ideal", [1_000, 1_001])
def test_where_nothing_is_slower_than_the_median_no_rank_has_a_share(ideal: int) -> None:
    found = whatif(all=("S", 5, 1_000, ideal), slowest=("M_W", 5, 1_000, 990))

    assert found["slowest"] == (None, "n/a: nothing is slower than the median of the ranks")


def test_shares_are_of_the_same_steps_as_the_slowdown() -> None:
    found = whatif(all=("S", 5, 1_250, 1_000), slowest=("M_W", 4, 1_000, 900))

    assert found["slowest"] == (None, "n/a: predicted over 4 steps, the slowdown over 5")


def parts(*dimensions: str, **given: list[Row]) -> list[tuple[Any, ...]]:
    """Return (step, dimension, item, value_ns) of these dimensions of run r."""
    of_run = {read: [{"run": "r", **row} for row in its] for read, its in given.items()}
    found = answer("step_parts", "step, dimension, item, value_ns", **of_run)
    return [row for row in found if row[1] in dimensions]


def test_a_step_without_a_time_of_its_own_is_the_mean_window() -> None:
    """Step 1 has its time, step 2 is on clocks that are not aligned, step 3 has no row: of 100 and 201 it is 151."""
    windows = [
        {"step": step, "rank": rank, "duration_ns": ns} for step in (1, 2, 3) for rank, ns in ((0, 100), (1, 201))
    ]

    assert parts("step", rank_steps=windows, steps=[{"step": 1, "duration_ns": 220}, {"step": 2}]) == [
        (1, "step", "step", 220),
        (2, "step", "step", 151),
        (3, "step", "step", 151),
    ]


def test_a_collective_is_named_by_what_is_known_of_its_group() -> None:
    """Nothing is known of c. What no step launched is no part of one."""
    collectives: list[Row] = [
        {"step": 1, "group_id": "a", "op": "all_reduce", "exposed_ns": 7, "wait_ns": 4, "transfer_ns": 3},
        {"step": 1, "group_id": "b", "op": "all_reduce", "exposed_ns": 5},
        {"step": 1, "group_id": "c", "op": "all_reduce", "exposed_ns": 2},
        {"step": None, "group_id": "a", "op": "all_reduce", "exposed_ns": 9},
    ]
    groups: list[Row] = [
        {"group_id": "a", "rank": 0, "n_ranks": 2, "description": "mesh_tp"},
        {"group_id": "b", "rank": 0, "n_ranks": 4, "description": ""},
    ]

    assert parts(
        "collective",
        "wait",
        "transfer",
        rank_steps=[{"step": 1, "rank": 0}],
        collectives=collectives,
        groups=groups,
    ) == [
        (1, "collective", "all_reduce", 2),
        (1, "collective", "all_reduce of 2 ranks in mesh_tp", 7),
        (1, "collective", "all_reduce of 4 ranks", 5),
        (1, "transfer", "all_reduce of 2 ranks in mesh_tp", 3),
        (1, "wait", "all_reduce of 2 ranks in mesh_tp", 4),
    ]
