"""Who is waited for, and where the path goes from there: at a collective, at a stage, at a launch."""

from __future__ import annotations

import pytest

from evaluation import Row, answer


@pytest.mark.parametrize(
    ("margin", "own", "last", "to_rank"),
    [
        (5_000, None, None, 0),
        (5_001, None, None, 1),
        (5_001, 1_667, None, 0),
        (9_000, 3_000, 1_000, 0),
        (9_001, 3_000, 1_000, 1),
        (9_000, 1_000, 3_000, 0),
        (9_001, 1_000, 3_000, 1),
    ],
)
def test_the_path_goes_to_the_last_to_arrive_where_it_is_later_than_the_clocks_of_both_are_wrong(
    margin: int, own: int | None, last: int | None, to_rank: int
) -> None:
    """By more than 5 µs, and by more than three residuals of either clock."""
    met: Row = {
        "instance_no": 0, "is_matched": True, "last_rank": 1, "last_no": 8, "last_arrival_ns": 100 + margin,
        "end_ns": 90_000,
    }  # fmt: skip
    found = answer(
        "_hand_overs",
        "to_rank, to_no, at_ns, end_ns",
        _met_instances=[met],
        _aligned=[
            {"instance_no": 0, "rank": 0, "activity_no": 5, "arrival_ns": 100, "end_ns": 90_001, "residual_ns": own}
        ],
        rank_clocks=[{"rank": 0, "residual_ns": own}, {"rank": 1, "residual_ns": last}],
        params=[{"turnaround_ns": 5_000}],
    )

    assert found == [(1, 8, 100 + margin, 90_000) if to_rank == 1 else (0, 5, 100, 90_000)]


def came(instance: int, rank: int, arrival: int, *, no: int = 1) -> Row:
    return {"instance_no": instance, "rank": rank, "activity_no": no, "arrival_ns": arrival}


def last_came(instance: int, rank: int, arrival: int, *, n_ranks: int = 2, step: int = 1) -> Row:
    return {
        "instance_no": instance, "n_ranks": n_ranks, "is_matched": True, "op": "all_reduce", "step": step,
        "shard_step": step, "last_rank": rank, "last_no": 1, "last_arrival_ns": arrival,
    }  # fmt: skip


def test_the_last_is_late_from_when_the_others_middle_had_come() -> None:
    """Ranks 0 and 1 had come at 100 and 140, rank 2 comes at 500; what it did hangs on a collective it left at 90."""
    assert answer(
        "_late_spans",
        _met_instances=[last_came(0, 2, 500, n_ranks=3)],
        _aligned=[came(0, 0, 100), came(0, 1, 140), came(0, 2, 500)],
        rank_chains=[{"rank": 2, "activity_no": 1, "root_no": 0, "root_ns": 90}],
        rank_clocks=[{"rank": 2, "offset_ns": 0}],
        shard=[{"first_step": 1}],
    ) == [(1, 2, 100, 500, None, 0)]


def test_nobody_waits_in_a_group_of_one() -> None:
    assert (
        answer(
            "_late_spans",
            _met_instances=[last_came(0, 0, 500, n_ranks=1)],
            _aligned=[came(0, 0, 500)],
            rank_chains=[{"rank": 0, "activity_no": 1, "root_no": 0, "root_ns": 90}],
            rank_clocks=[{"rank": 0, "offset_ns": 0}],
            shard=[{"first_step": 1}],
        )
        == []
    )


def test_a_span_hangs_on_the_collective_that_the_one_in_the_middle_of_its_own_members_left_last() -> None:
    """Rank 1 comes to collective 10 when rank 0 comes to 20; before, rank 1 had left 7, and rank 0 had left 8.

    Collective 30 is of the step before, which is another shard's.
    """
    assert answer(
        "_late_spans",
        "step, rank, start_ns, end_ns, since_instance",
        _met_instances=[last_came(10, 2, 500), last_came(20, 3, 900), last_came(30, 2, 80, step=0)],
        _aligned=[
            came(10, 1, 100, no=5), came(10, 2, 500), came(20, 0, 100, no=6), came(20, 3, 900),
            came(7, 1, 50, no=2), came(8, 0, 60, no=3), came(30, 1, 20, no=1), came(30, 2, 80),
        ],
        rank_chains=[
            {"rank": 1, "activity_no": 5, "root_no": 2, "root_ns": 70},
            {"rank": 0, "activity_no": 6, "root_no": 3, "root_ns": 70},
        ],
        shard=[{"first_step": 1}],
    ) == [(1, 2, 100, 500, 7), (1, 3, 100, 900, 8)]  # fmt: skip


def slow_stages(stages: dict[int, tuple[int | None, int]]) -> list[tuple[int, int, int, int, int, str]]:
    """Return the rows of a step, of ranks each with its stage and what it computed."""
    return answer(
        "_slow_stages",
        rank_windows=[{"step": 1, "rank": rank, "compute_ns": ns} for rank, (_, ns) in stages.items()],
        ranks=[{"rank": rank, "pp": stage} for rank, (stage, _) in stages.items()],
    )


def test_the_stage_that_computes_longest_is_late_beyond_the_median_of_the_stages() -> None:
    """A rank without a stage is none. Of ranks 2 and 3 the median is the lower."""
    assert slow_stages({0: (0, 100), 1: (1, 150), 2: (2, 300), 3: (2, 340), 4: (None, 900)}) == [
        (1, 2, 150, 0, 150, "stage 2"),
        (1, 3, 150, 0, 150, "stage 2"),
    ]


def test_stages_that_compute_alike_have_no_slow_one() -> None:
    assert slow_stages({0: (0, 100), 1: (1, 300), 2: (2, 300)}) == []
    assert slow_stages({0: (0, 100)}) == []


def test_a_launch_hangs_on_the_wait_for_an_earlier_activity_and_never_on_itself() -> None:
    """Of three dumps the host went on after activity 4 to launch 5, after 7 to launch 7, and after 11 to launch 9."""
    dumps = [(0, 5, 4), (1, 7, 7), (2, 9, 11)]
    found = answer(
        "_hops",
        "dump_no, blocker, release_ns, source_no, source_ns, next_no, call, call_thread",
        _blockers=[
            {
                "activity_no": head,
                "dump_no": dump,
                "is_head": True,
                "blocker": "launch",
                "ready_ns": 100,
                "launch_thread": 1,
            }
            for dump, head, _ in dumps
        ],
        _releases=[
            {"dump_no": dump, "release_ns": 100, "activity_no": of, "released_ns": 95, "thread": 2, "name": "sync"}
            for dump, _, of in dumps
        ],
        _runs=[{"activity_no": of, "dump_no": dump, "head_no": of - 1} for dump, _, of in dumps],
    )

    nothing = (None,) * 6
    assert found == [(0, "launch", 100, 4, 95, 3, "sync", 2), (1, "launch", *nothing), (2, "launch", *nothing)]
