"""Phases of training on a rank: who launched the work, and each moment of it once."""

from typing import Any

import duckdb

from evaluation import analyzed, annotation, copy, kernel, launch_call, link, operator, rows, step

COMM: dict[str, Any] = {"comm_op": "allreduce", "name": "ncclDevKernel_AllReduce"}
PHASES = "SELECT phase, gpu_ns, window_ns, n_activities FROM phases ORDER BY phase"


def test_a_phase_is_that_of_the_range_its_work_was_launched_in() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 500),
                annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 20),
                launch_call(15, 16),
                copy(15, 25, launch=15),
                launch_call(30, 31),
                kernel(40, 140, launch=30),
                operator("autograd::engine::evaluate_function: MmBackward0", 50, 90, thread=2),
                launch_call(60, 61, thread=2),
                kernel(140, 340, launch=60),
                launch_call(70, 71, thread=2),
                kernel(300, 390, stream=9, launch=70, **COMM),
                annotation("Optimizer.step#Adam.step", 100, 120),
                launch_call(110, 111),
                kernel(390, 440, launch=110),
                kernel(440, 450, name="unlinked"),
                launch_call(130, 131),
                kernel(450, 460, launch=130),
            ]
        )
    )

    # The exchange runs from 300 and alone from 340; the last kernel is launched in no range.
    assert rows(con, PHASES) == [
        ("backward", 200, 200, 1),
        ("forward", 110, 420, 2),
        ("input", 10, 10, 1),
        ("optimizer", 50, 50, 1),
        ("other", 10, 10, 1),
        ("sync", 50, 90, 1),
    ]
    assert _busy(con) == 430


def test_patterns_of_the_run_come_first_and_in_their_order() -> None:
    events = link(
        [
            step(1, 0, 500),
            annotation("Optimizer.step#Adam.step", 10, 100),
            annotation("clip", 20, 60),
            annotation("norm of clip", 30, 40),
            launch_call(15, 16),
            kernel(100, 101, launch=15),
            launch_call(25, 26),
            kernel(101, 103, launch=25),
            launch_call(35, 36),
            kernel(103, 107, launch=35),
        ]
    )

    con = analyzed(events, phases=[("norms", "^norm"), ("clipping", "clip")])

    assert rows(con, "SELECT phase, gpu_ns FROM phases ORDER BY phase") == [
        ("clipping", 2),
        ("norms", 4),
        ("optimizer", 1),
    ]


def test_work_that_runs_on_into_the_next_window_counts_in_both_and_each_moment_once() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 100),
                step(2, 100, 200),
                launch_call(10, 11),
                kernel(20, 100, launch=10),
                launch_call(120, 121),
                copy(90, 150, launch=120),
                operator("autograd::engine::evaluate_function: MmBackward0", 125, 140),
                launch_call(130, 131),
                kernel(140, 180, launch=130),
            ]
        )
    )

    # The copy starts in window 1, behind the kernel that ends it; of window 2 it alone has 100 to 140.
    assert rows(con, "SELECT step, phase, gpu_ns, window_ns, n_activities FROM phases ORDER BY step, phase") == [
        (1, "forward", 80, 80, 2),
        (2, "backward", 40, 40, 1),
        (2, "forward", 40, 50, 1),
    ]
    assert rows(con, "SELECT step, duration_ns - idle_ns FROM rank_windows ORDER BY step") == [(1, 80), (2, 80)]


def test_an_exchange_on_a_host_thread_of_its_own_is_sync() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 100),
                operator("aten::mm", 10, 40),
                operator("autograd::engine::evaluate_function: MmBackward0", 40, 80, thread=2),
                annotation("gloo:all_reduce", 60, 90, thread=3),
            ]
        )
    )

    assert rows(con, PHASES) == [("backward", 40, 40, 1), ("forward", 30, 30, 1), ("sync", 10, 30, 1)]


def test_the_exclusive_time_of_all_activities_is_the_union_even_outside_of_windows() -> None:
    con = analyzed(
        link(
            [
                step(1, 100, 200),
                launch_call(110, 111),
                kernel(10, 90),
                kernel(50, 160, stream=9, **COMM),
                kernel(120, 150, launch=110),
                copy(80, 170),
            ]
        )
    )

    # Compute 10-90 and 120-150, comm alone 90-120 and 150-160, the copy alone 160-170.
    assert rows(con, "SELECT name, sum(exposed_ns)::INT FROM kernels GROUP BY name ORDER BY name") == [
        ("Memcpy DtoH", 10),
        ("gemm", 110),
        ("ncclDevKernel_AllReduce", 40),
    ]


def _busy(con: duckdb.DuckDBPyConnection) -> int:
    ((busy,),) = rows(con, "SELECT duration_ns - idle_ns FROM rank_windows")
    return int(busy)
