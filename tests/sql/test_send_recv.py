"""Sends and receives across ranks: who sends to whom, in which order, and what a sequence number is not worth."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

from evaluation import (
    Row,
    analyzed,
    annotation,
    connection,
    dump_rows,
    evaluate,
    kernel,
    launch_call,
    link,
    operator,
    rows,
    step,
)
from longpole import catalog

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
GROUP = {"comm_group": "5", "comm_group_description": "mesh_pp", "comm_group_ranks": "[0, 1, 2, 3]"}
PAIR = {"comm_group": "7", "comm_group_description": "mesh_pp", "comm_group_ranks": "[0, 1]"}


def _rank(rank: int, *kernels: Row) -> list[tuple[Any, ...]]:
    """Return rank_collectives of a rank that ran these kernels in one step, each launched at its start."""
    calls = [launch_call(k["start_ns"], k["start_ns"] + 1) for k in kernels]
    linked = [{**k, "correlation_id": k["start_ns"], "stream": 28} for k in kernels]
    con = analyzed(link([step(10, 0, 100_000), *calls, *linked]), rank=rank)
    return rows(con, "FROM rank_collectives ORDER BY activity_no")


def _send(start: int, target: int | None, **more: Any) -> Row:
    return kernel(start, start + 90, name=SEND_RECV, **{**GROUP, "comm_op": "send", "comm_target_rank": target, **more})


def _receive(start: int, source: int | None, **more: Any) -> Row:
    return kernel(start, start + 90, name=SEND_RECV, **{**GROUP, "comm_op": "recv", "comm_source_rank": source, **more})


def _reduce(start: int, seq: int, **more: Any) -> Row:
    return kernel(
        start, start + 90, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", **{**GROUP, "comm_op": "allreduce", **more},
        comm_seq=seq,
    )  # fmt: skip


def _members(*ranks: list[tuple[Any, ...]], process_groups: str | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection with the clock level of these ranks' collectives."""
    con = connection()
    con.register("dump_table", dump_rows(*({"host": "a", "process_groups": process_groups} for _ in ranks)))
    con.execute("CREATE TABLE dumps AS FROM dump_table")
    columns = catalog.relations()["rank_collectives"].columns
    con.execute(f"CREATE TABLE rank_collectives ({', '.join(f'{c.name} {c.type}' for c in columns)})")
    for facts in ranks:
        con.executemany(f"INSERT INTO rank_collectives VALUES ({', '.join('?' * len(columns))})", facts)
    evaluate(con, "clock", ["dumps", "rank_collectives"])
    con.execute(f"CREATE OR REPLACE TABLE _members AS {catalog.relations()['_members'].sql}")
    return con


MET = (
    "SELECT list(rank ORDER BY rank), min(arrival_ns), max(arrival_ns) FROM _members GROUP BY group_id, instance"
    " ORDER BY 2, 1"
)


def test_each_send_meets_the_receive_of_its_own_peer() -> None:
    """Four stages in one group; the middle ones talk to two neighbours, so that their numbers count both."""
    con = _members(
        _rank(0, _send(100, 1, comm_seq=1), _receive(900, 1, comm_seq=2)),
        _rank(
            1,
            _receive(110, 0, comm_seq=1),
            _send(300, 2, comm_seq=2),
            _receive(700, 2, comm_seq=3),
            _send(910, 0, comm_seq=4),
        ),
        _rank(
            2,
            _receive(310, 1, comm_seq=1),
            _send(500, 3, comm_seq=2),
            _receive(600, 3, comm_seq=3),
            _send(710, 1, comm_seq=4),
        ),
        _rank(3, _receive(510, 2, comm_seq=1), _send(610, 2, comm_seq=2)),
    )

    assert rows(con, MET) == [
        ([0, 1], 100, 110),
        ([1, 2], 300, 310),
        ([2, 3], 500, 510),
        ([2, 3], 600, 610),
        ([1, 2], 700, 710),
        ([0, 1], 900, 910),
    ]
    assert rows(con, "SELECT DISTINCT group_id, op, n_members, match_by FROM _members") == [
        ("5", "send_recv", 2, "end")
    ]
    assert rows(con, "SELECT DISTINCT shape FROM _members WHERE rank = 3 ORDER BY 1") == [
        ("send_recv 2>3",),
        ("send_recv 3>2",),
    ]


