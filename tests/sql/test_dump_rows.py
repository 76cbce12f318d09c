"""What each event of a dump is, which step it belongs to and what launched it, on rows a person can check by eye."""

from __future__ import annotations

import functools
from typing import Any

import duckdb
import pytest

from evaluation import Row, annotation, connection, kernel, launch_call, operator, raw_table, rows, step
from longpole import catalog

WEEK = 7 * 24 * 3600 * 10**9

# Times that say nothing: before the dump's base, none, backwards, and longer than a week.
UNTIMED: list[Row] = [
    {"start_ns": -1, "duration_ns": 10},
    {"start_ns": 5, "duration_ns": None},
    {"start_ns": 5, "duration_ns": -1},
    {"start_ns": 5, "duration_ns": WEEK + 1},
]
TIMED: list[Row] = [
    {"start_ns": 0, "duration_ns": 10},
    {"start_ns": 5, "duration_ns": 0},
    {"start_ns": 5, "duration_ns": WEEK},
]


@functools.cache
def _shipped() -> duckdb.DuckDBPyConnection:
    con = connection()
    con.execute(r"CREATE TABLE context AS SELECT 0::BIGINT AS base_ns, '^ProfilerStep#(\d+)$' AS step_pattern")
    con.execute(f"CREATE TABLE params AS {catalog.relations()['params'].sql}")
    return con


def found(name: str, *raw: Row, select: str = "*") -> list[tuple[Any, ...]]:
    """Return the rows of a relation of one dump, in order, where its raw rows are numbered in their order, from 0."""
    con = _shipped()
    con.register("raw_rows", raw_table(raw))
    chain = catalog.leading_to([name], {"raw", "context", "params", *catalog.data_names()})
    try:
        con.execute("CREATE TABLE raw AS FROM raw_rows")
        for relation in chain:
            con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
        return rows(con, f"SELECT {select} FROM {name} ORDER BY ALL")
    finally:
        for made in ("raw", *(r.name for r in chain)):
            con.execute(f"DROP TABLE IF EXISTS {made}")


def test_only_ranges_and_operators_of_the_host_that_are_named_for_a_step_are_markers() -> None:
    """The projection of a marker onto the device's timeline is none, and a number beyond 10^15 is no step's."""
    assert found(
        "_dump_markers",
        step(1, 0, 100),
        {**step(1, 10, 90), "category": "cpu_op", "thread": 2},
        {**step(1, 50, 150), "category": "gpu_annotation", "thread": 3},
        annotation("ProfilerStep#1000000000000000", 200, 300),
        annotation("ProfilerStep#1000000000000001", 300, 400),
        annotation("ProfilerStep#99999999999999999999", 400, 500),
        annotation("ProfilerStep#2 again", 500, 600),
        annotation("forward", 600, 700),
    ) == [
        (0, 1, 1, 0, 100),
        (1, 1, 2, 10, 90),
        (3, 10**15, 1, 200, 300),
        (4, None, 1, 300, 400),
        (5, None, 1, 400, 500),
    ]


def test_a_marker_without_a_usable_time_is_none() -> None:
    markers = [{**step(n, 0, 0), **time} for n, time in enumerate([*UNTIMED, *TIMED])]

    assert found("_dump_markers", *markers, select="step, start_ns, end_ns") == [
        (4, 0, 10), (5, 5, 5), (6, 5, 5 + WEEK),
    ]  # fmt: skip


def test_a_marker_without_a_usable_number_is_an_event_like_others() -> None:
    events = [step(3, 0, 100), annotation("ProfilerStep#99999999999999999999", 20, 30), operator("aten::mm", 40, 50)]

    assert found("_dump_links", *events, select="row_id, is_marker, kind, step") == [
        (0, True, None, 3), (1, False, None, 3), (2, False, "compute", 3),
    ]  # fmt: skip


