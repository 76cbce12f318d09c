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


def stragglers(
    ranks: dict[int, list[Row]], residual: int = 0, sm_mhz: dict[int, int] | None = None
) -> list[tuple[Any, ...]]:
    """Return (rank, late in ms, whether it is named, cause, cause in ms, verdict) of step 1."""
    pipeline = Pipeline(
        {r: link(rows) for r, rows in ranks.items()},
        clocks={r: (0, residual) for r in ranks},
        sm_clocks=[(rank, 1, mhz * 1e6) for rank, mhz in (sm_mhz or {}).items()],
    )
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


def test_the_rank_whose_kernels_take_longer_on_a_slower_clock_is_named_for_its_clock() -> None:
    """Of 160 ms of compute, beside 110 on the others, 160 x (1 - 1,500 / 2,000) = 40 are the clock's."""
    ranks = {0: worker(101), 1: worker(101), 2: worker(151)}

    assert stragglers(ranks, sm_mhz={0: 2_000, 1: 2_000, 2: 1_500}) == [(2, 50.0, True, "clock", 50.0, "ok")]


def test_a_clock_that_explains_less_than_half_or_has_no_peer_is_no_cause() -> None:
    ranks = {0: worker(101), 1: worker(101), 2: worker(151)}
    compute = [(2, 50.0, True, "compute", 50.0, "ok")]

    assert stragglers(ranks, sm_mhz={0: 2_000, 1: 2_000, 2: 1_700}) == compute  # 24 of 50
    assert stragglers(ranks, sm_mhz={2: 1_500}) == compute


def test_a_slow_clock_beside_a_late_host_is_not_blamed() -> None:
    late = worker(151, at=50, starts=51)

    found = stragglers({0: worker(101), 1: worker(101), 2: late}, sm_mhz={0: 2_000, 1: 2_000, 2: 1_500})

    assert found == [(2, 50.0, True, "host", 50.0, "ok")]


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


def test_a_host_that_launches_late_while_an_exchange_runs_is_named_though_its_device_was_not_idle() -> None:
    """The exchange of 69 ms runs on all; the second computation of rank 2 is launched 40 ms after its first ended."""

    def overlapped(at: int, second: int) -> list[Row]:
        return [
            step(1, 0, 260 * MS),
            *launched(0, 1, 101, "gemm"),
            *meeting(2, 101, 170),
            *launched(at, second, second + 80, "gemm"),
            *meeting(at + 2, second + 80, 240, seq=2),
            *launched(at + 4, 240, 250, "adam"),
        ]

    found = stragglers({0: overlapped(4, 101), 1: overlapped(4, 101), 2: overlapped(141, 142)})

    assert found == [(2, 40.0, True, "host", 40.0, "ok")]


def placed(ranks: dict[int, list[Row]]) -> list[tuple[Any, ...]]:
    """Return (rank, late in ms, cause, place) of the stragglers of step 1, and what `steps` says of it."""
    pipeline = Pipeline({r: link(rows) for r, rows in ranks.items()})
    found = pipeline.con.execute(
        "SELECT rank, late_ns / 1e6, cause, place FROM step_stragglers WHERE is_straggler"
        " UNION ALL SELECT straggler_rank, straggler_ns / 1e6, straggler_cause, 'steps' FROM steps ORDER BY place, rank"
    )
    return found.fetchall()


def in_group(at: int, start: int, end: int, group: str, ranks: str, description: str) -> list[Row]:
    told = {"comm_group_description": description, "comm_dtype": "Float", "comm_in_elements": 1_000}
    call, kernel_row = meeting(at, start, end, group, ranks)
    return [call, {**kernel_row, **told, "comm_out_elements": 1_000}]


def test_a_pair_whose_transfers_take_longer_than_the_other_pairs_is_a_slow_link() -> None:
    """All come at 101; the pair of 2 and 3 leaves 40 ms after the two others, which cost 40 of the step's 161 ms."""

    def paired(pair: int, end: int) -> list[Row]:
        return [
            step(1, 0, 170 * MS),
            *launched(0, 1, 101, "gemm"),
            *in_group(2, 101, end, f"{pair}", f"[{2 * pair}, {2 * pair + 1}]", "mesh_dp"),
            *launched(4, end, end + 10, "adam"),
        ]

    ends = {0: 111, 1: 151, 2: 111}

    assert placed({rank: paired(rank // 2, ends[rank // 2]) for rank in range(6)}) == [
        (2, 40.0, "link", "group 1"),
        (3, 40.0, "link", "group 1"),
        (2, 40.0, "link", "steps"),
    ]


def pipelined(chain: int, compute_ends: int) -> list[Row]:
    members = f"[{chain}, {chain + 2}, {chain + 4}]"
    return [
        step(1, 0, 170 * MS),
        *launched(0, 1, compute_ends, "gemm"),
        *in_group(2, compute_ends, 150, f"{chain}", members, "mesh_pp"),
        *launched(4, 150, 160, "adam"),
    ]


def test_a_stage_whose_ranks_all_compute_more_is_named_as_a_stage() -> None:
    """Of three stages of two ranks the last computes 30 ms more; nobody of it computes more than its like."""
    ends = {0: 101, 1: 102, 2: 132}

    found = placed({rank: pipelined(rank % 2, ends[rank // 2]) for rank in range(6)})

    assert found == [(4, 30.0, "stage", "stage 2"), (5, 30.0, "stage", "stage 2"), (4, 30.0, "stage", "steps")]


def test_a_stage_is_not_named_for_one_rank_of_it_nor_where_another_computes_as_much() -> None:
    one = {0: 101, 1: 101, 2: 101, 3: 101, 4: 101, 5: 132}
    two = {0: 101, 1: 101, 2: 131, 3: 131, 4: 132, 5: 132}
    causes = [placed({rank: pipelined(rank % 2, end) for rank, end in ends.items()}) for ends in (one, two)]

    assert [[row for row in found if row[2] == "stage"] for found in causes] == [[], []]
