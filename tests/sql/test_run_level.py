"""Steps across ranks, one clock or none, and what a run's rows say of what is missing."""

from typing import Any

import duckdb
import pytest

from evaluation import connection, dump_rows, evaluate, rows
from longpole import catalog


def _run(
    dumps: list[dict[str, Any]], steps: list[tuple[Any, ...]], shard: tuple[int, int] = (0, 10**9)
) -> duckdb.DuckDBPyConnection:
    """Return a connection with the run level of these dumps and (rank, capture, step, start, end, verdict) rows."""
    con = connection()
    con.register("dump_table", dump_rows(*dumps))
    con.execute("CREATE TABLE dumps AS FROM dump_table")
    con.execute("CREATE TABLE shard AS SELECT $1::BIGINT AS first_step, $2::BIGINT AS last_step", list(shard))
    for name in ("rank_windows", "rank_captures", "rank_collectives", "rank_chains", "step_critical_path"):
        columns = ", ".join(f"{c.name} {c.type}" for c in catalog.relations()[name].columns)
        con.execute(f"CREATE TABLE {name} ({columns})")
    con.execute(
        "CREATE TABLE brief (rank INT, capture BIGINT, step BIGINT, start_ns BIGINT, end_ns BIGINT, verdict VARCHAR)"
    )
    if steps:
        con.executemany("INSERT INTO brief VALUES (?, ?, ?, ?, ?, ?)", [list(s) for s in steps])
    con.execute("INSERT INTO rank_windows BY NAME SELECT *, end_ns - start_ns AS duration_ns FROM brief")
    given = ["rank_windows", "rank_captures", "rank_collectives", "rank_chains", "step_critical_path", "dumps", "shard"]
    for scope in ("clock", "steps", "run"):
        evaluate(con, scope, given)
        given += [r.name for r in catalog.needed(scope, given)]
    return con


ONE_HOST = [{"host": "a"}, {"host": "a"}]


def test_a_step_lasts_from_the_last_completion_to_the_last_completion() -> None:
    con = _run(
        ONE_HOST,
        [(0, 0, 1, 100, 300, "ok"), (1, 0, 1, 110, 290, "ok"), (0, 0, 2, 300, 500, "ok"), (1, 0, 2, 290, 520, "ok")],
    )

    assert rows(con, "SELECT step, start_ns, end_ns, duration_ns, end_rank, end_margin_ns, start_skew_ns, n_ranks,"
                     " verdict FROM steps ORDER BY step") == [
        (1, 110, 300, 190, 0, 10, 10, 2, "ok"),
        (2, 300, 520, 220, 1, 20, None, 2, "ok"),
    ]  # fmt: skip


def test_a_new_capture_starts_with_its_own_ranks() -> None:
    con = _run(
        ONE_HOST,
        [(0, 0, 1, 0, 100, "ok"), (1, 0, 1, 0, 100, "ok"), (0, 1, 9, 1000, 1100, "ok"), (1, 1, 9, 1020, 1080, "ok")],
    )

    assert rows(con, "SELECT step, capture, start_ns, duration_ns, start_skew_ns FROM steps ORDER BY 1") == [
        (1, 0, 0, 100, 0),
        (9, 1, 1020, 80, 20),
    ]


def test_the_first_step_of_a_shard_starts_where_the_step_before_it_ended() -> None:
    steps = [(r, 0, n, n * 100 + r, n * 100 + 100 + r, "ok") for r in (0, 1) for n in (49, 50, 51)]

    con = _run(ONE_HOST, steps, shard=(50, 99))

    assert rows(con, "SELECT step, start_ns, end_ns, start_skew_ns FROM steps ORDER BY 1") == [
        (50, 5001, 5101, None),
        (51, 5101, 5201, None),
    ]


def test_a_missing_rank_is_named() -> None:
    con = _run([{"host": "a", "world_size": 3}], [(0, 0, 1, 0, 100, "ok")])

    assert rows(con, "SELECT n_ranks, duration_ns, verdict FROM steps") == [(1, 100, "rank absent: 1, 2")]
    assert rows(con, "SELECT world_size, n_ranks, verdict, reasons FROM runs") == [
        (3, 1, "doubts", ["rank absent: 2 of 3"]),
    ]
    assert rows(con, "SELECT rank, is_recorded FROM ranks ORDER BY 1") == [(0, True), (1, False), (2, False)]


def test_the_doubts_of_a_rank_are_those_of_the_step() -> None:
    con = _run(
        ONE_HOST, [(0, 0, 1, 0, 100, "dump truncated; 4 launches missing"), (1, 0, 1, 0, 90, "7 launches missing")]
    )

    assert rows(con, "SELECT verdict FROM steps") == [("dump truncated; launches missing",)]
    assert rows(con, "SELECT reasons FROM runs") == [
        (["dump truncated: 1 of 2 rank-steps", "launches missing: 2 of 2 rank-steps"],)
    ]