def test_each_event_has_the_step_and_the_launch_of_its_kind() -> None:
    """Host rows belong to the step they start in; device work and records to that of their call."""
    nothing = (None, None, None)
    launch = (150, 155, 1)

    assert found(
        "_dump_links",
        annotation("warm-up", 50, 60),
        step(1, 100, 200),
        operator("aten::mm", 100, 110),
        launch_call(150, 155),
        kernel(300, 310, launch=150),
        kernel(310, 320, launch=150, name="ncclDevKernel_AllReduce"),
        kernel(320, 330),
        {**kernel(150, 340, launch=150), "category": "sync"},
        {**kernel(150, 340, launch=99), "category": "sync"},
        {**annotation("forward", 120, 130), "category": "gpu_annotation"},
        {**annotation("Record Window End", 120, 130), "category": "trace"},
        operator("aten::add", 199, 250),
        operator("aten::add", 200, 250),
    ) == [
        (0, False, None, None, None, *nothing),
        (1, True, None, None, 1, *nothing),
        (2, False, None, None, 1, *nothing),
        (3, False, None, None, 1, *nothing),
        (4, False, "compute", None, 1, *launch),
        (5, False, "comm", "name", 1, *launch),
        (6, False, "compute", None, None, *nothing),
        (7, False, None, None, 1, *launch),
        (8, False, None, None, None, *nothing),
        (9, False, None, None, None, *nothing),
        (10, False, None, None, None, *nothing),
        (11, False, None, None, 1, *nothing),
        (12, False, None, None, None, *nothing),
    ]


def test_without_a_device_the_host_s_own_events_have_kinds() -> None:
    events = [step(1, 0, 100), operator("aten::mm", 10, 20), annotation("gloo:all_reduce", 30, 40, thread=2)]

    assert found("_dump_links", *events) == [
        (0, True, None, None, 1, None, None, None),
        (1, False, "compute", None, 1, None, None, None),
        (2, False, "comm", "name", 1, None, None, None),
    ]


def call(correlation: int | None, start: int, end: int, **more: Any) -> Row:
    return {**launch_call(start, end), "correlation_id": correlation, **more}


def test_a_call_is_in_the_step_that_it_starts_in() -> None:
    """A call of the runtime and that of the driver beneath it are one, from the first's start to the last's end."""
    assert found(
        "_dump_calls",
        step(1, 100, 200),
        step(2, 300, 400),
        call(10, 99, 150),
        call(11, 100, 250),
        call(12, 199, 200),
        call(13, 200, 350),
        call(14, 300, 310),
        call(15, 400, 410),
        call(16, 320, 330, thread=2),
        call(16, 322, 335, thread=3, category="driver"),
        call(17, 340, 350, category="sync"),
        call(None, 360, 370),
    ) == [
        (10, 99, 150, 1, None),
        (11, 100, 250, 1, 1),
        (12, 199, 200, 1, 1),
        (13, 200, 350, 1, None),
        (14, 300, 310, 1, 2),
        (15, 400, 410, 1, None),
        (16, 320, 335, 2, 2),
    ]


def test_a_call_without_a_usable_time_launches_nothing() -> None:
    calls = [{**call(n, 0, 0), **time} for n, time in enumerate([*UNTIMED, *TIMED])]

    assert found("_dump_calls", step(1, 0, 100), *calls) == [
        (4, 0, 10, 1, 1), (5, 5, 5, 1, 1), (6, 5, 5 + WEEK, 1, 1),
    ]  # fmt: skip


def test_records_of_collectives_that_touch_or_overlap_on_a_thread_are_one_stretch() -> None:
    assert found(
        "_dump_comm_ranges",
        operator("record_param_comms", 0, 10),
        operator("c10d::allreduce_", 10, 20),
        annotation("nccl:all_reduce", 15, 30),
        operator("c10d::send", 16, 18),
        operator("c10d::recv_", 31, 40),
        operator("c10d::recv_", 25, 45, thread=2),
    ) == [(1, 0, 30), (1, 31, 40), (2, 25, 45)]


def test_what_only_waits_or_is_no_range_of_the_host_is_no_record_of_a_collective() -> None:
    assert found(
        "_dump_comm_ranges",
        operator("c10d::wait", 0, 10),
        operator("c10d::wait_tensor", 20, 30),
        annotation("nccl:wait", 40, 50),
        {**operator("record_param_comms", 60, 70), "comm_op": "Wait"},
        {**operator("record_param_comms", 80, 90), "comm_op": "allreduce"},
        {**annotation("nccl:all_reduce", 100, 110), "category": "gpu_annotation"},
        annotation("nccl:all_reduce", 120, 130),
        operator("my c10d::allreduce_", 140, 150),
    ) == [(1, 80, 90), (1, 120, 130)]


def test_a_record_without_a_usable_time_is_no_stretch() -> None:
    records = [{**operator("record_param_comms", 0, 0, thread=n), **time} for n, time in enumerate([*UNTIMED, *TIMED])]

    assert found("_dump_comm_ranges", *records) == [(4, 0, 10), (5, 5, 5), (6, 5, 5 + WEEK)]


