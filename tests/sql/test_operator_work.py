"""Work of operators, which operators have it, and which activity did it: made rows, worked out by hand beside each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation import Row, answer

WEEK = 7 * 24 * 3600 * 10**9
BF16 = "c10::BFloat16"
F8 = "c10::Float8_e4m3fn"


def event(
    name: str, start: int, end: int, *, category: str = "cpu_op", thread: int = 1, dump: int = 0, **more: Any
) -> Row:
    return {
        "dump_no": dump, "category": category, "name": name, "start_ns": start, "duration_ns": end - start,
        "thread": thread, **more,
    }  # fmt: skip


def work(name: str, inputs: str) -> tuple[Any, ...]:
    """Return class, whether it is forward, element type, FLOPs and bytes of one call."""
    of_one = answer("_operator_work", "* EXCLUDE (name, inputs)", events=[event(name, 0, 10, inputs=inputs)])
    assert len(of_one) == 1
    return of_one[0]


@pytest.mark.parametrize(
    ("name", "shapes", "kernel_class"),
    [
        ("aten::mm", "[[2,4,8],[4,16]]", "gemm"),
        ("aten::mm", "[[4,8],[8,16,2]]", "gemm"),
        ("aten::bmm", "[[2,4,8,3],[2,8,16]]", "gemm"),
        ("aten::bmm", "[[2,4,8],[2,8,16,3]]", "gemm"),
        ("aten::linear", "[[4,3],[5,3,7],[5]]", "gemm"),
        ("aten::matmul", "[[2,3],[3,5,7]]", "gemm"),
        ("aten::_grouped_mm", "[[8,16],[16,4,5]]", "gemm"),
        ("aten::_grouped_mm", "[[1,2,3,4],[3,5]]", "gemm"),
        ("aten::_grouped_mm", "[[4,2,3],[3,9,5]]", "gemm"),
        ("aten::_grouped_mm", "[[4,2,3,7],[4,3,5]]", "gemm"),
        ("aten::_grouped_mm", "[[4,2,3],[4,3,5,9]]", "gemm"),
        ("aten::_scaled_dot_product_flash_attention", "[[1,2,3,4,9],[1,2,3,4],[1,2,3,4]]", "attention"),
        ("aten::_scaled_dot_product_flash_attention", "[[1,2,3,4],[1,2,3,4,9],[1,2,3,4]]", "attention"),
    ],
)
def test_sizes_of_too_many_dimensions_give_no_work(name: str, shapes: str, kernel_class: str) -> None:
    assert work(name, f"{shapes}|float;float;float|") == (kernel_class, True, "fp32", None, None)


@pytest.mark.parametrize(
    ("shapes", "values"),
    [
        ("[[1,2,4,4],[3,2,3,3],[]]", ""),  # nothing says whether it is transposed
        ("[[4,8],[3,8],[]]", ";;;[1];[0];[1];False;[0];1"),  # no place to go to
        ("[[1,2,4,4],[2,3,2],[]]", ";;;[1];[0];[1];True;[0];1"),
    ],
)
def test_a_convolution_whose_sizes_or_values_do_not_say_its_places_has_no_work(shapes: str, values: str) -> None:
    assert work("aten::convolution", f"{shapes}|float;float;|{values}") == ("convolution", True, "fp32", None, None)


def test_a_transposed_convolution_costs_each_gradient_its_forward_pass() -> None:
    """Forward multiplies each of 4 x 4 places by the 2 x 3 x 2 x 2 weights: 2 x 16 x 24, and backward does so twice."""
    inputs = (
        "[[1,3,8,8],[1,2,4,4],[2,3,2,2],[],[],[],[],[],[],[],[]]|float;float;float;;;;;;;;|"
        ";;;;[2, 2];[0, 0];[1, 1];True;[0, 0];1;[True, True, False]"
    )

    # 192 + 32 + 24 numbers come in, 32 + 24 go out.
    assert work("aten::convolution_backward", inputs) == ("convolution", False, "fp32", 1_536, 4 * (248 + 56))


def test_products_of_two_batches_of_dimensions_multiply() -> None:
    # 2 x 3 products of 4 x 5 by 5 x 6
    assert work("aten::matmul", "[[2,3,4,5],[2,3,5,6]]|float;float|") == (
        "gemm", True, "fp32", 2 * 6 * 4 * 5 * 6, 4 * (120 + 180 + 144),
    )  # fmt: skip


def test_a_vector_times_a_matrix_is_a_product() -> None:
    assert work("aten::matmul", "[[3],[3,5]]|float;float|") == ("gemm", True, "fp32", 2 * 3 * 5, 4 * (3 + 15 + 5))


@pytest.mark.parametrize(
    ("out", "n_bytes"),
    [("15", 32 + 128 + 2 * 64), ("5", 32 + 128 + 2 * 64), ("6", 32 + 128 + 4 * 64), ("", None), ("7", None)],
)
def test_a_scaled_product_is_as_wide_as_its_call_says(out: str, n_bytes: int | None) -> None:
    """ScalarType 5 is half, 15 bfloat16, 6 float; what else it may be is unknown."""
    inputs = f"[[4,8],[8,16],[],[],[],[],[],[]]|{F8};{F8};float;float;;;;|;;;;;;{out};False"

    assert work("aten::_scaled_mm", inputs) == ("gemm", True, "fp8", 2 * 4 * 8 * 16, n_bytes)


def test_a_scaled_product_that_gets_its_output_counts_that_among_its_arguments() -> None:
    inputs = f"[[4,8],[8,16],[],[],[],[],[],[],[4,16]]|{F8};{F8};float;float;;;;;{BF16}|;;;;;;;False;"

    assert work("aten::_scaled_mm", inputs) == ("gemm", True, "fp8", 1_024, 32 + 128 + 2 * 64)


def test_a_scaled_grouped_product_says_its_width_one_place_later() -> None:
    # 6 rows over 2 experts of 8 x 5; scales of 6 and 2 x 5, 2 offsets; 6 x 5 come out.
    inputs = f"[[6,8],[2,8,5],[6],[2,5],[2],[],[],[],[]]|{F8};{F8};float;float;int;;;;|;;;;;;;15;False"

    assert work("aten::_scaled_grouped_mm", inputs) == (
        "gemm", True, "fp8", 2 * 6 * 8 * 5, 48 + 80 + 24 + 40 + 8 + 60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "inputs", "n_bytes"),
    [
        # as much out as each of three in
        ("aten::addcmul", "[[2,3,4,5],[2,3,4,5],[2,3,4,5],[]]|float;float;float;Scalar|", 4 * 4 * 120),
        # the first argument is a number
        ("triton_poi_fused_add_0", "[[],[8]]|Scalar;float|", 32),
        ("aten::copy_", "[[8],[8]]|float;c10::Half|", 32 + 16),
        # unknown type; a list of tensors; shapes that are no list of shapes
        ("aten::add", "[[8],[8]]|float;quint4x2|", None),
        ("aten::add", "[[[2,3],[4]],[8]]|float;float|", None),
        ("aten::add", "[2,3]|float|", None),
        # nothing, and more than any device moves in a step; up to 10^18 is believed
        ("aten::copy_", "[[0],[0]]|float;float|", None),
        ("aten::copy_", "[[1],[0]]|bool;bool|", 1),
        ("aten::copy_", "[[1000000000,1000000000],[0]]|bool;bool|", 10**18),
        ("aten::copy_", "[[1000000000,1000000000],[1000]]|bool;bool|", None),
    ],
)
def test_what_multiplies_nothing_moves_its_bytes_or_an_unknown_number(
    name: str, inputs: str, n_bytes: int | None
) -> None:
    assert work(name, inputs) == ("other", False, None, None, n_bytes)


MM: Row = {"name": "aten::mm", "inputs": "mm", "kernel_class": "gemm", "is_forward": True, "flops": 60, "n_bytes": 9}
ADD: Row = {"name": "aten::add", "inputs": "add", "kernel_class": "other", "is_forward": False, "n_bytes": 7}


def mm(start: int, end: int, **more: Any) -> Row:
    return event("aten::mm", start, end, inputs="mm", **more)


def add(start: int, end: int, **more: Any) -> Row:
    return event("aten::add", start, end, inputs="add", **more)


def operators(*events: Row, select: str = "start_ns, end_ns, is_recomputed") -> list[tuple[Any, ...]]:
    return answer("_operators", select, events=events, _operator_work=[MM, ADD])


def test_operators_and_annotations_of_threads_are_calls() -> None:
    """Compiled kernels are called in annotations."""
    assert operators(
        mm(0, 10), mm(20, 30, category="annotation"), mm(40, 50, category="runtime"), mm(60, 70, thread=None),
        mm(80, 80), mm(90, 90 + WEEK), mm(95, 96 + WEEK, thread=2), event("aten::mm", 60, 70, inputs="other"),
        select="operator_no, dump_no, thread, start_ns, end_ns, kernel_class, flops, n_bytes, is_recomputed",
    ) == [
        (0, 0, 1, 0, 10, "gemm", 60, 9, False),
        (1, 0, 1, 20, 30, "gemm", 60, 9, False),
        (2, 0, 1, 90, 90 + WEEK, "gemm", 60, 9, False),
    ]  # fmt: skip


def test_an_operator_of_which_nothing_is_known_has_no_row() -> None:
    """A product has one by its FLOPs alone: bytes say nothing of how long it should take."""
    known = [
        {**MM, "inputs": "no flops", "flops": None},
        {**MM, "inputs": "no bytes", "n_bytes": None},
        {**ADD, "name": "aten::mm", "inputs": "other"},
        {**ADD, "name": "aten::mm", "inputs": "other, no bytes", "n_bytes": None},
    ]
    events = [event("aten::mm", 20 * n, 20 * n + 10, inputs=each["inputs"]) for n, each in enumerate(known)]

    assert answer("_operators", "start_ns, flops, n_bytes", events=events, _operator_work=known) == [
        (20, 60, None), (40, None, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "left"),
    [
        (mm(2, 8), [(2, 8)]),
        (mm(6, 13), [(6, 13)]),  # most of it lies inside
        (mm(6, 14), [(0, 10), (6, 14)]),  # its middle is where the outer one ends
        (mm(10, 14), [(0, 10), (10, 14)]),
        (mm(2, 8, thread=2), [(0, 10), (2, 8)]),
        (mm(2, 8, dump=1), [(0, 10), (2, 8)]),
        (add(2, 8), [(0, 10), (2, 8)]),
    ],
)
def test_a_product_that_holds_another_is_left_to_the_inner_one(inner: Row, left: list[tuple[int, int]]) -> None:
    """Rounding lets an operator outlast what it stands in."""
    assert operators(mm(0, 10), inner, select="start_ns, end_ns") == left


CHECKPOINT = "CheckpointFunctionBackward"


@pytest.mark.parametrize(
    ("around", "is_recomputed"),
    [
        ([], False),
        ([event(CHECKPOINT, 0, 100)], True),
        ([event(CHECKPOINT, 0, 50)], False),
        ([event(CHECKPOINT, 0, 51)], True),
        ([event(CHECKPOINT, 0, 100, thread=2)], False),
        ([event(CHECKPOINT, 0, 100, dump=1)], False),
        ([event(CHECKPOINT, 0, 100, category="annotation"), event(CHECKPOINT, 200, 300)], False),
        ([event(CHECKPOINT, 0, WEEK)], True),
        ([event(CHECKPOINT, 0, WEEK + 1)], False),
        # another node of autograd in it does a product of its own
        ([event(CHECKPOINT, 0, 100), event("MmBackward0", 10, 90)], False),
        ([event(CHECKPOINT, 0, 100, sequence_id=5), event("MmBackward0", 10, 90, sequence_id=3)], False),
        ([event("MmBackward0", 0, 100, sequence_id=3)], False),
        # under an operator that got a number a graph is being recorded
        ([event("MmBackward0", 0, 100), event("aten::linear", 10, 90, sequence_id=8)], True),
        ([event("MmBackward0", 0, 100), event("aten::linear", 10, 90)], False),
        ([event("aten::linear", 10, 90, sequence_id=8)], False),
    ],
)
def test_what_backward_does_once_more_is_recomputed(around: list[Row], is_recomputed: bool) -> None:
    """Autograd numbers operators only while it records a graph, in backward only to do forward's work anew."""
    assert operators(*around, mm(50, 60)) == [(50, 60, is_recomputed)]


