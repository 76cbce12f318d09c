"""Windows, breakdown and idle causes of one rank, on rows a person can check by eye."""

import duckdb

from evaluation import analyzed, annotation, copy, kernel, launch_call, link, operator, rows, step

COMM = {"comm_op": "allreduce", "name": "ncclDevKernel_AllReduce"}


def test_steady_windows_run_from_completion_to_completion() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 100),
                step(2, 100, 200),
                step(3, 200, 300),
                launch_call(10, 11),
                launch_call(110, 111),
                launch_call(210, 211),
                kernel(20, 150, launch=10),
                kernel(150, 260, launch=110),
                kernel(260, 390, launch=210),
            ]
        )
    )

    assert rows(con, "SELECT step, start_ns, end_ns, duration_ns, verdict FROM rank_windows ORDER BY step") == [
        (1, 0, 150, 150, "ok"),
        (2, 150, 260, 110, "ok"),
        (3, 260, 390, 130, "ok"),
    ]


def test_the_first_window_starts_when_earlier_work_is_done() -> None:
    # GIVEN work launched before the first marker that runs 30 into the step, and an unlinked kernel behind it on the
    # same stream, before the first kernel of the step there; one on another stream only; one after: not before.
    con = analyzed(
        link(
            [
                step(1, 100, 200),
                launch_call(90, 95),
                launch_call(120, 125),
                kernel(96, 130, launch=90, stream=7),
                kernel(130, 140, stream=7, name="unlinked_before"),
                kernel(126, 145, stream=9, name="unlinked_stream_without_launches"),
                kernel(150, 160, launch=120, stream=7),
                kernel(170, 180, stream=7, name="unlinked_after"),
            ]
        )
    )

    assert rows(con, "SELECT start_ns, end_ns, n_unlinked, n_launched, verdict FROM rank_windows") == [
        (145, 160, 0, 1, "ok"),
    ]
    assert rows(con, "SELECT start_ns, end_ns, n_activities, n_unlinked, verdict FROM rank_captures") == [
        (96, 180, 5, 3, "3 launches missing"),
    ]


def test_a_step_that_launches_nothing_ends_with_its_marker_and_never_before_the_last() -> None:
    con = analyzed(
        link([step(1, 0, 100), step(2, 100, 150), step(3, 150, 400), launch_call(10, 11), kernel(20, 180, launch=10)])
    )

    assert rows(con, "SELECT step, start_ns, end_ns, verdict FROM rank_windows ORDER BY step") == [
        (1, 0, 180, "ok"),
        (2, 180, 180, "nothing launched; zero-length window"),
        (3, 180, 400, "nothing launched"),
    ]
    assert rows(con, "SELECT idle_ns, idle_other_ns FROM rank_windows WHERE step = 3") == [(220, 220)]


def test_a_gap_in_the_numbers_starts_a_new_capture() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 100),
                step(2, 100, 200),
                step(10, 1000, 1100),
                launch_call(10, 11),
                launch_call(110, 111),
                launch_call(1010, 1011),
                kernel(20, 60, launch=10),
                kernel(120, 160, launch=110),
                kernel(1020, 1060, launch=1010),
            ]
        )
    )

    assert rows(con, "SELECT capture, step, start_ns, end_ns FROM rank_windows ORDER BY step") == [
        (0, 1, 0, 60),
        (0, 2, 60, 160),
        (1, 10, 1000, 1060),
    ]
    assert rows(con, "SELECT capture, first_step, last_step, start_ns, end_ns FROM rank_captures ORDER BY 1") == [
        (0, 1, 2, 20, 160),
        (1, 10, 10, 1020, 1060),
    ]


def test_two_dumps_of_a_rank_are_two_captures() -> None:
    con = analyzed(
        link([step(1, 0, 100), launch_call(10, 11), kernel(20, 60, launch=10)]),
        link([step(2, 1000, 1100), launch_call(1010, 1011), kernel(1020, 1060, launch=1010)]),
    )

    assert rows(con, "SELECT capture, step, duration_ns, idle_ns FROM rank_windows ORDER BY step") == [
        (0, 1, 60, 20),
        (1, 2, 60, 20),
    ]