@pytest.mark.parametrize(
    ("one", "kind", "evidence"),
    [
        (kernel(50, 60), "compute", None),
        (kernel(50, 60, name="ncclDevKernel_AllReduce"), "comm", "name"),
        (kernel(50, 60, comm_op="allreduce"), "comm", "metadata"),
        # `wait` is a pseudo-collective
        (kernel(50, 60, comm_op="wait"), "compute", None),
        (kernel(50, 60, comm_op="Wait"), "compute", None),
        # launched under a collective record, or just as it ends
        (kernel(50, 60, launch=20), "comm", "operator"),
        (kernel(50, 60, launch=29), "comm", "operator"),
        (kernel(50, 60, launch=30), "compute", None),
        (kernel(50, 60, launch=19), "compute", None),
        # a copy is one whatever it is called or launched by
        ({**kernel(50, 60, launch=20, name="ncclCopy"), "category": "memcpy"}, "copy", None),
        ({**kernel(50, 60, comm_op="allreduce"), "category": "memset"}, "copy", None),
    ],
)
def test_a_kernel_is_comm_by_its_metadata_its_launch_or_its_name(one: Row, kind: str, evidence: str | None) -> None:
    calls = [launch_call(start, start + 1) for start in (19, 20, 29, 30)]

    assert found(
        "_dump_device_rows", operator("c10d::allreduce_", 20, 30), *calls, one, select="row_id, kind, comm_evidence"
    ) == [(5, kind, evidence)]


@pytest.mark.parametrize("category", ["kernel", "memcpy"])
def test_device_work_without_a_usable_time_is_of_no_kind(category: str) -> None:
    work = [{**kernel(0, 0), "category": category, **time} for time in [*UNTIMED, *TIMED]]
    kind = "compute" if category == "kernel" else "copy"

    assert found("_dump_device_rows", *work, select="row_id, kind") == [
        (0, None), (1, None), (2, None), (3, None), (4, kind), (5, kind), (6, kind),
    ]  # fmt: skip


def host(*raw: Row) -> list[tuple[Any, ...]]:
    return found("_dump_host_rows", *raw)


def test_without_a_device_outermost_operators_compute_and_spans_of_collectives_are_comm() -> None:
    """Spans are named by the library, or say their operation. What only posts a collective is neither."""
    assert host(
        operator("aten::linear", 0, 20),
        operator("aten::addmm", 5, 15),
        operator("c10d::allreduce_", 20, 40),
        operator("record_param_comms", 25, 35),
        operator("record_param_comms", 40, 45),
        annotation("forward", 50, 90),
        operator("aten::mul", 60, 70),
        annotation("gloo:all_reduce", 100, 120, thread=2),
        operator("mpi:broadcast", 130, 140, thread=2),
        {**annotation("gloo:all_reduce", 150, 160), "category": "overhead"},
        {**annotation("gradient exchange", 200, 300), "comm_op": "all_reduce"},
        operator("aten::add", 210, 220),
    ) == [
        (0, "compute", None),
        (6, "compute", None),
        (7, "comm", "name"),
        (8, "comm", "name"),
        (10, "comm", "name"),
        (11, "compute", None),
    ]


@pytest.mark.parametrize(("start", "is_outermost"), [(19, False), (20, True)])
def test_an_operator_that_begins_as_all_before_it_have_ended_is_outermost(start: int, is_outermost: bool) -> None:
    events = [operator("a", 0, 20), operator("b", 5, 10), operator("c", 0, 90, thread=2), operator("d", start, 30)]

    assert host(*events) == [
        (0, "compute", None),
        (2, "compute", None),
        *([(3, "compute", None)] if is_outermost else []),
    ]


def test_a_marker_of_a_step_holds_no_operator() -> None:
    marker = {**step(1, 0, 100), "category": "cpu_op"}

    assert host(marker, operator("aten::mm", 10, 20)) == [(1, "compute", None)]


def test_an_operator_without_a_usable_time_is_of_no_kind_and_holds_none() -> None:
    operators = [{**operator("a", 0, 0, thread=n), **time} for n, time in enumerate([*UNTIMED, *TIMED])]
    later = [operator("b", 6, 8, thread=n) for n in range(7)]

    assert host(*operators, *later) == [
        (4, "compute", None),
        (5, "compute", None),
        (6, "compute", None),
        *((7 + n, "compute", None) for n in range(4)),
        (12, "compute", None),
    ]


def test_beside_a_device_the_host_s_operators_occupy_no_lane() -> None:
    assert host(operator("aten::mm", 0, 20), annotation("gloo:all_reduce", 30, 40), kernel(50, 60)) == []
