"""FLOPs, bytes and the four clocks of hand-made rows, worked out by hand beside each."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, analyzed, connection, copy, kernel, launch_call, link, operator, rows, step
from longpole import catalog

BF16 = "c10::BFloat16"
H100 = "NVIDIA H100 80GB HBM3"


def work(name: str, inputs: str) -> tuple[str, str | None, int | None, int | None]:
    """Return class, element type, FLOPs and bytes of one call."""
    con = connection()
    con.execute(
        "CREATE TABLE events AS SELECT $1::VARCHAR AS name, $2::VARCHAR AS inputs, 1 AS duration_ns", [name, inputs]
    )
    for relation in catalog.leading_to(["_operator_work"], {"events", *catalog.data_names()}):
        con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
    found = rows(con, "SELECT kernel_class, dtype, flops, n_bytes FROM _operator_work")
    return found[0] if found else ("none", None, None, None)


def call(shapes: str, types: str, values: str = "") -> str:
    return f"{shapes}|{types}|{values}"


@pytest.mark.parametrize(
    ("name", "inputs", "flops", "n_bytes"),
    [
        # 2 x 8192 x 8192 x 28672 = 3.85e12; 2 bytes x (8192 x 8192 + 2 x 8192 x 28672) = 1.074e9
        ("aten::mm", call("[[8192,8192],[8192,28672]]", f"{BF16};{BF16}"), 3_848_290_697_216, 1_073_741_824),
        # with its output given, that is counted once: 2 x 2 x 3 x 4; 4 x (6 + 12 + 8)
        ("aten::mm", call("[[2,3],[3,4],[2,4]]", "float;float;float"), 48, 104),
        # bias 4, 2 x 3, 3 x 4 -> 2 x 4
        ("aten::addmm", call("[[4],[2,3],[3,4],[],[]]", "float;float;float;Scalar;Scalar"), 48, 120),
        # 2 x 5 x 2 x 3 x 4; 4 x (30 + 60 + 40)
        ("aten::bmm", call("[[5,2,3],[5,3,4]]", "float;float"), 240, 520),
        ("aten::baddbmm", call("[[5,2,4],[5,2,3],[5,3,4],[],[]]", "float;float;float;Scalar;Scalar"), 240, 680),
        # 7 x 2 rows of 3 by 4 x 3
        ("aten::linear", call("[[7,2,3],[4,3],[4]]", f"{BF16};{BF16};{BF16}"), 336, 228),
        ("aten::matmul", call("[[5,2,3],[5,3,4]]", "float;float"), 240, 520),
        # 8-bit operands, 16-bit output (ScalarType 15): 8 + 12 + 2 x 6, and two scales of 4 that have no size
        (
            "aten::_scaled_mm",
            call(
                "[[2,4],[4,3],[],[],[],[],[],[]]",
                "c10::Float8_e4m3fn;c10::Float8_e4m3fn;float;float;;;Scalar;Scalar",
                ";;;;;;15;False",
            ),
            48,
            32,
        ),
        # 10 tokens in all over 3 experts of 4 x 5
        ("aten::_grouped_mm", call("[[10,4],[3,4,5],[3]]", f"{BF16};{BF16};int"), 400, 312),
        # 14 x 14, stride 2, padding 1, 3 x 3 -> 7 x 7: 2 x 10 x 49 x 512 x 256 x 9
        (
            "aten::_convolution",
            call(
                "[[10,256,14,14],[512,256,3,3],[],[],[],[],[],[],[]]",
                f"{BF16};{BF16};;ScalarList;ScalarList;ScalarList;Scalar;ScalarList;Scalar",
                ";;;[2, 2];[1, 1];[1, 1];False;[0, 0];1",
            ),
            1_156_055_040,
            3_864_576,
        ),
        # transposed, 3 -> 5 channels, 2 x 2: each of 4 x 4 places of the input meets the whole weight
        (
            "aten::convolution",
            call(
                "[[1,3,4,4],[3,5,2,2],[],[],[],[],[],[],[]]",
                "float;float;;ScalarList;ScalarList;ScalarList;Scalar;ScalarList;Scalar",
                ";;;[2, 2];[0, 0];[1, 1];True;[0, 0];1",
            ),
            1_920,
            None,
        ),
        # both gradients; the input's alone is half
        (
            "aten::convolution_backward",
            call(
                "[[10,512,7,7],[10,512,7,7],[512,512,3,3],[],[],[],[],[],[],[],[]]",
                f"{BF16};{BF16};{BF16};ScalarList;ScalarList;ScalarList;ScalarList;Scalar;ScalarList;Scalar;ScalarList",
                ";;;[0];[1, 1];[1, 1];[1, 1];False;[0, 0];1;[True, True, False]",
            ),
            4_624_220_160,
            10_942_464,
        ),
        # batch 1, 8 heads, 141 x 141 scores, width 64: 2 x 8 x 141^2 x (64 + 64), no causal half
        (
            "aten::_scaled_dot_product_flash_attention",
            call(
                "[[1,8,141,64],[1,8,141,64],[1,8,141,64],[],[],[],[]]",
                f"{BF16};{BF16};{BF16};Scalar;Scalar;Scalar;Scalar",
            ),
            40_716_288,
            577_536,
        ),
        # the same by row
        (
            "aten::_flash_attention_forward",
            call("[[1,141,8,64],[1,141,8,64],[1,141,8,64]]", f"{BF16};{BF16};{BF16}"),
            40_716_288,
            577_536,
        ),
        # backward: five products, 2 x 8 x 141^2 x (3 x 64 + 2 x 64)
        (
            "aten::_scaled_dot_product_efficient_attention_backward",
            call("[[1,8,141,64],[1,8,141,64],[1,8,141,64],[1,8,141,64]]", f"{BF16};{BF16};{BF16};{BF16}"),
            101_790_720,
            1_010_688,
        ),
        # no FLOPs: 32 + 8 read, 32 written, of 4 bytes
        ("aten::add", call("[[4,8],[8],[]]", "float;float;Scalar"), None, 288),
        # from 4 to 2 bytes: both are arguments
        ("aten::copy_", call("[[8],[8],[]]", f"{BF16};float;Scalar"), None, 48),
        ("triton_poi_fused_add_0", call("[[8],[8],[]]", f"{BF16};float;Scalar"), None, 48),
    ],
)
def test_work_of_an_operator(name: str, inputs: str, flops: int | None, n_bytes: int | None) -> None:
    assert work(name, inputs)[2:] == (flops, n_bytes)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("aten::mm", call("[[8,9],[8,8]]", "float;float")),  # the inner sizes differ
        ("aten::mm", call("[[8,8]]", "float")),
        ("aten::mm", call("[[-3,9223372036854775807],[9223372036854775807,9223372036854775807]]", "float;float")),
        ("aten::mm", call("[[[8,8],[8,8]],[8,8]]", "TensorList;float")),
        ("aten::mm", "rubbish"),
        ("aten::mm", "||"),
        ("aten::_convolution", call("[[10,3,14,14],[5,3,3,3]]", "float;float")),  # values are not recorded
        ("aten::_convolution", call("[[1,3,4,4],[5,3,3,3]]", "float;float", ";;;[0, 0];[1, 1];[1, 1];False")),
        ("aten::_flash_attention_forward", call("[[282,8,64],[282,8,64],[282,8,64]]", "float;float;float")),  # packed
    ],
)
def test_what_shapes_do_not_say_is_null(name: str, inputs: str) -> None:
    assert work(name, inputs)[2:] == (None, None)


def test_unknown_types_leave_flops_without_bytes_or_type() -> None:
    assert work("aten::mm", call("[[2,3],[3,4]]", ";")) == ("gemm", None, 48, None)
    assert work("aten::relu", call("[[2,3]]", "TensorList")) == ("other", None, None, None)
    assert work("aten::view", call("[[2,3]]", "float")) == ("none", None, None, None)


MM = call("[[8192,8192],[8192,28672]]", f"{BF16};{BF16}")
"""3,848,290,697,216 FLOPs are 3,891,092 ns at 989 TFLOP/s; 1,073,741,824 bytes are 320,520 ns at 3.35 TB/s."""


def product(start: int, *, name: str = "aten::mm", inputs: str | None = MM, **more: Any) -> list[Row]:
    """Return an operator of 1,000 ns and its launch of 10 ns in the middle."""
    return [
        operator(name, start, start + 1_000, inputs=inputs, **more),
        launch_call(start + 500, start + 510, thread=more.get("thread", 1)),
    ]


def test_clocks_of_one_product() -> None:
    con = analyzed(link([step(1, 0, 10_000), *product(100), kernel(2_000, 5_002_000, launch=600)]), device=H100)
    assert rows(con, "SELECT flops, n_bytes, clock FROM kernels") == [(3_848_290_697_216, 1_073_741_824, "compute")]
    assert rows(
        con,
        "SELECT kernel_class, compute_ns, memory_ns, comm_ns, overhead_ns, clock, overlapped_ns, serial_ns,"
        " round(flops_per_s / 1e12, 1), round(bound_flops_per_s / 1e12), round(bytes_per_s / 1e9, 1), shaped_ratio,"
        " reason FROM kernel_clocks",
    ) == [("gemm", 3_891_093, 320_520, None, 10, "compute", 3_891_093, 4_211_623, 769.7, 989, 214.7, 1.0, None)]
    assert rows(con, "SELECT clock, overlapped_ns, serial_ns, duration_ns, reason FROM step_clocks") == [
        ("compute", 3_891_093, 4_211_623, 5_002_000, None)
    ]
    assert rows(con, "SELECT flops, recomputed_flops, n_bytes, n_launches, launch_ns, shaped_ratio FROM rank_work") == [
        (3_848_290_697_216, 0, 1_073_741_824, 1, 10, 1.0)
    ]


def test_an_operator_counts_once_however_many_kernels_it_launches_and_however_it_is_wrapped() -> None:
    events = [
        step(1, 0, 10_000),
        operator("aten::linear", 100, 1_300, inputs=call("[[8192,8192],[28672,8192]]", f"{BF16};{BF16}")),
        operator("aten::matmul", 110, 1_290, inputs=MM),
        operator("aten::mm", 120, 1_280, inputs=MM),
        operator("aten::copy_", 130, 200, inputs=call("[[8],[8]]", "float;float")),
        launch_call(150, 160),
        launch_call(500, 510),
        launch_call(600, 610),
        kernel(2_000, 3_000, name="convert", launch=150),
        kernel(3_000, 5_003_000, name="gemm", launch=500),
        kernel(5_003_000, 5_004_000, name="splitK_reduce", launch=600),
    ]
    con = analyzed(link(events), device=H100)
    assert rows(con, "SELECT name, flops, n_bytes FROM kernels ORDER BY name") == [
        ("convert", None, None),
        ("gemm", 3_848_290_697_216, 1_073_741_824),
        ("splitK_reduce", None, None),
    ]
    assert rows(con, "SELECT kernel_class, n_calls, flops FROM kernel_clocks") == [("gemm", 3, 3_848_290_697_216)]


def test_without_shapes_there_are_times_and_a_reason() -> None:
    con = analyzed(
        link([step(1, 0, 10_000), *product(100, inputs=None), kernel(2_000, 3_000, launch=600)]), device=H100
    )
    assert rows(con, "SELECT flops, n_bytes, clock FROM kernels") == [(None, None, None)]
    assert rows(con, "SELECT kernel_class, total_ns, compute_ns, overhead_ns, clock, reason FROM kernel_clocks") == [
        ("gemm", 1_000, None, 10, None, "0 % of compute time has shapes")
    ]
    assert rows(con, "SELECT flops, recomputed_flops, shaped_ratio FROM rank_work") == [(None, None, 0.0)]


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (None, "no dump names the device"),
        ("Abacus 9000", "no bf16 peak of Abacus 9000 is known; memory bandwidth of Abacus 9000 is not known"),
    ],
)
def test_an_unknown_device_has_no_clocks(device: str | None, reason: str) -> None:
    con = analyzed(link([step(1, 0, 10_000), *product(100), kernel(2_000, 5_002_000, launch=600)]), device=device)
    assert rows(
        con,
        "SELECT flops, compute_ns, clock, overlapped_ns, serial_ns, reason"
        " FROM step_clocks JOIN rank_work USING (rank, step)",
    ) == [(3_848_290_697_216, None, None, None, None, reason)]


def test_work_faster_than_the_device_is_refused() -> None:
    con = analyzed(link([step(1, 0, 10_000), *product(100), kernel(2_000, 3_002_000, launch=600)]), device=H100)
    assert rows(con, "SELECT compute_ns, clock, reason FROM kernel_clocks") == [
        (None, None, "faster than H100 SXM can: its shapes or the device are wrong")
    ]


def test_copies_and_collectives_run_by_their_own_clocks() -> None:
    collective: dict[str, Any] = {
        "comm_op": "allreduce", "comm_dtype": "BFloat16", "comm_in_elements": 450_000, "comm_out_elements": 450_000,
        "comm_group": "0", "comm_group_size": 4, "comm_seq": 1,
    }  # fmt: skip
    events = [
        step(1, 0, 10_000),
        launch_call(100, 110),
        launch_call(200, 210),
        {**copy(1_000, 3_000, launch=100), "n_bytes": 3_350_000},
        kernel(3_000, 9_000, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL", launch=200, **collective),
    ]
    con = analyzed(link(events), device=H100)
    # 900,000 bytes x 2 x 3 / 4 = 1,350,000 over 450 GB/s = 3,000 ns; 3,350,000 bytes over 3.35 TB/s = 1,000 ns
    assert rows(con, "SELECT kernel_class, n_bytes, memory_ns, comm_ns, clock FROM kernel_clocks ORDER BY 1") == [
        ("comm", 1_350_000, None, 3_000, "comm"),
        ("copy", 3_350_000, 1_000, None, "memory"),
    ]
    assert rows(con, "SELECT compute_ns, memory_ns, comm_ns, overhead_ns, clock, serial_ns FROM step_clocks") == [
        (None, 1_000, 3_000, 20, "comm", 4_020)
    ]


@pytest.mark.parametrize(("unknown_ns", "share", "clock"), [(2_000_000, 71, "compute"), (4_000_000, 56, None)])
def test_a_clock_is_named_where_it_leads_by_more_than_what_is_unknown_took(
    unknown_ns: int, share: int, clock: str | None
) -> None:
    """Compute is 3,891,093 ns at least, memory 320,520 and what the unknown kernel took at most."""
    events = [
        *(step(1, 0, 10_000), *product(100), launch_call(2_000, 2_010)),
        *(kernel(20_000, 5_020_000, launch=600), kernel(5_020_000, 5_020_000 + unknown_ns, name="f", launch=2_000)),
    ]
    con = analyzed(link(events), device=H100)
    assert rows(con, "SELECT compute_ns, clock, overlapped_ns, reason FROM step_clocks") == [
        (None, clock, None, f"{share} % of compute time has shapes")
    ]


def test_small_kernels_run_by_the_clock_of_launches() -> None:
    small = call("[[8],[8]]", "float;float")
    events = [step(1, 0, 10_000)]
    for n in range(3):
        events += product(1_000 + 2_000 * n, name="aten::add", inputs=small)
        events.append(kernel(20_000 + n * 10, 20_005 + n * 10, name="add", launch=1_500 + 2_000 * n))
    con = analyzed(link(events), device=H100)
    assert rows(con, "SELECT clock, overlapped_ns FROM kernel_clocks") == [("overhead", 30)]
    assert rows(con, "SELECT clock FROM kernels") == [("overhead",)]


def recomputed(*events: Row) -> int | None:
    con = analyzed(link([step(1, 0, 20_000), *events, kernel(20_000, 5_020_000, launch=10_500)]), device=H100)
    found: int | None = rows(con, "SELECT recomputed_flops FROM rank_work")[0][0]
    return found


NODE = "autograd::engine::evaluate_function: "


def test_products_of_backward_itself_are_not_recomputed() -> None:
    node = operator(NODE + "MmBackward0", 9_000, 12_000, thread=2, sequence_id=7, forward_thread=1)
    assert recomputed(node, *product(10_000, thread=2)) == 0


def test_a_checkpoint_that_runs_forward_in_its_own_node_is_recomputed() -> None:
    nodes = [
        operator(NODE + "CheckpointFunctionBackward", 9_000, 15_000, thread=2, sequence_id=7, forward_thread=1),
        operator("CheckpointFunctionBackward", 9_010, 14_990, thread=2, sequence_id=7, forward_thread=1),
        operator(NODE + "MmBackward0", 12_000, 13_000, thread=2, sequence_id=9, forward_thread=2),
    ]
    assert recomputed(*nodes, *product(10_000, thread=2)) == 3_848_290_697_216


def test_backward_inside_a_checkpoint_is_not_recomputed() -> None:
    nodes = [
        operator(NODE + "CheckpointFunctionBackward", 5_000, 15_000, thread=2, sequence_id=7, forward_thread=1),
        operator(NODE + "MmBackward0", 9_000, 13_000, thread=2, sequence_id=9, forward_thread=2),
    ]
    assert recomputed(*nodes, *product(10_000, thread=2)) == 0


def test_forward_that_is_numbered_anew_inside_a_node_is_recomputed() -> None:
    """Saved tensors that are unpacked by running forward again, as checkpoints without a node of their own do."""
    node = operator(NODE + "ReluBackward0", 9_000, 12_000, thread=2, sequence_id=7, forward_thread=1)
    assert recomputed(node, *product(10_000, thread=2, sequence_id=3, forward_thread=0)) == 3_848_290_697_216


def test_forward_on_the_main_thread_is_not_recomputed() -> None:
    assert recomputed(*product(10_000, sequence_id=3, forward_thread=0)) == 0


def test_hardware_that_is_told_counts_before_the_table_except_a_peak_with_sparsity() -> None:
    con = analyzed(link([step(1, 0, 10_000), *product(100), kernel(2_000, 9_002_000, launch=600)]), device=H100)
    [hardware] = catalog.leading_to(["_hardware"], {"told_hardware", "params", *catalog.data_names()})

    def peaks(**told: Any) -> tuple[Any, ...]:
        con.execute("UPDATE told_hardware SET " + ", ".join(f"{k} = ${k}" for k in told), told)
        found: tuple[Any, ...] = rows(
            con, f"SELECT peak_flops, hbm_bytes_per_s, link_bytes_per_s FROM ({hardware.sql}) WHERE dtype = 'bf16'"
        )[0]
        return found

    assert peaks(dtype="bf16") == (989e12, 3.35e12, 450e9)
    assert peaks(peak_flops=800e12, hbm_bytes_per_s=3e12) == (800e12, 3e12, 450e9)
    assert peaks(peak_flops=1979e12) == (989e12, 3e12, 450e9)