def test_touching_nested_and_overlapping_work_counts_each_moment_once() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 1000),
                launch_call(0, 1),
                kernel(0, 100, launch=0),
                kernel(100, 200, launch=0),  # touches
                kernel(120, 180, launch=0, stream=8),  # nested
                kernel(150, 250, launch=0, stream=9),  # overlaps
                {**kernel(200, 400, launch=0, stream=10), **COMM},  # 150 beyond compute
                {**kernel(300, 420, launch=0, stream=11), **COMM},  # a second comm stream at once
                copy(410, 450, launch=0),  # 30 beyond comm
                copy(430, 440, launch=0),
                kernel(600, 1000, launch=0),
            ]
        )
    )

    assert rows(
        con,
        "SELECT duration_ns, compute_ns, comm_ns, exposed_comm_ns, overlapped_comm_ns, copy_ns, exposed_copy_ns,"
        " idle_ns FROM rank_windows",
    ) == [(1000, 250 + 400, 220, 170, 50, 40, 30, 150)]


def test_work_that_crosses_a_window_counts_in_each_for_its_own_part() -> None:
    # GIVEN comm launched by step 1 that ends it, under compute of step 2 that began before
    con = analyzed(
        link(
            [
                step(1, 0, 100),
                step(2, 100, 200),
                launch_call(0, 1),
                launch_call(110, 111),
                kernel(0, 100, launch=0),
                {**kernel(50, 150, launch=0, stream=9), **COMM},
                kernel(120, 300, launch=110),
            ]
        )
    )

    assert rows(
        con,
        "SELECT step, duration_ns, compute_ns, exposed_comm_ns, overlapped_comm_ns, idle_ns FROM rank_windows"
        " ORDER BY step",
    ) == [(1, 150, 130, 20, 80, 0), (2, 150, 150, 0, 0, 0)]


def _idle(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    (found,) = rows(
        con,
        "SELECT idle_ns, idle_input_ns, idle_sync_ns, idle_host_ns, idle_launch_ns, idle_turnaround_ns, idle_other_ns"
        " FROM rank_windows",
    )
    names = ("idle", "input", "sync", "host", "launch", "turnaround", "other")
    return {n: v for n, v in zip(names, found, strict=True) if v}


FIRST = [step(1, 0, 100_000), launch_call(0, 1), kernel(0, 10_000, launch=0)]


def test_idle_while_the_launching_thread_waits_for_input_is_input() -> None:
    loader = annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 8_000, 20_000)
    con = analyzed(link([*FIRST, loader, launch_call(22_000, 22_001), kernel(30_000, 100_000, launch=22_000)]))

    assert _idle(con) == {"idle": 20_000, "input": 10_000, "host": 2_000, "launch": 8_000}


def test_input_of_another_thread_explains_nothing() -> None:
    loader = annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 8_000, 20_000, thread=99)
    con = analyzed(link([*FIRST, loader, launch_call(30_000, 30_001), kernel(30_000, 100_000, launch=30_000)]))

    assert _idle(con) == {"idle": 20_000, "host": 20_000}


def test_idle_while_the_launching_thread_is_in_a_blocking_call_is_sync() -> None:
    calls = [
        launch_call(9_000, 15_000, name="cudaStreamSynchronize"),
        launch_call(16_000, 18_000, name="cudaMalloc"),
        launch_call(18_500, 19_000, name="cudaMemcpy"),
    ]
    con = analyzed(link([*FIRST, *calls, launch_call(30_000, 30_001), kernel(30_000, 100_000, launch=30_000)]))

    assert _idle(con) == {"idle": 20_000, "sync": 5_000 + 2_000 + 500, "host": 12_500}


def test_input_comes_before_sync_where_both_cover() -> None:
    both = [
        annotation("## wait_for_batch ##", 10_000, 14_000),
        launch_call(12_000, 16_000, name="cudaEventSynchronize"),
    ]
    con = analyzed(link([*FIRST, *both, launch_call(20_000, 20_001), kernel(20_000, 100_000, launch=20_000)]))

    assert _idle(con) == {"idle": 10_000, "input": 4_000, "sync": 2_000, "host": 4_000}