def test_in_a_group_of_two_the_peer_needs_no_metadata() -> None:
    con = _members(
        _rank(0, _send(100, None, **PAIR), _send(200, None, **PAIR), _receive(300, None, **PAIR)),
        _rank(1, _receive(110, None, **PAIR), _receive(210, None, **PAIR), _send(310, None, **PAIR)),
    )

    assert rows(con, MET) == [([0, 1], 100, 110), ([0, 1], 200, 210), ([0, 1], 300, 310)]


def test_ranks_that_begin_to_record_at_another_send_are_matched_from_the_end() -> None:
    con = _members(
        _rank(0, _send(100, 1), _send(200, 1), _send(300, 1)),
        _rank(1, _receive(210, 0), _receive(310, 0)),
    )

    assert rows(con, MET) == [([0], 100, 100), ([0, 1], 200, 210), ([0, 1], 300, 310)]


def test_a_peer_that_nothing_says_is_alone() -> None:
    con = _members(_rank(0, _send(100, None), _send(200, None)), _rank(1, _receive(110, None)))

    assert rows(con, MET) == [([0], 100, 100), ([1], 110, 110), ([0], 200, 200)]
    assert rows(con, "SELECT DISTINCT n_members FROM _members") == [(2,)]


def test_sends_share_the_number_of_the_collective_after_them_and_do_not_shift_it() -> None:
    """Older profilers number a send by the group's next collective; ranks differ in how many they send before it."""
    con = _members(
        _rank(0, _send(100, 1, comm_seq=1), _reduce(400, 1), _reduce(500, 2)),
        _rank(1, _receive(110, 0, comm_seq=1), _send(200, 2, comm_seq=1), _reduce(410, 1), _reduce(510, 2)),
        _rank(2, _receive(210, 1, comm_seq=1), _reduce(420, 1), _reduce(520, 2)),
        _rank(3, _reduce(430, 1), _reduce(530, 2)),
    )

    assert rows(con, MET) == [
        ([0, 1], 100, 110),
        ([1, 2], 200, 210),
        ([0, 1, 2, 3], 400, 430),
        ([0, 1, 2, 3], 500, 530),
    ]
    assert rows(con, "SELECT DISTINCT op, match_by, n_members FROM _members ORDER BY 1") == [
        ("all_reduce", "seq", 4),
        ("send_recv", "end", 2),
    ]


def test_a_dump_without_its_end_is_matched_step_by_step() -> None:
    cut = [
        tuple(False if c.name == "has_end" else value for c, value in zip(_columns(), row, strict=True))
        for row in _rank(0, _send(100, 1), _send(200, 1))
    ]

    con = _members(cut, _rank(1, _receive(110, 0), _receive(210, 0), _receive(310, 0)))

    assert rows(con, MET) == [([0, 1], 100, 110), ([0, 1], 200, 210), ([1], 310, 310)]
    assert rows(con, "SELECT DISTINCT match_by, seq FROM _members") == [("step", None)]


def _columns() -> tuple[catalog.Column, ...]:
    return catalog.relations()["rank_collectives"].columns


def test_a_coalesced_launch_is_known_by_its_kernel_and_its_peer_is_not() -> None:
    """The group call has a range of its own, in which nothing says what was coalesced."""
    con = analyzed(
        link(
            [
                step(10, 0, 100_000),
                {**operator("record_param_comms", 20, 30), **GROUP, "comm_op": "send", "comm_target_rank": 1},
                annotation("nccl:coalesced", 40, 90),
                launch_call(50, 60),
                kernel(70, 500, name=SEND_RECV, launch=50),
            ]
        )
    )

    assert rows(con, "SELECT op, shape, group_name, peer FROM rank_collectives") == [
        ("send_recv", "send_recv", None, None)
    ]


@pytest.mark.parametrize("ranks", [[0, 1, 2, 3], "[0, 1, 2, 3]"], ids=["numbers", "text"])
def test_members_cut_short_are_taken_from_the_dumps_list_as_numbers_or_as_text(ranks: list[int] | str) -> None:
    config = json.dumps([{"pg_name": "5", "pg_desc": "mesh_pp", "ranks": ranks}, {"pg_name": "9", "ranks": "all"}])

    con = _members(_rank(0, _reduce(100, 1, comm_group_ranks="[0, 1, ...]")), process_groups=config)

    assert rows(con, "SELECT DISTINCT group_id, members, source FROM group_queues") == [
        ("5", [0, 1, 2, 3], "arguments")
    ]


def test_a_kernel_whose_stream_is_not_known_still_queues() -> None:
    con = analyzed(link([step(10, 0, 100_000), {**_reduce(100, 1), "stream": None, "comm_group": None}]))

    assert rows(con, "SELECT lane, queue, op FROM rank_collectives") == [("device", "lane device", "all_reduce")]
