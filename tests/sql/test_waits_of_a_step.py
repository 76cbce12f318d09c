"""A rank's wait in a step is the union of its waits, in whatever order they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from evaluation import connection, rows
from longpole import catalog

Wait = tuple[int, int | None, int, int, int]  # rank, step, activity_no, arrival_ns, wait_ns

OVERLAPPING: tuple[Wait, ...] = ((0, 5, 1, 10, 30), (0, 5, 2, 30, 20), (0, 5, 3, 45, 5), (1, 5, 1, 12, 8))
APART: tuple[Wait, ...] = ((0, 5, 1, 10, 10), (1, 5, 1, 15, 5), (0, 5, 2, 20, 15), (0, 6, 3, 40, 1))


def waited(waits: Sequence[Wait]) -> list[tuple[int, int, int]]:
    """Return rank, step and wait of the rank's steps, of collectives stored in this order."""
    known = catalog.relations()
    con = connection()
    for name in ("collectives", "rank_windows", "rank_clocks"):
        con.execute(f"CREATE TABLE {name} ({', '.join(f'{c.name} {c.type}' for c in known[name].columns)})")
    con.executemany(
        "INSERT INTO collectives BY NAME SELECT $1 AS rank, $2 AS step, $3 AS activity_no, $4 AS arrival_ns,"
        " $5 AS wait_ns, TRUE AS is_complete",
        waits,
    )
    con.execute("INSERT INTO rank_windows BY NAME SELECT DISTINCT rank, step, 'ok' AS verdict FROM collectives")
    con.execute("INSERT INTO rank_clocks BY NAME SELECT DISTINCT rank, 'ok' AS verdict FROM collectives")
    con.execute("CREATE TABLE shard AS SELECT 0::BIGINT AS first_step, 9::BIGINT AS last_step")
    return rows(con, f"SELECT rank, step, wait_ns FROM ({known['rank_steps'].sql}) ORDER BY rank, step")


@pytest.mark.parametrize("waits", list(permutations(OVERLAPPING)))
def test_what_two_communicators_wait_at_once_counts_once(waits: tuple[Wait, ...]) -> None:
    assert waited(waits) == [(0, 5, 40), (1, 5, 8)]


@pytest.mark.parametrize("waits", list(permutations(APART)))
def test_waits_that_follow_each_other_add_up_and_no_others_beside_them(waits: tuple[Wait, ...]) -> None:
    assert waited(waits) == [(0, 5, 25), (0, 6, 1), (1, 5, 5)]


def test_a_collective_without_a_wait_or_a_step_adds_nothing() -> None:
    assert waited([(0, 5, 1, 10, 0), (0, 5, 2, 20, 15), (0, None, 3, 60, 5)]) == [(0, 5, 15)]
