"""A step of a rank and of the run: how long it waited for others, where it begins and ends, and who is missing."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer

STEPS = {"shard": [{"first_step": 0, "last_step": 9}]}


def waits(*collectives: tuple[int, int | None, int, int | None]) -> list[tuple[int, int, int]]:
    """Return rank, step and wait of steps 1 and 2 of two ranks; a collective is its rank, step, arrival and wait."""
    places = [(rank, step) for rank in (0, 1) for step in (1, 2)]
    return answer(
        "rank_steps",
        "rank, step, wait_ns",
        rank_windows=[{"rank": rank, "step": step, "verdict": "ok"} for rank, step in places],
        rank_clocks=[{"rank": rank, "verdict": "ok"} for rank in (0, 1)],
        collectives=[
            {"rank": r, "step": step, "arrival_ns": at, "wait_ns": wait, "activity_no": n, "is_complete": True}
            for n, (r, step, at, wait) in enumerate(collectives)
        ],
        **STEPS,
    )


@pytest.mark.parametrize(
    ("collectives", "expected"),
    [
        # Waits behind each other, touching and apart, are added.
        ([(0, 1, 0, 10), (0, 1, 10, 10), (0, 1, 30, 5)], (25, 0, 0, 0)),
        # Two communicators that wait at once wait once, whatever rank or step comes before.
        ([(0, 1, 20, 30), (0, 1, 30, 30)], (40, 0, 0, 0)),
        ([(0, 1, 0, 10), (0, 2, 20, 30), (0, 2, 30, 30)], (10, 40, 0, 0)),
        ([(0, 1, 0, 10), (1, 1, 20, 30), (1, 1, 30, 30)], (10, 0, 40, 0)),
        ([(0, 1, 0, 90), (0, 1, 10, 10), (0, 1, 95, 5)], (95, 0, 0, 0)),
        # The last to come waits for nobody; a step that launched none waits for none.
        ([(0, 1, 0, 10), (0, 1, 5, 0), (0, None, 0, 50), (1, 2, 0, None)], (10, 0, 0, 0)),
    ],
)
def test_a_rank_waits_for_as_long_as_any_of_its_collectives_does(
    collectives: list[tuple[int, int | None, int, int | None]], expected: tuple[int, ...]
) -> None:
    assert tuple(wait for _, _, wait in waits(*collectives)) == expected


def run_steps(select: str, *places: tuple[int, int, int, int, int], n_ranks: int = 2) -> list[tuple[Any, ...]]:
    """Return the run's steps where ranks, of aligned clocks, have windows of a rank, capture, step, start and end."""
    return answer(
        "_timed_steps",
        select,
        rank_windows=[
            {"rank": rank, "capture": capture, "step": step, "start_ns": start, "end_ns": end, "verdict": "ok"}
            for rank, capture, step, start, end in places
        ],
        rank_clocks=[{"rank": rank, "offset_ns": 0} for rank in range(n_ranks)],
        ranks=[{"rank": rank} for rank in range(n_ranks)],
        _clock_basis=[{"is_shared": True}],
        **STEPS,
    )


def test_a_step_ends_with_its_last_rank_by_its_margin_over_the_next() -> None:
    found = run_steps(
        "step, start_ns, end_ns, end_rank, end_margin_ns, start_skew_ns",
        *((0, 0, 1, 0, 100), (1, 0, 1, 10, 130), (2, 0, 1, 5, 120)),
        *((0, 0, 2, 100, 250), (1, 0, 2, 130, 250), (2, 0, 2, 120, 240)),
        n_ranks=3,
    )
    # Of step 2 ranks 0 and 1 are equally late: the lower one ends it, by nothing.
    assert found == [(1, 10, 130, 1, 10, 10), (2, 130, 250, 0, 0, None)]


def test_a_step_whose_number_does_not_follow_begins_where_its_own_ranks_do() -> None:
    """Each rank's only capture is its capture 0, though rank 0 recorded steps 1 and 2, and rank 1 step 4."""
    found = run_steps(
        "step, start_ns, end_ns, duration_ns, start_skew_ns, verdict",
        *((0, 0, 1, 0, 100), (0, 0, 2, 100, 200), (1, 0, 4, 350, 400)),
    )
    assert found == [
        (1, 0, 100, 100, 0, "rank absent: 1"),
        (2, 100, 200, 100, None, "rank absent: 1"),
        (4, 350, 400, 50, 0, "rank absent: 0"),
    ]


@pytest.mark.parametrize(
    ("n_ranks", "verdict"),
    [
        (2, "ok"),
        (3, "rank absent: 2"),
        (10, "rank absent: 2, 3, 4, 5, 6, 7, 8, 9"),
        (11, "rank absent: 9 of 11, the first 2, 3, 4, 5, 6, 7, 8, 9"),
    ],
)
def test_a_step_names_the_ranks_that_did_not_record_it_and_of_many_the_first_eight(n_ranks: int, verdict: str) -> None:
    found = run_steps("n_ranks, verdict", (0, 0, 1, 0, 100), (1, 0, 1, 0, 100), n_ranks=n_ranks)
    assert found == [(2, verdict)]


def point(number: int, length: int | None, *, segment: int = 1, **more: Any) -> Row:
    return {
        "point_no": number, "dump_no": 0, "segment_no": segment, "length_ns": length,
        "before_ns": None if number == 1 else 0, **more,
    }  # fmt: skip


def test_a_host_point_comes_after_what_led_to_it_with_what_a_change_saves_and_no_slower_than_the_median() -> None:
    # GIVEN scenario 1, in which nothing changes; 2, in which the rank is at the median; and 3, in which another is.
    # Point 2 launches a graph, whose kernels have two medians; points 3 and 4 save 5 of 10; point 5 had waited.
    scenarios = (1, 2, 3)
    found = answer(
        "_host_times",
        "scenario, point_no, since_ns",
        context=[{"rank": 0}],
        scenarios=[{"scenario": scenario} for scenario in scenarios],
        changes=[
            {"scenario": 2, "what": "fix", "rank": 0, "kind": None},
            {"scenario": 3, "what": "fix", "rank": 1, "kind": None},
        ],
        _median_points=[
            {"point_no": 2, "host_ns": 9},
            {"point_no": 2, "host_ns": 6},
            {"point_no": 3, "host_ns": 8},
            {"point_no": 4, "host_ns": 3},
            {"point_no": 6, "host_ns": 50},
        ],
        _host_savings=[{"scenario": 2, "point_no": number, "saved_ns": 5} for number in (3, 4)],
        _host_points=[
            point(1, None),
            point(2, 10),
            point(3, 10),
            point(4, 10),
            point(5, None, segment=2, released_no=7),
            point(6, 10, segment=2),
        ],
    )
    measured = [(1, 0), (2, 10), (3, 20), (4, 30), (5, 0), (6, 10)]
    # At the median: 6; then 5, less than the median's 8; then 3, less than the 5 that is left; and 10, less than 50.
    fixed = [(1, 0), (2, 6), (3, 11), (4, 14), (5, 0), (6, 10)]
    assert found == [(1, *of) for of in measured] + [(2, *of) for of in fixed] + [(3, *of) for of in measured]
