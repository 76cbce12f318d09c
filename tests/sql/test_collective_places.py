"""What a rank's own rows say of its collectives: operation, group, capture and step, and which of them are a queue."""

from __future__ import annotations

from typing import Any

from evaluation import Row, answer


def of_events(select: str, *events: Row) -> list[tuple[Any, ...]]:
    """Return the comm activities of a rank's events, which say of which dump they are."""
    dumps = [{"dump_no": n, "format": "kineto"} for n in (0, 1)]
    return answer("_comm_activities", select, events=events, dump_facts=dumps)


def span(category: str, name: str, start: int, end: int | None, *, thread: int = 1, **more: Any) -> Row:
    """Return a range on a host thread; without an end it did not finish."""
    duration = None if end is None else end - start
    return {"category": category, "name": name, "start_ns": start, "duration_ns": duration, "thread": thread, **more}


def record(start: int, end: int | None, group: str, *, category: str = "cpu_op", **more: Any) -> Row:
    return span(category, "record_param_comms", start, end, comm_op="allreduce", comm_group=group, comm_seq=5, **more)


def kernel(start: int, launch: int, *, thread: int = 1, dump: int = 0, name: str = "ncclKernel") -> Row:
    """Return a comm kernel without arguments of its own."""
    return {
        "category": "kernel", "kind": "comm", "name": name, "start_ns": start, "duration_ns": 10, "stream": 7,
        "launch_ns": launch, "launch_thread": thread, "dump_no": dump,
    }  # fmt: skip


def test_a_kernel_is_what_the_finished_record_of_its_own_dump_says() -> None:
    # GIVEN a launch at 50 under a record of dp; within that an operator that did not finish and a user's range that
    # both say another group. And a second dump of those times whose record is of tp, with the same thread in the first.
    found = of_events(
        "start_ns, op, group_name, seq",
        record(0, 100, "dp"),
        record(20, None, "open"),
        record(30, 100, "range", category="annotation"),
        record(0, 100, "tp", thread=9, dump_no=1),
        record(40, 60, "dp", thread=9),
        kernel(1_000, 50),
        kernel(2_000, 50, thread=9, dump=1),
        kernel(3_000, 100),  # launched as the record ends
    )
    assert found == [(1_000, "all_reduce", "dp", 5), (2_000, "all_reduce", "tp", 5), (3_000, "other", None, None)]


def test_a_kernel_that_does_not_say_its_operation_has_that_of_the_finished_range_of_its_own_dump() -> None:
    # GIVEN a launch at 50 in an all-to-all; within that a range that did not finish and one of the device's timeline.
    found = of_events(
        "start_ns, op",
        span("annotation", "nccl:all_to_all", 0, 100),
        span("annotation", "nccl:broadcast", 20, None),
        span("gpu_annotation", "nccl:reduce", 30, 100),
        span("cpu_op", "c10d::allgather_", 0, 100, thread=9, dump_no=1),
        span("cpu_op", "c10d::reduce_", 40, 60, thread=9),
        kernel(1_000, 50),
        kernel(2_000, 50, thread=9, dump=1),
        kernel(3_000, 100),
    )
    assert found == [(1_000, "all_to_all"), (2_000, "all_gather"), (3_000, "other")]


def comm(number: int, lane: str, launch: int, end: int, **more: Any) -> Row:
    """Return a comm activity of thread 1, launched as it starts unless said otherwise."""
    return {
        "activity_no": number, "dump_no": 0, "lane": lane, "thread": 1, "start_ns": launch, "sort_ns": launch,
        "end_ns": end, "is_linked": True, "op": "all_reduce", "shape": "all_reduce", **more,
    }  # fmt: skip


def collectives(select: str, *activities: Row) -> list[tuple[Any, ...]]:
    """Return collectives of steps 1 and 2, from 0 and 50, and, as a second capture, of step 10 from 100."""
    steps = ((0, 1, 0), (0, 2, 50), (1, 10, 100))
    return answer(
        "rank_collectives",
        select,
        _comm_activities=activities,
        _host_steps=[{"capture": capture, "step": step, "start_ns": start} for capture, step, start in steps],
        _capture_bounds=[
            {"dump_no": 0, "capture": 0, "to_ns": 100, "first_step": 1, "last_step": 2},
            {"dump_no": 0, "capture": 1, "from_ns": 100, "first_step": 10, "last_step": 10},
        ],
        _exposed=[{"activity_no": activity["activity_no"], "exposed_ns": 0} for activity in activities],
        context=[{"rank": 0}],
        dump_facts=[{"dump_no": 0, "is_truncated": False}],
        params=[{"anchors_per_shape": 128.0}],
    )


def test_a_collective_belongs_to_the_capture_and_the_step_that_begin_by_its_launch() -> None:
    found = collectives(
        "activity_no, capture, shard_step, from_end",
        comm(0, "7", -5, 5),
        comm(1, "7", 49, 55),
        comm(2, "7", 50, 60),
        comm(3, "7", 99, 105),
        comm(4, "7", 100, 110),
        comm(5, "7", 120, 130, step=10),
    )
    assert found == [(0, 0, 1, 3), (1, 0, 1, 2), (2, 0, 2, 1), (3, 0, 2, 0), (4, 1, 10, 1), (5, 1, 10, 0)]