def kernel(name: str, start: int, end: int, *, launch: int | None, dump: int = 0, thread: int = 1, **more: Any) -> Row:
    return {
        "dump_no": dump, "category": "kernel", "kind": "compute", "name": name, "start_ns": start,
        "duration_ns": end - start, "launch_ns": launch, "launch_thread": thread, "thread": 7, **more,
    }  # fmt: skip


def done(
    events: Sequence[Row], operators: Sequence[Row] = (), select: str = "name, kernel_class, dtype, flops, n_bytes"
) -> list[tuple[Any, ...]]:
    """Return the work of a rank's activities, of operators that are numbered in their order."""
    n_activities = sum(each.get("kind") is not None for each in events)
    return answer(
        "_activity_work",
        select,
        events=events,
        _operators=[{"operator_no": n, "is_recomputed": False, **each} for n, each in enumerate(operators)],
        _exposed=[{"activity_no": n, "exposed_ns": 1} for n in range(n_activities)],
    )


def product(start: int, end: int, flops: int | None, *, dump: int = 0, thread: int = 1, **more: Any) -> Row:
    return {
        "dump_no": dump, "thread": thread, "start_ns": start, "end_ns": end, "flops": flops, "n_bytes": 1,
        "kernel_class": "other" if flops is None else "gemm", **more,
    }  # fmt: skip


