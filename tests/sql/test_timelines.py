"""What-if of pipelined steps: small ones worked by hand, and any one as a plain replay has it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation import rows
from timeline_cases import TAILS, answered, pipeline, recorded
from timeline_reference import Op, graph_of, step_time, typical


def run_level(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """Return value, duration and base of every row of run_whatif that is not of a step."""
    found = rows(
        con,
        "SELECT measure, dimension, group_key, value_ratio, duration_ns, base_ns FROM run_whatif"
        " WHERE dimension <> 'step' ORDER BY ALL",
    )
    return {(row[0], row[1], row[2]): row[3:] for row in found}


TWO_STAGES = [
    Op(0, 0, "forward-compute", 0, 0, 10, model_chunk=0, microbatch=0),
    Op(0, 0, "forward-send", 0, 10, 2),
    Op(0, 0, "backward-recv", 0, 10, 46),
    Op(0, 0, "backward-compute", 0, 56, 20, model_chunk=0, microbatch=0),
    Op(0, 1, "forward-recv", 0, 0, 12),
    Op(0, 1, "forward-compute", 0, 12, 20, model_chunk=1, microbatch=0),
    Op(0, 1, "backward-compute", 0, 32, 22, model_chunk=1, microbatch=0),
    Op(0, 1, "backward-send", 0, 54, 2),
]
"""One microbatch down and up two stages: 10 + 2 + 20 + 22 + 2 + 20 = 76, all of it in one chain."""


def test_a_chain_of_two_stages_takes_the_sum_of_what_is_kept() -> None:
    found = run_level(answered(TWO_STAGES))
    assert found == {
        ("S", "run", "all"): (1.0, 76, 76),  # forward 15 and backward 21 each, 2 for each transfer: the same sum
        ("launch_slowdown", "run", "all"): (1.0, 76, 76),
        ("S", "dp_rank", "0"): (1.0, 76, 76),
        ("S", "stage", "0"): (70 / 76, 70, 76),
        ("S", "stage", "1"): (82 / 76, 82, 76),
        ("S", "op_type", "forward-compute"): (1.0, 76, 76),
        ("S", "op_type", "backward-compute"): (1.0, 76, 76),
        ("S", "op_type", "forward-pp-comm"): (1.0, 76, 76),
        ("S", "op_type", "backward-pp-comm"): (1.0, 76, 76),
        ("score", "rank", "0"): (70 / 76, None, None),
        ("score", "rank", "1"): (1.0, None, None),
        ("M_S", "stage", "1"): (None, 70, 76),  # nothing is slower than ideal, so there is nothing to share out
        ("M_S_alone", "stage", "1"): (None, 82, 76),
        ("M_W", "workers", "slowest"): (None, 70, 76),
        ("M_W_alone", "workers", "slowest"): (None, 82, 76),
    }


def test_what_cannot_be_shared_out_says_why() -> None:
    told = rows(answered(TWO_STAGES), "SELECT measure, verdict FROM run_whatif WHERE value_ratio IS NULL ORDER BY ALL")
    assert {verdict for _, verdict in told} == {"n/a: nothing is slower than ideal"}
    assert [measure for measure, _ in told] == ["M_S", "M_S_alone", "M_W", "M_W_alone"]


def test_a_transfer_is_ready_when_the_last_of_a_pair_has_come() -> None:
    found = rows(
        answered(TWO_STAGES),
        "SELECT stage, optype, start_ns, ready_ns, end_ns, ideal_start_ns, ideal_end_ns FROM timeline_retimed"
        " ORDER BY stage, start_ns, end_ns",
    )
    assert found == [
        (0, "forward-compute", 0, 0, 10, 0, 15),
        (0, "forward-send", 10, 10, 12, 15, 17),
        (0, "backward-recv", 10, 54, 56, 53, 55),
        (0, "backward-compute", 56, 56, 76, 55, 76),
        (1, "forward-recv", 0, 10, 12, 15, 17),
        (1, "forward-compute", 12, 12, 32, 17, 32),
        (1, "backward-compute", 32, 32, 54, 32, 53),
        (1, "backward-send", 54, 54, 56, 53, 55),
    ]


SLOW_REPLICA = [
    Op(0, 0, "params-all-gather", 0, 0, 4),
    Op(0, 0, "forward-compute", 0, 4, 10, model_chunk=0, microbatch=0),
    Op(0, 0, "backward-compute", 0, 14, 20, model_chunk=0, microbatch=0),
    Op(0, 0, "grads-reduce-scatter", 0, 34, 25),
    Op(0, 0, "optimizer", 0, 59, 3),
    Op(1, 0, "params-all-gather", 0, 1, 3),
    Op(1, 0, "forward-compute", 0, 4, 30, model_chunk=0, microbatch=0),
    Op(1, 0, "backward-compute", 0, 34, 20, model_chunk=0, microbatch=0),
    Op(1, 0, "grads-reduce-scatter", 0, 54, 5),
    Op(1, 0, "optimizer", 0, 59, 3),
]
"""Two replicas, the second with a forward pass of 30 where the first takes 10, and 1 late at the start: 62."""


def test_a_slow_replica_costs_what_its_pass_is_longer_than_the_mean() -> None:
    found = run_level(answered(SLOW_REPLICA))
    assert found == {
        ("launch_slowdown", "run", "all"): (62 / 61, 62, 61),
        ("S", "run", "all"): (61 / 51, 61, 51),  # 3 + 30 + 20 + 5 + 3 over 3 + 20 + 20 + 5 + 3
        ("S", "dp_rank", "0"): (1.0, 51, 51),
        ("S", "dp_rank", "1"): (61 / 51, 61, 51),
        ("S", "stage", "0"): (61 / 51, 61, 51),
        ("S", "op_type", "params-all-gather"): (1.0, 51, 51),
        ("S", "op_type", "forward-compute"): (61 / 51, 61, 51),
        ("S", "op_type", "backward-compute"): (1.0, 51, 51),
        ("S", "op_type", "grads-reduce-scatter"): (1.0, 51, 51),
        ("S", "op_type", "optimizer"): (1.0, 51, 51),
        ("score", "rank", "0"): (1.0, None, None),
        ("score", "rank", "1"): (61 / 51, None, None),
        ("M_W", "workers", "slowest"): (1.0, 51, 61),
        ("M_W_alone", "workers", "slowest"): (1.0, 61, 51),
        ("M_S", "stage", "0"): (1.0, 51, 61),
        ("M_S_alone", "stage", "0"): (1.0, 61, 51),
    }


def test_steps_have_slowdowns_of_their_own_and_one_ideal() -> None:
    faster = [replace(op, step=1, duration=10) if op.duration == 30 else replace(op, step=1) for op in SLOW_REPLICA]
    found = rows(
        answered([*SLOW_REPLICA, *faster]),
        "SELECT measure, group_key, duration_ns, base_ns FROM run_whatif WHERE dimension = 'step' ORDER BY ALL",
    )
    assert found == [
        ("S", "0", 61, 46),  # forward passes of 10, 30, 10 and 10: 15 each in the ideal step
        ("S", "1", 41, 46),
        ("launch_slowdown", "0", 62, 61),
        ("launch_slowdown", "1", 62, 41),
    ]


def test_model_chunks_of_one_stage_take_turns() -> None:
    """Two stages of two chunks. The first has nothing to receive, the last nothing to send, and nobody noted that."""
    ops: list[Op] = []
    at = 0

    def next_place(optype: str, stage: int) -> int:
        return sum((o.optype, o.stage) == (optype, stage) for o in ops)

    for direction, chunks, length in (("forward", (0, 1, 2, 3), 10), ("backward", (3, 2, 1, 0), 20)):
        for chunk in chunks:
            stage, optype = chunk % 2, f"{direction}-compute"
            place = next_place(optype, stage)
            ops.append(Op(0, stage, optype, place, at, length, chunk // 2, model_chunk=chunk, microbatch=0))
            at += length
            if chunk != chunks[-1]:
                for kind, where in (("send", stage), ("recv", 1 - stage)):
                    optype = f"{direction}-{kind}"
                    ops.append(Op(0, where, optype, next_place(optype, where), at, 1))
                at += 1
    con = answered(ops)
    assert at == 4 * 10 + 4 * 20 + 6 * 1 == 126
    assert rows(con, "SELECT sum(n_ops)::INT, sum(n_unpaired)::INT FROM timeline_ideals") == [(20, 0)]
    assert rows(con, "SELECT DISTINCT duration_ns, recorded_ns FROM timeline_replays") == [(126, 126)]


def test_the_first_gradients_are_asked_for_before_the_last_forward_pass_of_the_warm_up() -> None:
    """Five forward passes, then five backward ones; the stage behind gives its first gradients back long before."""
    planned: list[Op] = []

    def add(stage: int, optype: str, seq_id: int, duration: int) -> None:
        microbatch, chunk = (seq_id, stage) if optype.endswith("compute") else (None, None)
        op = Op(0, stage, optype, seq_id, len(planned), duration, model_chunk=chunk, microbatch=microbatch)
        planned.append(op)

    for n in range(5):
        add(0, "forward-compute", n, 10)
        add(0, "forward-send", n, 1)
    for n in range(5):
        add(0, "backward-recv", n, 1)
        add(0, "backward-compute", n, 10)
        add(1, "forward-recv", n, 1)
        add(1, "forward-compute", n, 10)
        add(1, "backward-compute", n, 10)
        add(1, "backward-send", n, 1)
    con = answered(recorded(graph_of(planned), [op.duration for op in planned]))
    found = rows(
        con,
        "SELECT optype, place, ideal_start_ns FROM timeline_retimed"
        " WHERE stage = 0 AND optype IN ('backward-recv', 'backward-compute') AND place < 2 ORDER BY ALL",
    )
    assert found == [
        ("backward-compute", 0, 50),  # after five forward passes
        ("backward-compute", 1, 61),  # 1 after its gradients are asked for
        ("backward-recv", 0, 40),  # after the fourth, though sent at 10 + 1 + 10 + 10 = 31
        ("backward-recv", 1, 60),  # once the pass before its own is done
    ]


def test_a_send_whose_receive_is_not_recorded_is_said() -> None:
    found = rows(
        answered([op for op in TWO_STAGES if op.optype != "forward-recv"]),
        "SELECT DISTINCT verdict FROM run_whatif WHERE value_ratio IS NOT NULL",
    )
    assert found == [("1 sends or receives without their other end",)]


def test_calls_that_never_came_to_be_are_no_part_of_the_step() -> None:
    late = 200_000  # beyond the last pass by more than recorders disagree
    ops = [*TWO_STAGES, Op(0, 1, "forward-recv", 1, late, 10**9)]
    assert rows(answered(ops), "SELECT DISTINCT recorded_ns FROM timeline_replays") == [(76,)]


def test_a_type_that_no_model_knows_changes_nothing() -> None:
    ops = [*TWO_STAGES, Op(0, 1, "data-load", 0, 0, 10**9)]
    assert run_level(answered(ops)) == run_level(answered(TWO_STAGES))


def test_ops_that_wait_for_each_other_have_no_time_and_it_is_said() -> None:
    swapped = [
        *(replace(op, start=100) if op.stage == 0 and op.optype == "forward-compute" else op for op in TWO_STAGES),
    ]
    con = answered(swapped)
    assert rows(con, "SELECT DISTINCT duration_ns FROM timeline_replays") == [(None,)]
    assert rows(con, "SELECT DISTINCT ideal_end_ns FROM timeline_retimed WHERE optype = 'backward-compute'") == [
        (None,)
    ]
    assert rows(con, "SELECT value_ratio, verdict FROM run_whatif WHERE measure = 'score' AND group_key = '0'") == [
        (None, "n/a: nothing is slower than ideal; 1 of 1 steps have ops that wait for each other in a circle")
    ]


def test_of_alike_replicas_no_more_than_two_are_replayed() -> None:
    ops = pipeline(6, 2, 3, lambda op: 5 + op.dp_rank)
    con = answered(ops)
    lanes = rows(
        con,
        "SELECT DISTINCT dimension, group_key, list_sort(list(dp_rank)), list_sort(list(body_dp_rank)) FROM lanes_False"
        " WHERE group_key IN ('0', '4', 'optimizer', 'forward-compute') AND dimension <> 'stage'"
        " GROUP BY dimension, group_key ORDER BY ALL",
    )
    everyone = list(range(6))
    assert lanes == [
        ("dp_rank", "0", [0, 1], [0, 1]),
        ("dp_rank", "4", [0, 4], [0, 4]),
        ("op_type", "forward-compute", everyone, everyone),
        ("op_type", "optimizer", everyone, [0] * 6),  # all passes are ideal: those of one replica do
    ]


@st.composite
def timelines(draw: st.DrawFn) -> list[Op]:
    n_dp, n_stages, n_microbatches = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 400), min_size=1, max_size=17))
    n_steps, tail = draw(st.integers(1, 2)), draw(st.sampled_from(TAILS))
    gap = draw(st.integers(0, 1))
    ops: list[Op] = []
    for step in range(n_steps):
        numbers = itertools.count(step)

        def takes(op: Op, numbers: Iterator[int] = numbers) -> int:
            return lengths[next(numbers) * 7 % len(lengths)]

        ops += pipeline(n_dp, n_stages, n_microbatches, takes, step=step, tail=tail)
    return [replace(op, start=op.start + gap * (op.start > 100) * 50) for op in ops]


@given(timelines())
@settings(max_examples=40, deadline=None)
def test_every_scenario_of_any_pipeline_takes_what_a_plain_replay_takes(ops: list[Op]) -> None:
    con = answered(ops)
    steps = sorted({op.step for op in ops})
    graphs = {step: graph_of([op for op in ops if op.step == step]) for step in steps}
    ideal = typical(list(graphs.values()))
    n_stages = max(op.stage for op in ops) + 1
    slowest = {rank for (rank,) in rows(con, "SELECT rank FROM timeline_workers WHERE is_slowest")}
    assert dict(rows(con, "SELECT optype, ideal_ns FROM timeline_ideals")) == ideal

    def member(dimension: str | None, key: str | None) -> Callable[[Op], bool]:
        if dimension == "worker":
            return lambda op: op.dp_rank * n_stages + op.stage in slowest
        if dimension == "op_type":
            return lambda op: op.group == key
        return lambda op: dimension is not None and str(getattr(op, dimension)) == key

    found = rows(con, "SELECT change, dimension, group_key, step, duration_ns FROM timeline_replays ORDER BY ALL")
    assert len(found) >= 7 * len(steps)
    for change, dimension, key, step, duration_ns in found:
        belongs = member(dimension, key)

        def keeps(op: Op, change: str = change, belongs: Callable[[Op], bool] = belongs) -> bool:
            return change == "retimed" or (change != "ideal" and belongs(op) == (change == "only"))

        assert duration_ns == step_time(graphs[step], ideal, keeps), (change, dimension, key, step)


@pytest.mark.parametrize(("n_dp", "n_stages", "n_microbatches"), [(1, 1, 1), (2, 3, 5), (3, 2, 2)])
def test_a_step_without_gaps_is_retimed_to_what_was_recorded(n_dp: int, n_stages: int, n_microbatches: int) -> None:
    ops = pipeline(n_dp, n_stages, n_microbatches, lambda op: 3 + 7 * op.stage + 5 * op.dp_rank + op.seq_id)
    found = rows(answered(ops), "SELECT duration_ns, recorded_ns FROM timeline_replays WHERE change = 'retimed'")
    assert found == [(max(op.end for op in ops), max(op.end for op in ops))]
