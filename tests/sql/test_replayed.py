"""The replay gives every node the length of the longest path that leads to it."""

from __future__ import annotations

import functools

from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation import connection, rows
from longpole import catalog

Edge = tuple[int, int | None, int, int]


def replayed(edges: list[Edge]) -> list[tuple[int, int, int]]:
    con = connection()
    con.execute("CREATE TABLE replay_edges (scenario INTEGER, source BIGINT, node BIGINT, cost_ns BIGINT)")
    if edges:
        con.executemany("INSERT INTO replay_edges VALUES ($1, $2, $3, $4)", [list(e) for e in edges])
    return rows(con, f"FROM ({catalog.relations()['replayed'].sql}) ORDER BY ALL")


def test_a_node_happens_when_the_last_of_what_it_waits_for_has() -> None:
    edges = [(0, None, 1, 100), (0, 1, 2, 5), (0, 1, 3, 50), (0, 2, 3, 7), (0, 3, 4, -10), (0, None, 4, 120)]
    assert replayed(edges) == [(0, 1, 100), (0, 2, 105), (0, 3, 150), (0, 4, 140)]


def test_scenarios_do_not_meet() -> None:
    assert replayed([(0, None, 1, 1), (0, 1, 2, 10), (1, None, 1, 1), (1, 1, 2, 4)]) == [
        (0, 1, 1),
        (0, 2, 11),
        (1, 1, 1),
        (1, 2, 5),
    ]


def test_a_circle_has_no_times_and_ends() -> None:
    assert replayed([(0, None, 1, 1), (0, 3, 2, 1), (0, 2, 3, 1), (0, 1, 2, 1), (0, 3, 4, 1)]) == [(0, 1, 1)]


@st.composite
def graphs(draw: st.DrawFn) -> list[Edge]:
    n = draw(st.integers(1, 12))
    edges: list[Edge] = []
    for node in range(n):
        sources = draw(st.lists(st.integers(0, max(node - 1, 0)), max_size=3)) if node else []
        edges += [(0, source, node, draw(st.integers(-5, 50))) for source in sources]
        if not sources or draw(st.booleans()):
            edges.append((0, None, node, draw(st.integers(0, 100))))
    return edges


@given(graphs())
@settings(max_examples=100, deadline=None)
def test_times_are_longest_paths(edges: list[Edge]) -> None:
    @functools.cache
    def at(node: int) -> int:
        return max(cost + (0 if source is None else at(source)) for _, source, n, cost in edges if n == node)

    assert replayed(edges) == [(0, node, at(node)) for node in sorted({e[2] for e in edges})]
