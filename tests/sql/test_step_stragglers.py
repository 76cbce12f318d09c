"""Who is waited for, how long, and why: one hand-made step at a time."""

from __future__ import annotations

from typing import Any

from evaluation import Row, annotation, kernel, launch_call, link, step
from path_pipeline import Pipeline, make

MS = 1_000_000
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def launched(at: int, start: int, end: int, name: str, *, stream: int = 7, **more: Any) -> list[Row]:
    """Return a call of 1 ms and its kernel; all in ms."""
    return [
        launch_call(at * MS, (at + 1) * MS),
        kernel(start * MS, end * MS, stream=stream, launch=at * MS, name=name, **more),
    ]


def meeting(at: int, start: int, end: int, group: str = "0", ranks: str = "[0, 1, 2]", seq: int = 1) -> list[Row]:
    size = ranks.count(",") + 1
    told = {"comm_group": group, "comm_group_ranks": ranks, "comm_group_size": size, "comm_seq": seq}
    return launched(at, start, end, NCCL, stream=20, **told)


def stragglers(ranks: dict[int, list[Row]], residual: int = 0) -> list[tuple[Any, ...]]:
    """Return (rank, late in ms, whether it is named, cause, cause in ms, verdict) of step 1."""
    pipeline = Pipeline({r: link(rows) for r, rows in ranks.items()}, clocks={r: (0, residual) for r in ranks})
    make(pipeline.con, ["step_stragglers"])
    found = pipeline.con.execute(
        "SELECT rank, late_ns / 1e6, is_straggler, cause, cause_ns / 1e6, verdict FROM step_stragglers"
        " WHERE step = 1 ORDER BY rank"
    )
    return found.fetchall()


def worker(compute_ends: int, *, at: int = 0, starts: int = 1, met: int = 170) -> list[Row]:
    """Return a rank that computes from `starts`, launched `at`, and then meets the others, who all leave at `met`."""
    return [
        step(1, 0, 200 * MS),
        *launched(at, starts, compute_ends, "gemm"),
        *meeting(at + 2, compute_ends, met),
        *launched(at + 4, met, met + 10, "adam"),
    ]


def test_the_rank_whose_kernels_take_longer_is_named_for_compute() -> None:
    assert stragglers({0: worker(101), 1: worker(103), 2: worker(151)}) == [(2, 48.0, True, "compute", 48.0, "ok")]


def test_the_rank_whose_host_launches_late_is_named_for_its_host() -> None:
    late = worker(151, at=50, starts=51)

    assert stragglers({0: worker(101), 1: worker(101), 2: late}) == [(2, 50.0, True, "host", 50.0, "ok")]


def test_the_rank_whose_batch_comes_late_is_named_for_its_input() -> None:
    late = [*worker(151, at=50, starts=51), annotation("next_batch", 0, 50 * MS)]

    assert stragglers({0: worker(101), 1: worker(101), 2: late}) == [(2, 50.0, True, "input", 50.0, "ok")]


def test_two_that_are_late_in_turns_are_a_tie() -> None:
    def twice(first: int, second: int) -> list[Row]:
        return [
            step(1, 0, 400 * MS),
            *launched(0, 1, first, "gemm"),
            *meeting(2, first, 170),
            *launched(4, 170, second, "gemm"),
            *meeting(6, second, 330, seq=2),
        ]

    found = stragglers({0: twice(101, 270), 1: twice(151, 270), 2: twice(101, 310)})

    assert [(rank, named) for rank, _, named, *_ in found] == [(1, False), (2, False)]
    assert found[0][-1] == "a tie: another rank is late by more than half of it"


def test_what_a_rank_waited_for_itself_is_not_its_own_lateness() -> None:
    """Rank 1 meets rank 0, who comes 60 late, and only then ranks 2 and 3, who have long been there."""
    pair, rest = "[0, 1]", "[1, 2, 3]"

    def begins(compute_ends: int, *more: list[Row]) -> list[Row]:
        return [step(1, 0, 300 * MS), *launched(0, 1, compute_ends, "gemm"), *(row for rows in more for row in rows)]

    ranks = {
        0: begins(161, meeting(2, 161, 170, "a", pair)),
        1: begins(101, meeting(2, 101, 170, "a", pair), meeting(4, 170, 190, "b", rest)),
        2: begins(101, meeting(2, 101, 190, "b", rest)),
        3: begins(101, meeting(2, 101, 190, "b", rest)),
    }

    found = {rank: (late, named) for rank, late, named, *_ in stragglers(ranks)}

    assert found == {0: (60.0, True)}


def test_nobody_is_named_below_the_noise_or_the_clocks() -> None:
    assert stragglers({0: worker(101), 1: worker(101), 2: worker(103)}) == [
        (2, 2.0, False, None, None, "below the noise of a step")
    ]
    assert stragglers({0: worker(101), 1: worker(101), 2: worker(151)}, residual=20 * MS) == [
        (2, 50.0, False, None, None, "below three residuals of the clocks")
    ]


def test_nobody_is_named_where_a_member_is_not_recorded() -> None:
    assert stragglers({0: worker(101), 2: worker(151)}) == []


def test_late_before_the_recording_began_is_said_and_nothing_inside_is_blamed() -> None:
    def late_from_before(begins: int) -> list[Row]:
        return [
            step(1, begins * MS, 200 * MS),
            *launched(begins, begins + 1, begins + 101, "gemm"),
            *meeting(begins + 2, begins + 101, 170),
            *launched(begins + 4, 170, 180, "adam"),
        ]

    found = stragglers({0: late_from_before(0), 1: late_from_before(0), 2: late_from_before(50)})

    assert found == [(2, 50.0, True, "before", 50.0, "ok")]
