"""How raw events are linked: steps by launch, kinds with their evidence, host rows by their start."""

from typing import Any

import pyarrow as pa

from evaluation import annotation, copy, kernel, launch_call, link, operator, step


def _by_name(table: pa.Table, *columns: str) -> dict[str, tuple[Any, ...]]:
    return {r["name"]: tuple(r[c] for c in columns) for r in table.to_pylist()}


def test_device_work_belongs_to_the_step_that_launched_it_whatever_its_own_time() -> None:
    events = link(
        [
            step(1, 100, 200),
            step(2, 200, 300),
            launch_call(150, 155),
            launch_call(250, 255),
            kernel(260, 400, launch=150, name="late"),
            kernel(400, 410, launch=250, name="in_two"),
            kernel(105, 108, launch=None, name="unlinked"),
        ]
    )

    assert _by_name(events, "step", "launch_ns", "launch_end_ns", "launch_thread")["late"] == (1, 150, 155, 1)
    assert _by_name(events, "step", "launch_ns")["in_two"] == (2, 250)
    assert _by_name(events, "step", "launch_ns", "kind")["unlinked"] == (None, None, "compute")


def test_a_launch_between_steps_is_in_no_step() -> None:
    events = link([step(1, 100, 200), step(2, 220, 300), launch_call(210, 212), kernel(230, 240, launch=210)])

    assert _by_name(events, "step")["gemm"] == (None,)


def test_a_marker_that_starts_where_the_step_before_it_ends_or_takes_no_time_is_of_its_own_step() -> None:
    events = link([step(1, 0, 100), step(2, 100, 100), step(3, 100, 200), step(4, 200, 200)])

    assert _by_name(events, "step") == {f"ProfilerStep#{number}": (number,) for number in range(1, 5)}


def test_one_graph_launch_owns_all_its_kernels() -> None:
    events = link(
        [
            step(5, 0, 100),
            launch_call(10, 20, name="cudaGraphLaunch"),
            kernel(30, 40, launch=10, name="a"),
            kernel(40, 50, launch=10, name="b"),
            kernel(150, 160, launch=10, name="c"),
        ]
    )

    assert [_by_name(events, "step")[n] for n in "abc"] == [(5,), (5,), (5,)]


def test_the_outer_of_two_calls_with_one_correlation_is_the_launch() -> None:
    events = link(
        [
            step(1, 0, 100),
            launch_call(10, 20),
            {**launch_call(12, 18, name="cuLaunchKernel"), "category": "driver", "correlation_id": 10},
            kernel(30, 40, launch=10),
        ]
    )

    assert _by_name(events, "launch_ns", "launch_end_ns")["gemm"] == (10, 20)


def test_the_time_base_is_added_to_every_time() -> None:
    events = link([step(1, 0, 100), launch_call(10, 20), kernel(30, 40, launch=10)], base_ns=1_000_000)

    assert _by_name(events, "start_ns", "duration_ns", "launch_ns")["gemm"] == (1_000_030, 10, 1_000_010)


