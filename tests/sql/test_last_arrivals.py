"""Who came last to a collective: the latest arrival's rank, the lowest of equals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from evaluation import connection, rows
from longpole import catalog

LATE = 1_700_000_000_123_456_789


def last(members: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the latest arrival and the last rank of one collective; each member is a rank and its arrival."""
    known = catalog.relations()
    con = connection()
    con.execute(f"CREATE TABLE _aligned ({', '.join(f'{c.name} {c.type}' for c in known['_aligned'].columns)})")
    con.execute("CREATE TABLE ranks (rank INTEGER)")
    con.executemany(
        "INSERT INTO _aligned BY NAME SELECT 1 AS instance_no, $1 AS rank, $2 AS arrival_ns, $2 + 10 AS end_ns", members
    )
    ((arrival_ns, rank),) = rows(con, f"SELECT last_arrival_ns, last_rank FROM ({known['_met_instances'].sql})")
    return arrival_ns, rank


@pytest.mark.parametrize("members", list(permutations([(0, LATE - 1), (3, LATE), (7, LATE - 200)])))
def test_the_latest_is_last_by_a_nanosecond(members: tuple[tuple[int, int], ...]) -> None:
    assert last(members) == (LATE, 3)


@pytest.mark.parametrize("members", list(permutations([(5, LATE), (2, LATE), (1_048_575, LATE)])))
def test_of_equals_the_lowest_rank_is_last(members: tuple[tuple[int, int], ...]) -> None:
    assert last(members) == (LATE, 2)


def test_times_before_1970_and_the_latest_there_are_do_as_well() -> None:
    assert last([(4, -20), (1_048_575, -7), (9, -7)]) == (-7, 9)
    assert last([(1_048_575, 2**63 - 20), (0, 2**63 - 20)]) == (2**63 - 20, 0)