def test_a_collective_without_a_group_has_that_of_its_stream_where_there_is_only_one() -> None:
    dp, tp = ({"group_name": name, "group_ranks": ranks} for name, ranks in (("dp", "[0, 1]"), ("tp", "[0, 2]")))
    found = collectives(
        "activity_no, queue, group_name, group_ranks",
        comm(0, "7", 0, 5, **dp),
        comm(1, "7", 10, 15),
        comm(2, "8", 20, 25, **dp),
        comm(3, "8", 30, 35, **tp),
        comm(4, "8", 40, 45),
        comm(5, "9", 50, 55),
    )
    assert found == [
        (0, "dp||[0, 1]", "dp", "[0, 1]"),
        (1, "dp||[0, 1]", "dp", "[0, 1]"),
        (2, "dp||[0, 1]", "dp", "[0, 1]"),
        (3, "tp||[0, 2]", "tp", "[0, 2]"),
        (4, "lane 8", None, None),
        (5, "lane 9", None, None),
    ]


def test_bytes_are_of_the_larger_side_where_the_sides_differ_and_of_what_is_put_in_elsewhere() -> None:
    sizes = {"dtype": "Float", "in_elements": 10, "out_elements": 80}
    found = collectives(
        "activity_no, n_bytes",
        comm(0, "7", 0, 5, **{**sizes, "op": "all_gather"}),
        comm(1, "7", 10, 15, **{**sizes, "op": "reduce_scatter", "in_elements": 80, "out_elements": 10}),
        comm(2, "7", 20, 25, **sizes),
        comm(3, "7", 30, 35, **{**sizes, "in_elements": None}),
        comm(4, "7", 40, 45, **{**sizes, "dtype": None}),
    )
    assert found == [(0, 320), (1, 320), (2, 40), (3, 320), (4, None)]


def test_a_collective_arrives_on_the_host_when_its_thread_is_done_with_the_one_before() -> None:
    # GIVEN the same two spans on a worker thread, and on a stream, where both were in flight.
    spans = ((0, 30), (10, 40))
    on_host = [comm(n, "host", start, end) for n, (start, end) in enumerate(spans)]
    on_stream = [comm(n, "7", start, end) for n, (start, end) in enumerate(spans, 2)]
    found = collectives("activity_no, arrival_ns, end_ns", *on_host, *on_stream)
    assert found == [(0, 0, 30), (1, 30, 40), (2, 0, 30), (3, 10, 40)]


def queued(rank: int, **more: Any) -> Row:
    return {"rank": rank, "queue": "q", "lane": "7", "has_end": True, "seq": 1, "op": "all_reduce", **more}


def test_members_of_a_queue_are_those_listed_whole_by_its_rows_or_by_the_dumps_only_group() -> None:
    # GIVEN rank 0, whose dump lists one group; rank 1, whose dump lists two; ranks 2 and 3, whose dumps list no groups
    # but something else; rank 4, whose rows list members, and rank 5, whose rows list the first of them only; rank 6,
    # whose dump lists two, one of them without members; rank 7, whose dump lists that one alone, and rank 8, whose dump
    # lists one beside what is no group.
    found = answer(
        "_queues",
        "rank, group_name, members",
        dumps=[
            {"process_groups": '[{"pg_name":"dp","pg_desc":"d","ranks":[1,0]}]'},
            {"process_groups": '[{"pg_name":"dp","ranks":[0,1]},{"pg_name":"tp","ranks":[1]}]'},
            {"process_groups": '{"pg_name":"dp","pg_desc":"d","ranks":[0,2]}'},
            {"process_groups": "[dp]"},
            {"process_groups": None},
            {"process_groups": None},
            {"process_groups": '[{"pg_name":"dp","ranks":[0,1]},{"pg_name":"tp"}]'},
            {"process_groups": '[{"pg_name":"tp"}]'},
            {"process_groups": '[{}, "x", {"pg_name":"tp"}]'},
        ],
        rank_collectives=[
            *(queued(rank) for rank in range(4)),
            queued(4, group_name="tp", group_ranks="[5, 4]"),
            queued(5, group_name="tp", group_ranks="[4, 5, ...]"),
            queued(6),
            queued(7),
            queued(8),
        ],
    )
    assert found == [
        (0, "dp", [0, 1]),
        (1, None, None),
        (2, None, None),
        (3, None, None),
        (4, "tp", [4, 5]),
        (5, "tp", None),
        (6, None, None),
        (7, "tp", None),
        (8, "tp", None),
    ]


def test_one_dump_without_its_end_leaves_a_queue_without_and_one_row_of_the_host_makes_it_the_hosts() -> None:
    found = answer(
        "_queues",
        "rank, is_host, has_end, has_seq",
        dumps=[{}],
        rank_collectives=[
            queued(0),
            queued(0, seq=None, op="send"),  # sends do not count
            queued(1, lane="host"),
            queued(1, has_end=False, seq=None),
        ],
    )
    assert found == [(0, False, True, True), (1, True, False, False)]
