"""Exposed comm of a window: bubble, wait, transfer, and what cannot be split; they add up to it."""

from __future__ import annotations

from typing import Any

import duckdb

from evaluation import rows
from longpole import catalog

Row = dict[str, Any]


def split(exposed_comm_ns: int, *spans: Row, stages: tuple[int | None, int | None] = (0, 1)) -> tuple[int, ...]:
    """Return bubble, wait, transfer and unsplit of rank 0's window of step 1; spans are its collectives."""
    con = duckdb.connect()
    for name in ("collectives", "_aligned", "ranks", "rank_windows"):
        columns = ", ".join(f"{c.name} {c.type}" for c in catalog.relations()[name].columns)
        con.execute(f"CREATE TABLE {name} ({columns})")
    con.execute("CREATE TABLE shard AS SELECT 0 AS first_step, 49 AS last_step")
    con.execute(
        "INSERT INTO rank_windows BY NAME SELECT 0 AS rank, 1 AS step, $1 AS exposed_comm_ns", [exposed_comm_ns]
    )
    for rank, stage in enumerate(stages):
        con.execute("INSERT INTO ranks BY NAME SELECT $1 AS rank, $2 AS pp", [rank, stage])
    for n, span in enumerate(spans):
        row = {"rank": 0, "step": 1, "op": "all_reduce", "is_complete": True, "activity_no": n, **span}
        names = ", ".join(row)
        con.execute(f"INSERT INTO collectives ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
        for rank in (0, 1):
            con.execute(
                "INSERT INTO _aligned BY NAME SELECT $1 AS rank, $2 AS instance_no, $3 AS op, $4 AS activity_no",
                [rank, n, row["op"], n if rank == 0 else 100 + n],
            )
    con.execute(f"CREATE TABLE found AS {catalog.relations()['rank_step_waits'].sql}")
    return rows(con, "SELECT bubble_ns, wait_ns, transfer_ns, unsplit_ns FROM found")[0]


def test_exposed_time_is_transfer_before_it_is_wait() -> None:
    # 100 ns of waiting, 40 of transfer; compute hides the first 80.
    assert split(60, {"wait_ns": 100, "transfer_ns": 40, "exposed_ns": 60}) == (0, 20, 40, 0)
    # All hidden but 30: they are the end of the transfer.
    assert split(30, {"wait_ns": 100, "transfer_ns": 40, "exposed_ns": 30}) == (0, 0, 30, 0)


def test_a_wait_between_stages_is_bubble() -> None:
    exchange = {"op": "send_recv", "wait_ns": 90, "transfer_ns": 10, "exposed_ns": 100}
    assert split(100, exchange) == (90, 0, 10, 0)
    assert split(100, exchange, stages=(None, None)) == (90, 0, 10, 0)  # no stage is known: sends are a pipeline's
    assert split(100, exchange, stages=(1, 1)) == (0, 90, 10, 0)


def test_what_has_absent_members_or_no_clock_is_not_split() -> None:
    absent = {"wait_ns": 90, "transfer_ns": 10, "exposed_ns": 100, "is_complete": False}
    unaligned = {"wait_ns": None, "transfer_ns": None, "exposed_ns": 50}
    assert split(150, absent, unaligned) == (0, 0, 0, 150)
    assert split(70) == (0, 0, 0, 70)  # launched by another step


def test_no_more_is_split_than_the_window_holds() -> None:
    exchange = {"op": "send_recv", "wait_ns": 90, "transfer_ns": 0, "exposed_ns": 90}
    reduction = {"wait_ns": 50, "transfer_ns": 30, "exposed_ns": 80}
    assert split(150, exchange, reduction) == (90, 50, 10, 0)
    assert split(100, exchange, reduction) == (90, 10, 0, 0)