def test_a_kernel_is_comm_by_metadata_by_operator_or_by_name_and_says_which() -> None:
    events = link(
        [
            step(1, 0, 1000),
            operator("record_param_comms", 100, 200),
            operator("c10d::allreduce_", 300, 400),
            annotation("nccl:all_reduce", 500, 600),
            launch_call(150, 155),
            launch_call(350, 355),
            launch_call(550, 555),
            launch_call(700, 705),
            kernel(160, 170, launch=150, name="under_record"),
            kernel(360, 370, launch=350, name="under_c10d"),
            kernel(560, 570, launch=550, name="under_nccl"),
            kernel(710, 720, launch=700, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"),
            kernel(730, 740, name="ncclDevKernel_AllGather", comm_op="allgather"),
            kernel(750, 760, name="plain", launch=700),
        ]
    )

    found = _by_name(events, "kind", "comm_evidence")
    assert found["under_record"] == ("comm", "operator")
    assert found["under_c10d"] == ("comm", "operator")
    assert found["under_nccl"] == ("comm", "operator")
    assert found["ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"] == ("comm", "name")
    assert found["ncclDevKernel_AllGather"] == ("comm", "metadata")
    assert found["plain"] == ("compute", None)


def test_every_library_of_the_pattern_table_is_recognised_and_gemms_are_not() -> None:
    comm = [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "void (anonymous namespace)::dpsk::ep::internode::dispatch",
        "void deep_ep::intranode::combine<__nv_bfloat16>",
        "void vllm::cross_device_reduce_1stage<__half, 8>",
        "void c10d::symmetric_memory::multimem_one_shot_all_reduce_kernel",
        "nvshmemi_put_kernel",
    ]
    compute = [
        "ampere_bf16_s16816gemm_bf16_128x64",
        "triton_red_fused_sum",
        "void at::native::reduce_kernel<512>",
        "recv_x",
    ]
    events = link([step(1, 0, 9999), *(kernel(i, i + 1, name=n) for i, n in enumerate(comm + compute))])

    kinds = _by_name(events, "kind")
    assert {n: kinds[n] for n in comm} == {n: ("comm",) for n in comm}
    assert {n: kinds[n] for n in compute} == {n: ("compute",) for n in compute}


def test_wait_is_no_collective() -> None:
    events = link(
        [
            step(1, 0, 1000),
            operator("record_param_comms", 100, 200, comm_op="wait"),
            operator("c10d::wait_tensor", 300, 400),
            launch_call(150, 155),
            launch_call(350, 355),
            kernel(160, 170, launch=150, name="a"),
            kernel(360, 370, launch=350, name="b"),
            kernel(400, 410, name="c", comm_op="wait"),
        ]
    )

    assert [_by_name(events, "kind")[n] for n in "abc"] == [("compute",)] * 3


def test_a_copy_launched_by_a_collective_is_a_copy() -> None:
    events = link([step(1, 0, 999), operator("c10d::gather_", 10, 90), launch_call(20, 25), copy(30, 40, launch=20)])

    assert _by_name(events, "kind", "comm_evidence")["Memcpy DtoH"] == ("copy", None)


def test_an_operator_with_a_stream_is_no_device_work() -> None:
    events = link([step(1, 0, 100), operator("triton_poi_fused", 10, 20, stream=0), kernel(30, 40)])

    assert _by_name(events, "kind", "step")["triton_poi_fused"] == (None, 1)


def test_impossible_times_occupy_nothing() -> None:
    week = 7 * 24 * 3600 * 10**9
    events = link(
        [
            step(1, 0, 100),
            kernel(-5, 5, name="negative"),
            {**kernel(10, 10, name="unfinished"), "duration_ns": None},
            kernel(10, 11 + week, name="a_week_and_more"),
            kernel(10, 10, name="empty"),
        ]
    )

    found = _by_name(events, "kind")
    assert found["negative"] == found["unfinished"] == found["a_week_and_more"] == (None,)
    assert found["empty"] == ("compute",)


def test_a_dump_without_markers_is_one_window_and_says_so() -> None:
    events = link([launch_call(50, 60), kernel(70, 90, launch=50), operator("aten::mm", 40, 65)])

    assert _by_name(events, "category", "start_ns", "duration_ns", "step")["(window)"] == ("step", 40, 50, 0)
    assert _by_name(events, "step")["gemm"] == (0,)


def test_a_users_own_marker_counts_steps() -> None:
    events = link([annotation("iteration 7", 0, 100), launch_call(10, 20), kernel(30, 40, launch=10)],
                  step_pattern=r"^iteration (\d+)")  # fmt: skip

    assert _by_name(events, "step", "category")["iteration 7"] == (7, "step")
    assert _by_name(events, "step")["gemm"] == (7,)


def test_without_a_device_outermost_operators_compute_and_spans_communicate() -> None:
    events = link(
        [
            step(1, 0, 1000),
            operator("aten::linear", 100, 200),
            operator("aten::addmm", 110, 190),
            operator("c10d::allreduce_", 300, 310),
            operator("aten::inside_post", 302, 305),
            annotation("gloo:all_reduce", 320, 500, thread=2),
            operator("aten::add_", 200, 220),
            operator("aten::backward", 350, 400, thread=3),
        ]
    )

    kinds = {n: k for n, (k,) in _by_name(events, "kind").items() if k}
    assert kinds == {"aten::linear": "compute", "aten::add_": "compute", "aten::backward": "compute",
                     "gloo:all_reduce": "comm"}  # fmt: skip
