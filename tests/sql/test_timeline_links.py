"""What the ops of a pipelined step wait for and what they take, on workers a person can check by eye."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer

Links = dict[int, list[int]]
"""By op, the ops it waits for."""


def pass_of(op_no: int, direction: str, chunk: int, pass_no: int, place: int, start: int, end: int, **more: Any) -> Row:
    """Return a row of _timeline_passes: of the first worker of the first step, where nothing else is said."""
    return {
        "op_no": op_no, "step": 0, "dp_rank": 0, "stage": 0, "direction": direction, "chunk": chunk, "pass_no": pass_no,
        "place": place, "start_ns": start, "end_ns": end, **more,
    }  # fmt: skip


def op_of(op_no: int, optype: str, place: int = 0, chunk: int = 0, **more: Any) -> Row:
    """Return a row of _timeline_work that is no pass, with what timeline_optypes says of its type."""
    kind, part, turn = {
        "params-all-gather": ("transfer", "body", 0),
        "gc": ("compute", "tail", 1),
        "grads-reduce-scatter": ("transfer", "tail", 4),
        "separate-grads-all-reduce": ("transfer", "tail", 5),
        "optimizer": ("compute", "tail", 7),
    }[optype]
    return {
        "op_no": op_no, "step": 0, "dp_rank": 0, "stage": 0, "optype": optype, "kind": kind, "part": part,
        "turn": turn, "place": place, "chunk": chunk, **more,
    }  # fmt: skip


def links(work: list[Row], passes: list[Row], *, optypes: tuple[str, ...] = ()) -> Links:
    """Return what each op waits for, where ops of these types occur in the run."""
    found: Links = {}
    for op_no, after_no in answer(
        "_timeline_links",
        _timeline_work=work,
        _timeline_passes=passes,
        timeline_ideals=[{"optype": optype} for optype in optypes],
    ):
        found.setdefault(op_no, []).append(after_no)
    return found


TWO_CHUNKS = [
    pass_of(1, "forward", 0, 1, 0, 10, 20),
    pass_of(2, "forward", 1, 2, 1, 20, 30, before_no=1),
    pass_of(3, "backward", 1, 3, 0, 30, 40, before_no=2),
    pass_of(4, "backward", 0, 4, 1, 40, 50, before_no=3),
]
"""A worker with two model chunks: forward through both, then back."""

AROUND_THEM = [
    op_of(5, "params-all-gather", 0, chunk=0),
    op_of(6, "params-all-gather", 1, chunk=1),
    op_of(7, "gc"),
    op_of(8, "grads-reduce-scatter", 0, chunk=1),
    op_of(9, "grads-reduce-scatter", 1, chunk=0),
    op_of(10, "separate-grads-all-reduce"),
    op_of(11, "optimizer"),
]
"""What comes before and after their passes."""


def test_gradients_reduced_during_the_passes_wait_for_their_own_chunk() -> None:
    assert links(AROUND_THEM, TWO_CHUNKS, optypes=("gc", "separate-grads-all-reduce", "optimizer")) == {
        1: [5],  # the first forward pass of a chunk waits for the parameters of that chunk
        2: [1, 6],
        3: [2],
        4: [3],
        6: [5],  # gathers follow each other
        7: [4],  # the tail begins with the collection of garbage, after the last pass
        8: [3],  # the second chunk's gradients are whole before the last pass
        9: [4, 8],
        10: [7, 9],  # what they left out waits for the tail before it and for the last reduction
        11: [10],
    }


def test_gradients_reduced_after_the_passes_are_in_the_tail() -> None:
    after = [op for op in AROUND_THEM if op["optype"] != "separate-grads-all-reduce"]

    assert links(after, TWO_CHUNKS, optypes=("gc", "grads-reduce-scatter", "optimizer")) == {
        **{1: [5], 2: [1, 6], 3: [2], 4: [3], 6: [5]},
        7: [4],
        8: [7],
        9: [8],
        11: [9],
    }


def test_a_tail_without_garbage_collection_waits_for_the_last_pass_and_the_last_reduction() -> None:
    work = [op for op in AROUND_THEM if op["optype"] in ("grads-reduce-scatter", "separate-grads-all-reduce")]

    found = links(work, TWO_CHUNKS, optypes=("separate-grads-all-reduce",))

    assert found[10] == [4, 9]


def test_a_chunk_that_goes_forward_again_after_its_last_backward_pass_has_its_gradients() -> None:
    """The dump ends with a forward pass whose way back it lacks: no gradients come of that."""
    passes = [
        pass_of(1, "forward", 0, 1, 0, 10, 20),
        pass_of(2, "backward", 0, 2, 0, 20, 30, before_no=1),
        pass_of(3, "forward", 0, 3, 1, 30, 40, before_no=2),
    ]
    work = [op_of(8, "grads-reduce-scatter"), op_of(10, "separate-grads-all-reduce")]

    assert links(work, passes, optypes=("separate-grads-all-reduce",)) == {2: [1], 3: [2], 8: [2], 10: [3, 8]}


def test_a_backward_pass_needs_no_parameters_gathered() -> None:
    """The dump begins with a backward pass whose way forward it lacks."""
    passes = [pass_of(1, "backward", 0, 1, 0, 10, 20), pass_of(2, "forward", 0, 2, 0, 20, 30, before_no=1)]

    assert links([op_of(5, "params-all-gather")], passes) == {2: [1, 5]}


def test_ops_wait_for_ops_of_their_own_worker_and_step_alone() -> None:
    workers = [
        {"step": step, "dp_rank": dp_rank, "stage": stage} for step in (0, 1) for dp_rank in (0, 1) for stage in (0, 1)
    ]
    work: list[Row] = []
    passes: list[Row] = []
    expected: Links = {}
    for n, worker in enumerate(workers):
        at = 10 * n
        passes += [
            pass_of(at + 1, "forward", 0, 1, 0, at, at + 4, **worker),
            pass_of(at + 2, "backward", 0, 2, 0, at + 4, at + 8, before_no=at + 1, **worker),
        ]
        work += [
            op_of(at + 3, "params-all-gather", **worker),
            op_of(at + 4, "grads-reduce-scatter", **worker),
            op_of(at + 5, "separate-grads-all-reduce", **worker),
        ]
        expected |= {at + 1: [at + 3], at + 2: [at + 1], at + 4: [at + 2], at + 5: [at + 2, at + 4]}

    assert links(work, passes, optypes=("separate-grads-all-reduce",)) == expected


HOP = {"step": 0, "dp_rank": 0, "stage": 0, "direction": "forward", "place": 0}


@pytest.mark.parametrize(
    ("kind", "start", "end", "is_hop"),
    [
        ("recv", 150_000, 160_000, True),  # posted 50 us after the last pass began: within what recorders disagree by
        ("recv", 150_001, 160_000, False),  # it never came to be
        ("send", 10_000, 150_000, True),  # done 50 us before the first pass ended
        ("send", 10_000, 149_999, False),
    ],
)
def test_calls_that_recorders_may_have_misplaced_belong_to_their_pass(
    kind: str, start: int, end: int, is_hop: bool
) -> None:
    found = answer(
        "_timeline_hops",
        "op_no, pass",
        _timeline_work=[{**HOP, "op_no": 2, "kind": kind, "start_ns": start, "end_ns": end}],
        _timeline_passes=[pass_of(1, "forward", 0, 1, 0, 100_000, 200_000)],
        params=[{"hop_slack_ns": 50_000}],
    )

    assert found == ([(2, 1)] if is_hop else [])


def hop(op_no: int, stage: int, kind: str, model_chunk: int, peer_chunk: int, **more: Any) -> Row:
    return {
        "op_no": op_no, "step": 0, "dp_rank": 0, "stage": stage, "kind": kind, "direction": "forward",
        "microbatch": 0, "model_chunk": model_chunk, "peer_chunk": peer_chunk, **more,
    }  # fmt: skip


def costs(select: str, work: list[Row], hops: list[Row]) -> list[tuple[Any, ...]]:
    return answer(
        "_timeline_costs",
        select,
        _timeline_work=[{"step": 0, "dp_rank": 0, **op} for op in work],
        _timeline_hops=hops,
        _timeline_passes=[pass_of(90, "forward", 0, 1, 0, 0, 1, model_chunk=1)],
        params=[{"clock_slack_ns": 10_000_000}],
    )


def test_of_sends_and_receives_that_look_alike_only_the_first_are_a_pair() -> None:
    """A dump that names microbatches but not chunks: nothing tells the two sends of a stage apart."""
    times = {"start_ns": 0, "end_ns": 10}
    found = costs(
        "op_no, node, is_unpaired",
        [{"op_no": n, "stage": stage, "kind": kind, **times} for n, stage, kind in _FOUR_HOPS],
        [hop(n, stage, kind, stage, 1 - stage) for n, stage, kind in _FOUR_HOPS],
    )

    assert found == [(1, 1, False), (2, 2, True), (3, 1, False), (4, 4, True)]


_FOUR_HOPS = [(1, 0, "send"), (2, 0, "send"), (3, 1, "recv"), (4, 1, "recv")]


@pytest.mark.parametrize(
    ("ended", "own_ns"),
    [
        (20_000_007, 7),
        (20_000_000, 0),
        (19_999_999, -1),
        (10_000_001, -9_999_999),  # clocks may differ by nearly 10 ms
        (10_000_000, 0),
        (5_000_000, 0),  # no clock explains that it ended 15 ms before the other end had come
    ],
)
def test_a_transfer_takes_what_is_left_of_it_once_the_last_has_come(ended: int, own_ns: int) -> None:
    found = costs(
        "op_no, node, ready_ns, own_ns, is_transfer",
        [
            {"op_no": 1, "stage": 0, "kind": "send", "start_ns": 20_000_000, "end_ns": 20_000_007},
            {"op_no": 2, "stage": 1, "kind": "recv", "start_ns": 1_000_000, "end_ns": ended},
            {"op_no": 3, "stage": 1, "kind": "compute", "start_ns": 20_000_007, "end_ns": 20_000_010},
        ],
        [hop(1, 0, "send", 0, 1), hop(2, 1, "recv", 1, 0)],
    )

    assert found == [
        (1, 1, 20_000_000, 7, True),
        (2, 1, 20_000_000, own_ns, True),
        (3, 3, 20_000_007, 3, False),
    ]


def lanes(
    scenarios: list[Row],
    per_dp_rank: dict[int, list[Row]],
    left_out: tuple[int, ...] = (),
    slow: tuple[int, ...] = (),
) -> list[tuple[Any, ...]]:
    """Return (dimension, dp rank, whose passes stand for its) of dp ranks with these ops.

    Args:
        left_out: Ops that are no part of the model.
        slow: Dp ranks that have one of the slowest workers.
    """
    work = [{"step": 0, "dp_rank": d, "stage": 0, **op} for d, ops in per_dp_rank.items() for op in ops]
    return answer(
        "_timeline_lanes",
        "dimension, dp_rank, body_dp_rank",
        timeline_scenarios=[{"scenario": n, **scenario} for n, scenario in enumerate(scenarios)],
        _timeline_work=work,
        _timeline_costs=[{"op_no": op["op_no"]} for op in work if op["op_no"] not in left_out],
        timeline_workers=[{"dp_rank": d, "is_slowest": d in slow} for d in per_dp_rank],
    )


OF_THE_SLOWEST: Row = {"change": "only", "dimension": "worker", "group_key": "slowest"}
OF_THE_FIRST: Row = {"change": "only", "dimension": "dp_rank", "group_key": "0"}


def test_every_dp_rank_of_a_slow_worker_is_looked_at_and_one_of_the_others() -> None:
    alike = {d: [{"op_no": d, "optype": "forward-compute", "place": 0}] for d in range(5)}

    assert lanes([OF_THE_SLOWEST], alike, slow=(1, 3)) == [("worker", 0, 0), ("worker", 1, 1), ("worker", 3, 3)]


def test_a_dp_rank_with_a_call_that_never_came_to_be_stands_for_no_other() -> None:
    forward, receive = {"optype": "forward-compute", "place": 0}, {"optype": "forward-recv", "place": 0}
    per_dp_rank = {
        0: [{"op_no": 1, **forward}],
        1: [{"op_no": 2, **forward}],
        2: [{"op_no": 3, **forward}, {"op_no": 4, **receive}],
    }

    assert lanes([OF_THE_FIRST], per_dp_rank, left_out=(4,)) == [
        ("dp_rank", 0, 0),
        ("dp_rank", 1, 1),
        ("dp_rank", 2, 2),
    ]