def graph_launch(start: int, *, thread: int = 1, dump: int = 0, category: str = "runtime") -> Row:
    return event("cudaGraphLaunch", start, start + 5, category=category, thread=thread, dump=dump)


def test_activities_of_a_graph_share_its_launch() -> None:
    # A graph of two kernels in dump 0, whose launch calls the driver in the same ns. At the same time: a plain launch
    # and a graph of four on other threads, a graph of four and a plain launch on the same thread in other dumps, and a
    # range that is named for the launch.
    calls = [
        graph_launch(100),
        event("cuGraphLaunch", 100, 104, category="driver"),
        graph_launch(100, category="annotation"),
        event("cudaLaunchKernel", 100, 105, category="runtime", thread=2),
        graph_launch(100, thread=3),
        graph_launch(100, dump=1),
        event("cudaLaunchKernel", 100, 105, category="runtime", dump=2),
    ]
    kernels = [
        *(kernel("graph of 2", 200 + n, 201 + n, launch=100) for n in range(2)),
        kernel("another thread's", 210, 211, launch=100, thread=2),
        *(kernel("graph of 4", 214 + n, 215 + n, launch=100, thread=3) for n in range(4)),
        *(kernel("graph of 4", 220 + n, 221 + n, launch=100, dump=1) for n in range(4)),
        kernel("another dump's", 230, 231, launch=100, dump=2),
        kernel("without its launch", 240, 241, launch=None),
    ]

    assert done([*calls, *kernels], select="name, n_launches") == [
        ("another dump's", 1.0),
        ("another thread's", 1.0),
        *[("graph of 2", 0.5)] * 2,
        *[("graph of 4", 0.25)] * 8,
        ("without its launch", 0.0),
    ]