@pytest.mark.parametrize(
    ("dumps", "is_shared", "basis"),
    [
        ([{"host": "a"}], True, "one rank"),
        ([{"host": "a"}, {"host": "a"}], True, "one host: a"),
        ([{"host": "a"}, {"host": "b"}], False, "2 hosts without a collective that ties them"),
        (
            [{"host": "a", "device_index": 0, "n_devices": 8}, {"host": "b", "device_index": 1, "n_devices": 8}],
            False,
            "2 hosts without a collective that ties them",
        ),
        (
            [{"device_index": 0, "n_devices": 8}, {"device_index": 1, "n_devices": 8}],
            True,
            "one host: each rank on its own of 8 devices",
        ),
        (
            [{"device_index": 0, "n_devices": 8}, {"device_index": 0, "n_devices": 8}],
            False,
            "the dumps do not say that the ranks share a host, and no collective ties them",
        ),
        (
            [
                {"device_index": 0, "n_devices": 8, "world_size": 16},
                {"device_index": 1, "n_devices": 8, "world_size": 16},
            ],
            False,
            "the dumps do not say that the ranks share a host, and no collective ties them",
        ),
        ([{"host": "a"}, {}], False, "the dumps do not say that the ranks share a host, and no collective ties them"),
        (
            [
                {"file_name": "n1_71.1700000000000.pt.trace.json.gz", "process": 71},
                {"file_name": "n1_72.1700000000001.pt.trace.json.gz", "process": 72},
            ],
            True,
            "one host: n1",
        ),
        (
            [
                {"file_name": "n1_71.1700000000000.pt.trace.json", "process": 71},
                {"file_name": "n2_71.1700000000001.pt.trace.json", "process": 71},
            ],
            False,
            "2 hosts without a collective that ties them",
        ),
        (
            [  # looks like HOST_PROCESS, but the process is another: a name that the user chose
                {
                    "file_name": "worker0_step_12.1694.pt.trace.json",
                    "process": 59811,
                    "device_index": 0,
                    "n_devices": 8,
                },
                {
                    "file_name": "worker1_step_12.1694.pt.trace.json",
                    "process": 59812,
                    "device_index": 1,
                    "n_devices": 8,
                },
            ],
            True,
            "one host: each rank on its own of 8 devices",
        ),
    ],
)
def test_ranks_share_a_clock_only_where_the_dumps_show_one_host(
    dumps: list[dict[str, Any]], is_shared: bool, basis: str
) -> None:
    steps = [(r, 0, 1, 0, 100, "ok") for r in range(len(dumps))]

    con = _run(dumps, steps)

    assert rows(con, "SELECT is_shared, basis FROM _clock_basis") == [(is_shared, basis)]
    (found,) = rows(con, "SELECT duration_ns, contains(verdict, 'clock not aligned') FROM steps")
    assert found == ((100, False) if is_shared else (None, True))


def test_coverage_counts_what_is_missing() -> None:
    con = _run(
        [
            {
                "host": "a",
                "world_size": 2,
                "n_events": 10,
                "n_stored": 6,
                "n_skipped": 3,
                "n_dropped": 1,
                "is_truncated": True,
            }
        ],
        [(0, 0, 1, 0, 100, "ok")],
    )

    found = {check: rest for check, *rest in rows(con, 'SELECT "check", expected, found, verdict FROM run_coverage')}
    assert found["ranks"] == [2, 1, "1: ranks without a dump"]
    assert found["dumps with their end"] == [1, 0, "1: dumps cut off"]
    assert found["events"] == [10, 9, "1: events dropped"]
    assert found["rank-steps"] == [2, 1, "1: steps that a rank did not record"]
    assert found["activities with their launch"] == [None, None, "n/a: nothing to count"]


def _coordinates(description: str, members: str, **sizes: int) -> list[tuple[Any, ...]]:
    con = _run(
        [{"host": "a"}, {"host": "a"}, {"host": "a"}, {"host": "a"}], [(r, 0, 1, 0, 100, "ok") for r in range(4)]
    )
    con.execute("DELETE FROM parallel")
    con.execute("INSERT INTO parallel (dp, tp, pp) VALUES ($1, $2, $3)", [sizes.get(n) for n in ("dp", "tp", "pp")])
    con.execute("DELETE FROM groups")
    for lowest in members.split():
        ranks = [int(c) for c in lowest]
        con.executemany(
            "INSERT INTO groups (group_id, rank, description, n_ranks) VALUES ($1, $2, $3, $4)",
            [[lowest, r, description, len(ranks)] for r in ranks],
        )
    return rows(con, f"SELECT rank, dp, tp, pp FROM ({catalog.relations()['_coordinates'].sql}) ORDER BY rank")


def test_a_group_that_names_its_dimension_gives_coordinates() -> None:
    assert _coordinates("mesh_tp", "01 23") == [(0, None, 0, None), (1, None, 1, None), (2, None, 0, None),
                                                (3, None, 1, None)]  # fmt: skip


def test_a_group_of_two_dimensions_gives_none() -> None:
    assert _coordinates("mesh_dp_cp", "0123") == []


def test_sizes_in_run_toml_give_coordinates_where_they_multiply_to_the_world() -> None:
    assert _coordinates("default_pg", "0123", dp=2, tp=2) == [(0, 0, 0, 0), (1, 0, 1, 0), (2, 1, 0, 0), (3, 1, 1, 0)]
    assert _coordinates("default_pg", "0123", dp=2, tp=4) == []
