"""The parts of a rank's breakdown, each on a few intervals: unions at edges, gaps, waits, and what lies beside."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer

COMPUTE, COMM, COPY = 0, 1, 2


def windows(*bounds: tuple[int, int]) -> list[Row]:
    """Return windows of steps 1, 2, and so on."""
    return [{"step": n, "start_ns": start, "end_ns": end} for n, (start, end) in enumerate(bounds, 1)]


@pytest.mark.parametrize(
    ("bounds", "start", "end", "pieces"),
    [
        # It ends as the third window begins, so it runs in two.
        ([(0, 100), (100, 200), (200, 300)], 50, 200, [(1, 50, 100, 50), (2, 100, 200, 100)]),
        ([(0, 100), (100, 200), (200, 300)], 50, 201, [(1, 50, 100, 50), (2, 100, 200, 100), (3, 200, 201, 1)]),
        # A step that launched nothing has a window without length: it holds nothing, and is no bound of its own.
        ([(0, 180), (180, 180)], 100, 200, [(1, 100, 180, 80), (None, 180, 200, 20)]),
        ([(0, 180), (180, 180), (180, 300)], 100, 200, [(1, 100, 180, 80), (3, 180, 200, 20)]),
        ([(150, 150)], 100, 200, [(None, 100, 200, 100)]),
    ],
)
def test_an_activity_is_cut_where_windows_begin_and_end(
    bounds: list[tuple[int, int]], start: int, end: int, pieces: list[tuple[int | None, int, int, int]]
) -> None:
    kernel = {
        "activity_no": 0, "precedence": COMPUTE, "start_ns": start, "end_ns": end, "compute_ns": end - start,
        "comm_ns": 0, "copy_ns": 0,
    }  # fmt: skip
    found = answer("_exclusive", "step, start_ns, end_ns, exclusive_ns", _windows=windows(*bounds), _coverage=[kernel])
    assert found == sorted(pieces, key=lambda piece: (piece[0] is None, piece))


def test_before_each_edge_lies_what_has_run_by_then() -> None:
    # GIVEN a copy from 0 to 50 without a launch and one 1 to 8, both begun before the first edge, compute 5 to 12, a
    # third copy 10 to 20 and comm 11 to 30; each row says what it adds to the unions.
    none: Row = {"compute_ns": 0, "comm_ns": 0, "copy_ns": 0, "work_ns": 0, "busy_ns": 0, "launch_ns": 0}
    activities: list[Row] = [
        {**none, "precedence": COPY, "start_ns": 0, "end_ns": 50, "copy_ns": 50, "busy_ns": 50, "launch_ns": None},
        {**none, "precedence": COPY, "start_ns": 1, "end_ns": 8},
        {**none, "precedence": COMPUTE, "start_ns": 5, "end_ns": 12, "compute_ns": 7, "work_ns": 7},
        {**none, "precedence": COPY, "start_ns": 10, "end_ns": 20},
        {**none, "precedence": COMM, "start_ns": 11, "end_ns": 30, "comm_ns": 19, "work_ns": 18},
    ]
    edges = [{"edge_no": n, "edge_ns": at} for n, at in enumerate((2, 10, 15, 100))]
    # compute, comm, copy, compute or comm, anything; activities, and those without a launch
    assert answer("_covered", _coverage=activities, _edges=edges) == [
        (2, 0, 0, 2, 0, 2, 2, 1),
        (10, 5, 0, 10, 5, 10, 3, 1),
        (15, 7, 4, 15, 10, 15, 5, 1),
        (100, 7, 19, 50, 25, 50, 5, 1),
    ]


@pytest.mark.parametrize(
    ("launch", "length", "host_ns", "cause"),
    [
        (999, 5_000, 0, "turnaround"),
        (999, 5_001, 0, "launch"),  # longer than the device's own pace
        (1_000, 5_000, 0, "launch"),  # launched as the device ran dry
        (1_001, 5_000, 1, "launch"),
        (7_000, 5_000, 5_000, "launch"),  # a launch after its kernel: clocks of host and device differ
        (None, 5_000, 0, "other"),
    ],
)
def test_a_gap_between_activities_is_the_hosts_up_to_the_launch_then_the_devices(
    launch: int | None, length: int, host_ns: int, cause: str
) -> None:
    start = 1_000 + length
    first = {"start_ns": 0, "end_ns": 1_000, "launch_ns": 0, "launch_thread": 1}
    second = {"start_ns": start, "end_ns": 9_000, "launch_ns": launch, "launch_thread": 2, "idle_from_ns": 1_000}
    edges = [{"edge_no": 0, "edge_ns": 0}, {"edge_no": 1, "edge_ns": 9_000}]
    found = answer("_gaps", _coverage=[first, second], _edges=edges, params=[{"turnaround_ns": 5_000}])
    assert found == [(1_000, 1_000 + host_ns, start, 0, 2, cause)]


def test_a_recording_without_activities_is_one_gap_per_step_that_nothing_explains() -> None:
    edges = [{"edge_no": n, "edge_ns": at} for n, at in enumerate((0, 100, 250))]
    assert answer("_gaps", _edges=edges, params=[{"turnaround_ns": 5_000}]) == [
        (0, 0, 100, 0, None, "other"),
        (100, 100, 250, 1, None, "other"),
    ]


def ranged(category: str, name: str, start: int, duration: int | None, thread: int | None = 1) -> Row:
    return {"category": category, "name": name, "start_ns": start, "duration_ns": duration, "thread": thread}


def test_a_thread_waits_in_finished_input_ranges_and_blocking_calls_alone() -> None:
    # GIVEN two input ranges from 50, to 60 and 80; their like on the device's timeline; an operator named as a blocking
    # call is; and a range and a call that did not finish.
    events = [
        ranged("annotation", "dataloader", 5, None),
        ranged("annotation", "dataloader", 10, 20),
        ranged("gpu_annotation", "dataloader", 12, 30),
        ranged("annotation", "dataloader", 50, 10),
        ranged("cpu_op", "get_batch", 50, 30),
        ranged("runtime", "cudaMalloc", 90, 5),
        ranged("cpu_op", "cudaMalloc", 100, 10),
        ranged("driver", "cuStreamSynchronize", 120, None),
    ]
    # latest end and union of input, latest end and union of all
    assert answer("_host_waits", events=events) == [
        (1, 10, 30, 20, 30, 20),
        (1, 50, 80, 50, 80, 50),
        (1, 90, 80, 50, 95, 55),
    ]


def test_comm_hides_the_host_where_it_launches_compute_after_the_compute_before() -> None:
    # GIVEN comm from 0 to 400. Step 1's compute is launched as that before it ends, step 2's 50 later, of which the
    # thread waits for 10; step 3's 30 later, but it starts before its launch: clocks of host and device differ.
    def compute(step: int | None, own_from: int | None, launch: int, start: int) -> Row:
        return {
            "precedence": COMPUTE, "step": step, "own_from_ns": own_from, "launch_ns": launch, "start_ns": start,
            "launch_thread": 1,
        }  # fmt: skip

    found = answer(
        "_starved",
        _coverage=[
            compute(1, None, 5, 10),
            compute(1, 100, 100, 110),
            compute(2, 200, 250, 260),
            compute(3, 300, 330, 320),
            compute(None, 350, 380, 390),
        ],
        _cover=[{"at_ns": 0, "work_end_ns": 400, "work_sum_ns": 400}],
        _host_waits=[{"thread": 1, "start_ns": 240, "waits_end_ns": 260, "waits_sum_ns": 20}],
    )
    # The wait is from 240 to 260, so half of it lies before step 2's launch, and all of it before step 3's gap.
    assert found == [(2, 40), (3, 20)]


def test_what_is_no_training_is_the_union_of_its_annotations_within_each_window() -> None:
    # GIVEN windows of 100 each from 100. A checkpoint before the first, and warm-up after the last, only touch them; an
    # operator named as an annotation is, and annotations whose time is not believed, count for nothing.
    def annotation(name: str, start: int, duration: int, category: str = "annotation") -> Row:
        return {"category": category, "name": name, "start_ns": start, "duration_ns": duration}

    found = answer(
        "rank_step_classes",
        context=[{"rank": 3}],
        rank_windows=windows((100, 200), (200, 300)),
        params=[{"longest_event_ns": 1_000}],
        events=[
            annotation("write_ckpt", 50, 50),
            annotation("eval b", 100, 30),
            annotation("eval a", 130, 30),
            annotation("eval c", 150, 20),
            annotation("eval a", 180, 10, "cpu_op"),
            annotation("save_checkpoint, then eval", 200, 50),
            annotation("warmup", 300, 20),
            annotation("warmup", 290, -50),
            annotation("warmup", -900, 1_100),
        ],
    )
    assert found == [
        (3, 1, "evaluation", "eval a", 70),  # as long as eval b, and before it in the alphabet
        (3, 2, "checkpoint", "save_checkpoint, then eval", 50),  # what it says first in the table of classes
    ]


def contention(*calls: tuple[int, int, int, list[int] | None]) -> list[tuple[Any, ...]]:
    """Return one kernel's calls beside comm, alone and compared, and its contention. A call: kind, start, end, grid."""
    return answer(
        "kernel_contention",
        "n_beside, beside_ns, n_alone, alone_ns, n_compared, contention_ns",
        context=[{"rank": 0}],
        _activities=[
            {"activity_no": n, "step": 1, "precedence": kind, "start_ns": start, "end_ns": end}
            for n, (kind, start, end, _) in enumerate(calls)
        ],
        events=[{"kind": "any", "name": "comm" if kind else "gemm", "grid": grid} for kind, _, _, grid in calls],
    )


def test_a_call_is_beside_comm_where_the_longest_of_those_begun_still_runs() -> None:
    calls = (COMM, 0, 20, None), (COMM, 0, 50, None), (COMPUTE, 30, 40, [1]), (COMPUTE, 50, 62, [1])
    assert contention(*calls) == [(1, 10, 1, 12, 1, -2)]


def test_a_call_beside_comm_is_compared_with_calls_of_its_own_grid_alone() -> None:
    calls = (COMM, 0, 50, None), (COMPUTE, 30, 40, [1]), (COMPUTE, 50, 62, [2])
    assert contention(*calls) == [(1, 10, 1, 12, 0, None)]
    # With one of each kind of grid the other says nothing.
    assert contention(*calls, (COMPUTE, 70, 79, [1])) == [(1, 10, 2, 21, 1, 1)]