def test_idle_until_a_late_launch_is_host_and_from_it_launch() -> None:
    con = analyzed(link([*FIRST, launch_call(14_000, 15_000), kernel(16_000, 100_000, launch=14_000)]))

    assert _idle(con) == {"idle": 6_000, "host": 4_000, "launch": 2_000}


def test_a_short_gap_between_launched_work_is_turnaround_and_a_long_one_launch() -> None:
    con = analyzed(
        link(
            [
                *FIRST,
                launch_call(5_000, 5_001),
                launch_call(6_000, 6_001),
                launch_call(7_000, 7_001),
                kernel(15_000, 20_000, launch=5_000),  # 5 µs: the most that is turnaround
                kernel(25_001, 30_000, launch=6_000),  # 5.001 µs
                kernel(30_002, 100_000, launch=7_000),
            ]
        )
    )

    assert _idle(con) == {"idle": 5_000 + 5_001 + 2, "turnaround": 5_002, "launch": 5_001}


def test_idle_before_work_without_a_launch_is_other() -> None:
    con = analyzed(
        link(
            [
                *FIRST,
                kernel(13_000, 20_000, launch=None),
                launch_call(1_000, 1_001),
                kernel(20_000, 30_000, launch=1_000),
            ]
        )
    )

    assert _idle(con) == {"idle": 3_000, "other": 3_000}


def test_a_gap_across_a_window_is_split_there_and_keeps_its_causes() -> None:
    # GIVEN step 2 launches nothing and ends with its marker, in the middle of a gap
    con = analyzed(
        link(
            [
                step(1, 0, 100),
                step(2, 100, 300),
                step(3, 300, 900),
                launch_call(0, 1),
                kernel(0, 200, launch=0),
                annotation("load_batch", 250, 350),
                launch_call(400, 401),
                kernel(500, 900, launch=400),
            ]
        )
    )

    assert rows(
        con,
        "SELECT step, start_ns, end_ns, idle_ns, idle_input_ns, idle_host_ns, idle_launch_ns FROM rank_windows"
        " ORDER BY step",
    ) == [(1, 0, 200, 0, 0, 0, 0), (2, 200, 300, 100, 50, 50, 0), (3, 300, 900, 200, 50, 50, 100)]


def test_without_a_device_a_window_is_the_marker_and_idle_is_the_hosts() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 1000),
                step(2, 1010, 2000),
                operator("aten::linear", 100, 300),
                annotation("gloo:all_reduce", 250, 500, thread=2),
                annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 600, 700),
                operator("aten::add_", 800, 900),
                operator("aten::mul_", 1100, 2000),
            ]
        )
    )

    assert rows(
        con,
        "SELECT step, start_ns, end_ns, compute_ns, exposed_comm_ns, overlapped_comm_ns, idle_ns, idle_input_ns,"
        " idle_host_ns, verdict FROM rank_windows ORDER BY step",
    ) == [
        (1, 0, 1000, 300, 200, 50, 500, 100, 400, "no device: host threads are the lanes"),
        (2, 1010, 2000, 900, 0, 0, 90, 0, 90, "no device: host threads are the lanes"),
    ]


def test_kernels_share_out_the_busy_time_without_counting_a_moment_twice() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 1000),
                launch_call(0, 1),
                kernel(0, 100, launch=0, name="a"),
                kernel(50, 150, launch=0, stream=8, name="b"),
                kernel(150, 160, launch=0, name="a"),
                {**kernel(120, 300, launch=0, stream=10), **COMM},
                copy(290, 310, launch=0),
                copy(0, 5, launch=0),
            ]
        )
    )

    assert rows(
        con, "SELECT name, kind, comm_evidence, n_calls, total_ns, exposed_ns, step FROM kernels ORDER BY name"
    ) == [
        ("Memcpy DtoH", "copy", None, 2, 25, 10, 1),
        ("a", "compute", None, 2, 110, 110, 1),
        ("b", "compute", None, 1, 100, 50, 1),
        ("ncclDevKernel_AllReduce", "comm", "metadata", 1, 180, 140, 1),
    ]
    assert rows(con, "SELECT sum(exposed_ns) FROM kernels") == rows(
        con, "SELECT compute_ns + exposed_comm_ns + exposed_copy_ns FROM rank_windows"
    )