@pytest.mark.parametrize(
    ("operator", "flops"),
    [
        (product(10, 90, 60), 60),
        (product(50, 90, 60), 60),
        (product(51, 90, 60), None),
        (product(10, 51, 60), 60),
        (product(10, 50, 60), None),
        (product(10, 90, 60, thread=2), None),
        (product(10, 90, 60, dump=1), None),
    ],
)
def test_a_kernel_does_the_work_of_the_operator_that_launched_it(operator: Row, flops: int | None) -> None:
    expected = ("k", "other" if flops is None else "gemm", None, flops, None if flops is None else 1)

    assert done([kernel("k", 100, 200, launch=50)], [operator]) == [expected]


def test_operators_of_another_dump_launch_nothing_here() -> None:
    """They are nearer to the launch than the one that holds it."""
    products = [product(10, 90, 60), product(20, 40, 70, dump=1)]
    movers = [product(10, 90, None, n_bytes=8), product(20, 40, None, n_bytes=9, dump=1)]

    assert done([kernel("k", 100, 200, launch=50)], products, "flops, n_bytes") == [(60, 1)]
    assert done([kernel("k", 100, 200, launch=50)], movers, "flops, n_bytes") == [(None, 8)]


def test_the_first_class_that_a_kernel_s_name_fits_counts() -> None:
    names = ["flash_fwd_gemm", "sm80_xmma_fprop_implicit_gemm", "ampere_sgemm", "elementwise"]
    kernels = [kernel(name, 10 * n, 10 * n + 5, launch=None) for n, name in enumerate(names)]

    assert done(kernels, select="name, kernel_class, is_counted") == [
        ("ampere_sgemm", "gemm", False),
        ("elementwise", "other", False),
        ("flash_fwd_gemm", "attention", False),
        ("sm80_xmma_fprop_implicit_gemm", "convolution", False),
    ]


