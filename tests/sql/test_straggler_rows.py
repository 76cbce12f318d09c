"""Who is named a straggler, why, where and at what cost: rows of one relation at a time, checked by eye."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation import Row, answer

HOUR = 3_600_000_000_000
LIMITS = [{"straggler_ratio": 0.02, "slowest_percent": 3}]

# Steps of 1,000,000 ns, of which 2 % are 20,000.


def late(step: int, late_ns: int, *, rank: int = 0, residual_ns: int = 0) -> Row:
    return {"step": step, "rank": rank, "late_ns": late_ns, "n_last": 1, "residual_ns": residual_ns}


def spent(step: int, *, rank: int = 0, **beyond: int) -> Row:
    """Return what a rank spent beyond the others in a step: nothing, but for what is said."""
    kinds = ("compute_ns", "clock_ns", "input_ns", "host_ns", "sync_ns", "copy_ns", "early_ns")
    return {"step": step, "rank": rank, **dict.fromkeys(kinds, 0), **beyond}


def named(
    select: str, lates: Sequence[Row] = (), causes: Sequence[Row] = (), **places: Sequence[Row]
) -> list[tuple[Any, ...]]:
    steps = {row["step"] for row in (*lates, *(row for rows in places.values() for row in rows))}
    return answer(
        "step_stragglers",
        select,
        _late_ranks=lates,
        _step_causes=causes,
        _timed_steps=[{"step": step, "duration_ns": 1_000_000} for step in steps],
        params=LIMITS,
        **places,
    )


def test_the_cause_is_what_most_was_spent_on_if_that_is_half_of_the_lateness() -> None:
    """A step a cause. Each is 100,000 late."""
    causes = [
        ("compute", 100_000, spent(1, compute_ns=100_000, host_ns=30_000)),
        ("host", 90_000, spent(2, host_ns=90_000, compute_ns=30_000, clock_ns=90_000)),  # no compute, so no clock
        ("input", 80_000, spent(3, input_ns=80_000, sync_ns=30_000)),
        ("sync", 70_000, spent(4, sync_ns=70_000, copy_ns=30_000)),
        ("copy", 60_000, spent(5, copy_ns=60_000, input_ns=40_000)),
        ("compute", 50_000, spent(6, compute_ns=50_000, host_ns=50_000)),
        ("unknown", 49_999, spent(7, compute_ns=49_999, host_ns=49_999, sync_ns=2)),
        ("clock", 60_000, spent(8, compute_ns=60_000, host_ns=40_000, clock_ns=30_000)),  # half of the compute
        ("compute", 60_000, spent(9, compute_ns=60_000, host_ns=40_000, clock_ns=29_999)),
        ("clock", 50_000, spent(10, compute_ns=50_000, host_ns=50_000, clock_ns=50_000)),
        ("unknown", 40_000, spent(11, compute_ns=40_000, host_ns=30_000, sync_ns=30_000, clock_ns=40_000)),
        ("before", 50_000, spent(12, early_ns=50_000, compute_ns=90_000)),  # half of it was before the recording
        ("compute", 90_000, spent(13, early_ns=49_999, compute_ns=90_000)),
    ]

    found = named(
        "step, cause, cause_ns, verdict", [late(n, 100_000) for n in range(1, 14)], [row for *_, row in causes]
    )

    assert found == [(row["step"], cause, cause_ns, "ok") for cause, cause_ns, row in causes]


def test_a_rank_that_nobody_waited_for_is_not_there() -> None:
    found = named(
        "rank, late_ns",
        [late(1, 0, rank=0), late(1, 1, rank=1)],
        [spent(1, rank=0), spent(1, rank=1, compute_ns=5)],
    )

    assert found == [(1, 1)]


def test_nobody_is_named_within_the_noise_or_beside_another() -> None:
    """Half of the steps have a second who is 40,000 late, so that is what the second is in the median step."""
    lates = [
        *(late(1, 20_000, residual_ns=0), late(2, 19_999)),  # 2 % of the step
        *(late(3, 60_000, residual_ns=20_000), late(4, 60_001, residual_ns=20_000)),  # three residuals
        *(late(5, 80_000), late(5, 40_000, rank=1)),  # twice as late as any other
        *(late(6, 80_000), late(6, 40_001, rank=1)),
    ]
    causes = [spent(row["step"], rank=row["rank"], compute_ns=row["late_ns"]) for row in lates]
    quiet = [row for row in lates if row["step"] < 5]

    assert named("step, verdict", quiet, [row for row in causes if row["step"] < 5]) == [
        (1, "ok"),
        (2, "below the noise of a step"),
        (3, "below three residuals of the clocks"),
        (4, "ok"),
    ]
    assert named("step, rank, verdict", lates[4:], causes[4:]) == [
        (5, 0, "below the noise of the run"),  # 80,000 is no three times 40,000
        (5, 1, "another rank is later"),
        (6, 0, "a tie: another rank is late by more than half of it"),
        (6, 1, "another rank is later"),
    ]


def test_the_noise_of_the_run_is_three_times_what_the_second_of_a_step_is_late() -> None:
    lates = [
        *(late(1, 119_999), late(1, 40_000, rank=1)),
        *(late(2, 120_000), late(2, 40_000, rank=1)),
    ]
    causes = [spent(row["step"], rank=row["rank"], compute_ns=row["late_ns"]) for row in lates]

    assert [row for row in named("step, rank, is_straggler, verdict", lates, causes) if row[1] == 0] == [
        (1, 0, False, "below the noise of the run"),
        (2, 0, True, "ok"),
    ]


def link_of(step: int, late_ns: int, *, residual_ns: int = 0, noise_ns: int = 0, rank: int = 0) -> Row:
    return {
        "step": step, "rank": rank, "late_ns": late_ns, "residual_ns": residual_ns, "noise_ns": noise_ns,
        "place": "group 7",
    }  # fmt: skip


def stage_of(step: int, late_ns: int, *, next_ns: int = 0, least_ns: int, rank: int = 0) -> Row:
    return {
        "step": step, "rank": rank, "late_ns": late_ns, "next_ns": next_ns, "least_ns": least_ns, "place": "stage 2"
    }  # fmt: skip


def test_a_link_is_named_beyond_three_residuals_and_three_times_what_siblings_differ_by() -> None:
    found = named(
        "step, late_ns, cause, cause_ns, place, n_last",
        _slow_links=[
            *(link_of(1, 20_000), link_of(2, 19_999)),  # 2 % of the step
            *(link_of(3, 90_000, residual_ns=30_000, noise_ns=1), link_of(4, 90_001, residual_ns=30_000, noise_ns=1)),
            *(link_of(5, 90_000, residual_ns=1, noise_ns=30_000), link_of(6, 90_001, residual_ns=1, noise_ns=30_000)),
        ],
    )

    assert found == [
        (1, 20_000, "link", 20_000, "group 7", 0),
        (4, 90_001, "link", 90_001, "group 7", 0),
        (6, 90_001, "link", 90_001, "group 7", 0),
    ]


def test_a_stage_is_named_where_all_its_ranks_compute_longer_and_it_is_beyond_twice_the_next() -> None:
    found = named(
        "step, late_ns, cause, place",
        _slow_stages=[
            stage_of(1, 80_000, next_ns=40_000, least_ns=70_000),
            stage_of(2, 80_001, next_ns=40_000, least_ns=70_000),
            stage_of(3, 90_000, next_ns=40_000, least_ns=40_000),  # one of its ranks is no slower than the next stage
            stage_of(4, 90_000, next_ns=40_000, least_ns=40_001),
        ],
    )

    assert found == [(2, 80_001, "stage", "stage 2"), (4, 90_000, "stage", "stage 2")]


def test_of_a_slow_link_and_a_slow_stage_a_rank_is_named_for_what_cost_more() -> None:
    found = named(
        "step, rank, late_ns, late_ratio, is_straggler, cause, place",
        [late(1, 30_000, rank=5)],
        [spent(1, rank=5, compute_ns=30_000)],
        _slow_links=[link_of(1, 60_000), link_of(2, 50_000)],
        _slow_stages=[stage_of(1, 50_000, least_ns=1), stage_of(2, 60_000, least_ns=1)],
    )

    assert found == [
        (1, 0, 60_000, 0.06, True, "link", "group 7"),
        (1, 5, 30_000, 0.03, True, "compute", None),
        (2, 0, 60_000, 0.06, True, "stage", "stage 2"),
    ]


def of_run(step: int, rank: int, cause: str = "host", *, hours: int = 1, place: str | None = None) -> Row:
    """Return a rank named in a step, late by so many hours."""
    return {
        "step": step, "rank": rank, "late_ns": hours * HOUR, "is_straggler": True, "cause": cause,
        "cause_ns": hours * HOUR, "place": place,
    }  # fmt: skip


def ranked(select: str, n_steps: int, *stragglers: Row, steps: tuple[Row, ...] = ()) -> list[tuple[Any, ...]]:
    """Return straggler_ranks of a run of two ranks, with so many steps of 10 hours and these."""
    ten_hours = [{"step": step, "n_ranks": 2, "duration_ns": 10 * HOUR} for step in range(n_steps)]
    return answer(
        "straggler_ranks",
        select,
        steps=[*ten_hours, *steps],
        step_stragglers=stragglers,
        ranks=[{"rank": rank, "host": f"h{rank}", "is_recorded": True} for rank in {r["rank"] for r in stragglers}],
    )


def test_lateness_at_even_distances_of_more_than_one_step_is_periodic() -> None:
    steps = {
        0: [0, 10, 20, 30],
        1: [1, 11, 21],  # two distances may be equal by chance
        2: [2, 12, 22, 33],
        3: [3, 4, 5, 6],  # one bout
        4: [7],
        5: [13, 15, 17, 19],
        6: [8, 9, 26],
    }

    found = ranked(
        "rank, pattern, is_persistent, verdict", 40, *(of_run(step, rank) for rank in steps for step in steps[rank])
    )

    assert found == [
        (0, "periodic", False, "ok"),
        (1, "transient", False, "ok"),
        (2, "transient", False, "ok"),
        (3, "transient", False, "ok"),
        (4, "transient", False, "one step: it may be chance"),
        (5, "periodic", False, "ok"),
        (6, "transient", False, "ok"),
    ]


@pytest.mark.parametrize(
    ("n_steps", "late_in", "pattern"),
    [
        (4, [1, 2], "persistent"),  # half of the steps
        (5, [1, 2], "transient"),
        (2, [1], "transient"),  # half of them, but one
        (8, [0, 2, 4, 6], "persistent"),  # though at even distances
    ],
)
def test_a_rank_late_in_half_of_the_steps_and_more_than_one_is_persistent(
    n_steps: int, late_in: list[int], pattern: str
) -> None:
    found = ranked("is_persistent, pattern", n_steps, *(of_run(step, 0) for step in late_in))

    assert found == [(pattern == "persistent", pattern)]


def test_steps_of_one_rank_or_without_a_time_are_no_steps_in_which_lateness_is_known() -> None:
    found = ranked(
        "n_steps, n_straggler, share_last_ratio, late_ns, late_ratio, lost_gpu_hours, is_persistent",
        4,
        *(of_run(1, 0), of_run(2, 0)),
        steps=(
            {"step": 10, "n_ranks": 1, "duration_ns": 10 * HOUR},
            {"step": 11, "n_ranks": 2, "duration_ns": None},
        ),
    )

    assert found == [(4, 2, 0.5, 2 * HOUR, 2 / 40, 2.0, True)]


def test_a_rank_has_the_cause_of_most_of_its_lateness() -> None:
    found = ranked(
        "rank, n_straggler, late_ns, cause, cause_ns, cause_ratio, place, lost_gpu_hours",
        20,
        of_run(1, 0, "host", hours=1),
        of_run(2, 0, "compute", hours=3),
        of_run(3, 0, "host", hours=1),
        of_run(4, 0, "link", hours=2, place="group 7"),
        of_run(4, 1, "link", hours=2, place="group 7"),  # its two ranks have half of what two waited
    )

    assert found == [
        (0, 4, 7 * HOUR, "compute", 3 * HOUR, 3 / 7, None, 1 + 3 + 1 + 2),
        (1, 1, 2 * HOUR, "link", 2 * HOUR, 1.0, "group 7", 2.0),
    ]


@pytest.mark.parametrize(
    ("n_steps", "ranks", "causes"),
    [
        (6, [0, 1, 2], {0: "sequence", 1: "sequence", 2: "sequence"}),  # half of the steps
        (7, [0, 1, 2], {0: "compute", 1: "compute", 2: "compute"}),
        (6, [0, 1, 0], {0: "compute", 1: "compute"}),  # two ranks: it does not wander
        (8, [0, 0, 0, 0, 0, 1, 2], {0: "sequence", 1: "sequence", 2: "sequence"}),
        (8, [0, 0, 0, 0, 0, 0, 1, 2], {0: "compute", 1: "sequence", 2: "sequence"}),  # three quarters are of rank 0
    ],
)
def test_compute_that_makes_one_rank_late_after_another_is_of_the_sequence(
    n_steps: int, ranks: list[int], causes: dict[int, str]
) -> None:
    found = ranked("rank, cause", n_steps, *(of_run(step, rank, "compute") for step, rank in enumerate(ranks)))

    assert dict(found) == causes


def test_lateness_for_other_causes_does_not_make_compute_wander() -> None:
    found = ranked(
        "rank, cause", 6, of_run(0, 0, "compute"), of_run(1, 1, "compute"), of_run(2, 2, "host"), of_run(3, 3, "input")
    )

    assert found == [(0, "compute"), (1, "compute"), (2, "host"), (3, "input")]


def test_steps_that_a_rank_is_late_in_for_other_causes_do_not_make_the_load_its_own() -> None:
    """Rank 0 has four of the six steps of compute; the host made it late in two more, by less."""
    late_in_compute = [of_run(step, 0, "compute", hours=4) for step in range(4)]
    others = [of_run(4, 0, "host"), of_run(5, 0, "host"), of_run(6, 1, "compute"), of_run(7, 2, "compute")]

    assert ranked("rank, cause", 8, *late_in_compute, *others) == [(0, "sequence"), (1, "sequence"), (2, "sequence")]


def test_places_have_the_latest_of_their_stragglers_in_each_step() -> None:
    """Rail and rack of one name are two places. Rank 2 was not recorded, and rank 3 was late once, by chance."""
    found = answer(
        "run_straggler_places",
        ranks=[
            {"rank": 0, "host": "h0", "rack": "a", "rail": "b", "is_recorded": True},
            {"rank": 1, "host": "h0", "rack": "b", "rail": "a", "is_recorded": True},
            {"rank": 2, "host": "h0", "rack": None, "rail": None, "is_recorded": False},
            {"rank": 3, "host": "h1", "rack": None, "rail": None, "is_recorded": True},
            {"rank": 4, "host": None, "rack": "b", "rail": None, "is_recorded": True},
        ],
        steps=[
            {"step": 1, "n_ranks": 4, "duration_ns": 10 * HOUR},
            {"step": 2, "n_ranks": 2, "duration_ns": 10 * HOUR},
            {"step": 3, "n_ranks": 1, "duration_ns": 10 * HOUR},  # nobody could wait
            {"step": 4, "n_ranks": 4, "duration_ns": None},
        ],
        step_stragglers=[
            {"step": 1, "rank": 0, "late_ns": 2 * HOUR, "is_straggler": True},
            {"step": 1, "rank": 1, "late_ns": 3 * HOUR, "is_straggler": True},
            {"step": 1, "rank": 4, "late_ns": 1 * HOUR, "is_straggler": True},
            {"step": 2, "rank": 0, "late_ns": 2 * HOUR, "is_straggler": True},
            {"step": 2, "rank": 1, "late_ns": 5 * HOUR, "is_straggler": False},  # within the noise
            {"step": 2, "rank": 3, "late_ns": 1 * HOUR, "is_straggler": True},
        ],
        straggler_ranks=[
            {"rank": 0, "cause": "host", "lost_gpu_hours": 4.0, "verdict": "ok"},
            {"rank": 1, "cause": "link", "lost_gpu_hours": 3.0, "verdict": "ok"},
            {"rank": 3, "cause": "input", "lost_gpu_hours": 9.0, "verdict": "one step: it may be chance"},
            {"rank": 4, "cause": "copy", "lost_gpu_hours": 1.0, "verdict": "ok"},
        ],
    )

    assert found == [
        ("host", "h0", 2, 2, 5 * HOUR, 5 / 20, 7.0, 7 / 8, "host"),
        ("rack", "a", 1, 1, 4 * HOUR, 4 / 20, 4.0, 4 / 8, "host"),
        ("rack", "b", 2, 2, 3 * HOUR, 3 / 20, 4.0, 4 / 8, "link"),
        ("rail", "a", 1, 1, 3 * HOUR, 3 / 20, 3.0, 3 / 8, "link"),
        ("rail", "b", 1, 1, 4 * HOUR, 4 / 20, 4.0, 4 / 8, "host"),
    ]


def test_each_straggler_has_the_price_of_its_own_what_if() -> None:
    found = answer(
        "run_stragglers",
        "rank, saved_ns, slowdown_ratio, verdict",
        straggler_ranks=[
            {"rank": 0, "cause": "host", "verdict": "ok"},
            {"rank": 1, "cause": "stage", "place": "stage 0", "verdict": "ok"},
            {"rank": 2, "cause": "link", "place": "group 7", "verdict": "ok"},
            {"rank": 3, "cause": "input", "verdict": "one step: it may be chance"},
        ],
        run_whatif=[
            {"measure": "S", "group_key": "all", "duration_ns": 100, "base_ns": 50, "value_ratio": 2.0},
            {"measure": "fix", "group_key": "0", "duration_ns": 100, "base_ns": 80, "value_ratio": 1.25},
            {"measure": "fix", "group_key": "stage 0", "duration_ns": 100, "base_ns": 125, "value_ratio": 0.8},
        ],
    )

    assert found == [
        (0, 20, 1.25, "ok"),
        (1, -25, 0.8, "ok"),
        (2, None, None, "cost n/a: a rank at the median keeps its link"),
        (3, None, None, "one step: it may be chance; cost n/a: longpole whatif RUN --stragglers predicts it"),
    ]


def priced(stragglers: list[Row], ranks: list[Row]) -> list[tuple[Any, ...]]:
    return answer("straggler_scenarios", straggler_ranks=stragglers, ranks=ranks, params=LIMITS)


def test_the_five_waited_for_longest_have_a_what_if_each() -> None:
    late_ns = {3: 70, 1: 60, 6: 50, 2: 40, 5: 30, 0: 20}

    found = priced(
        [{"rank": rank, "cause": "host", "late_ns": ns} for rank, ns in late_ns.items()],
        [{"rank": rank, "is_recorded": True} for rank in range(8)],
    )

    assert found == [
        (1, "S", "run", "all", None),
        (2, "fix", "rank", "3", 3),
        (3, "fix", "rank", "1", 1),
        (4, "fix", "rank", "6", 6),
        (5, "fix", "rank", "2", 2),
        (6, "fix", "rank", "5", 5),
        (7, "M_W", "workers", "slowest", 3),
    ]


def test_a_stage_has_the_place_of_the_rank_that_was_waited_for_longest() -> None:
    """Of the last stage no rank was recorded, so the last one that was stands for it."""
    found = priced(
        [
            {"rank": 2, "cause": "stage", "place": "stage 1", "late_ns": 70},
            {"rank": 0, "cause": "host", "late_ns": 60},
            {"rank": 3, "cause": "stage", "place": "stage 1", "late_ns": 50},
        ],
        [{"rank": rank, "pp": rank // 2, "is_recorded": rank < 4} for rank in range(6)],
    )

    assert found == [
        (1, "S", "run", "all", None),
        (2, "fix", "stage", "stage 1", 2),
        (2, "fix", "stage", "stage 1", 3),
        (3, "fix", "rank", "0", 0),
        (4, "M_W", "workers", "slowest", 2),
        (5, "M_S", "stage", "1", 2),
        (5, "M_S", "stage", "1", 3),
    ]


def test_waiting_for_a_send_is_a_bubble_unless_both_ends_are_of_one_stage() -> None:
    """Rank 0 exchanges in four steps: with its own stage, the next one, one that is not known, and in an all-reduce."""
    peers = {1: 1, 2: 2, 3: 3, 4: 1}
    ops = {1: "send_recv", 2: "send_recv", 3: "send_recv", 4: "all_reduce"}
    waited = {"rank": 0, "is_complete": True, "wait_ns": 90, "transfer_ns": 10, "exposed_ns": 100}

    found = answer(
        "rank_step_waits",
        "step, bubble_ns, wait_ns, transfer_ns, unsplit_ns",
        ranks=[{"rank": rank, "pp": stage} for rank, stage in enumerate([0, 0, 1, None])],
        rank_windows=[{"rank": 0, "step": step, "exposed_comm_ns": 100} for step in peers],
        collectives=[{**waited, "step": step, "op": ops[step], "activity_no": step} for step in peers],
        _aligned=[
            {"rank": rank, "instance_no": step, "op": ops[step], "activity_no": step}
            for step, peer in peers.items()
            for rank in (0, peer)
        ],
        shard=[{"first_step": 0, "last_step": 9}],
    )

    assert found == [
        (1, 0, 90, 10, 0),
        (2, 90, 0, 10, 0),
        (3, 90, 0, 10, 0),
        (4, 0, 90, 10, 0),
    ]
