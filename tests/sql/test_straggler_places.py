"""Who was waited for, by host, rack and rail."""

from __future__ import annotations

from typing import Any

from evaluation import connection
from longpole import catalog

MS = 1_000_000


def places(named: list[tuple[int, int, int, str, str | None]]) -> list[tuple[Any, ...]]:
    """Return the rows of a run of two steps of 100 ms and four ranks: two a host, one rack, two rails by turns.

    Args:
        named: Step, rank, how late in ms, cause and place of its stragglers.
    """
    con = connection()
    con.execute(
        "CREATE TABLE ranks AS SELECT r::INT AS rank, 'h' || r // 2 AS host, 'r' AS rack, (r % 2)::VARCHAR AS rail,"
        " TRUE AS is_recorded FROM range(4) AS t (r)"
    )
    con.execute(
        "CREATE TABLE steps AS SELECT s AS step, 100000000::BIGINT AS duration_ns, 4 AS n_ranks"
        " FROM range(1, 3) AS t (s)"
    )
    con.execute(
        "CREATE TABLE step_stragglers (step BIGINT, rank INT, late_ns BIGINT, is_straggler BOOLEAN, cause TEXT,"
        " cause_ns BIGINT, place TEXT)"
    )
    for step, rank, late, cause, place in named:
        con.execute(
            "INSERT INTO step_stragglers VALUES (?, ?, ?, TRUE, ?, ?, ?)",
            [step, rank, late * MS, cause, late * MS, place],
        )
    for relation in catalog.leading_to(["run_straggler_places"], {"ranks", "steps", "step_stragglers"}):
        con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
    return con.execute(
        "SELECT level, place, n_ranks, n_stragglers, late_ns // 1000000, round(late_ratio, 3),"
        " round(lost_gpu_hours * 3600 * 1000)::INT, round(share_lost_ratio, 3), cause FROM run_straggler_places"
        " ORDER BY level, place"
    ).fetchall()


def test_a_rank_late_in_both_steps_is_late_on_its_host_its_rack_and_its_rail() -> None:
    """Three ranks waited twice, 10 ms and 20: 90 ms of GPUs."""
    assert places([(1, 2, 10, "host", None), (2, 2, 20, "host", None)]) == [
        ("host", "h1", 2, 1, 30, 0.15, 90, 1.0, "host"),
        ("rack", "r", 4, 1, 30, 0.15, 90, 1.0, "host"),
        ("rail", "0", 2, 1, 30, 0.15, 90, 1.0, "host"),
    ]


def test_the_ranks_of_a_link_share_what_waited_and_their_time_counts_once() -> None:
    """Four ranks wait for the link of 2 and 3, which have half of it each; both are on one host, on two rails."""
    found = places([(step, rank, 10, "link", "group 1") for step in (1, 2) for rank in (2, 3)])

    assert found == [
        ("host", "h1", 2, 2, 20, 0.1, 80, 1.0, "link"),
        ("rack", "r", 4, 2, 20, 0.1, 80, 1.0, "link"),
        ("rail", "0", 2, 1, 20, 0.1, 40, 0.5, "link"),
        ("rail", "1", 2, 1, 20, 0.1, 40, 0.5, "link"),
    ]


def test_a_rank_that_was_late_once_is_chance_and_in_no_place() -> None:
    assert places([(1, 2, 10, "host", None)]) == []