def host(name: str, start: int, end: int, kind: str = "compute", **more: Any) -> Row:
    return event(name, start, end, kind=kind, **more)


def test_an_outermost_operator_does_the_work_of_all_that_it_holds() -> None:
    """Its class is that of the first with FLOPs; bytes without FLOPs count only of one that ends with it."""
    operators = [
        product(10, 30, None, n_bytes=500),
        product(20, 40, 60, dtype="bf16"),
        product(50, 60, 70, dtype="fp32", kernel_class="attention", is_recomputed=True),
    ]

    assert done([host("module", 0, 100)], operators, "kernel_class, dtype, flops, recomputed_flops, n_bytes") == [
        ("gemm", "bf16", 130, 70, 2)
    ]
    assert done([host("aten::add", 10, 30)], operators[:1], "kernel_class, dtype, flops, n_bytes") == [
        ("other", None, None, 500)
    ]


@pytest.mark.parametrize(
    ("operator", "flops"),
    [
        (product(0, 10, 60), 60),
        (product(99, 110, 60), 60),
        (product(100, 110, 60), None),
        (product(150, 160, 60), None),
    ],
)
def test_an_outermost_operator_holds_what_begins_before_it_ends(operator: Row, flops: int | None) -> None:
    """Compiled kernels are called in annotations, which may stand outside every operator."""
    assert done([host("module", 0, 100)], [operator], "flops") == [(flops,)]


@pytest.mark.parametrize(
    "beside",
    [host("beside", 40, 90, thread=2), host("beside", 40, 90, dump=1), host("beside", 40, 90, kind="comm")],
)
def test_what_runs_beside_an_outermost_operator_does_none_of_its_work(beside: Row) -> None:
    """A range that says its collective may lie inside an operator."""
    assert done([host("module", 0, 100), beside], [product(50, 60, 60)], "name, flops") == [
        ("beside", None), ("module", 60),
    ]  # fmt: skip
