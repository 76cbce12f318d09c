"""Clocks fitted to the ends of collectives: offsets, drifts, composition over groups, hosts, what cannot be tied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from evaluation import connection, dump_rows, evaluate, rows
from longpole import catalog

EPOCH = 1_700_000_000_000_000_000
MS = 1_000_000
S = 1_000_000_000

Ends = dict[int, Sequence[int]]
"""By rank, the ends of a group's collectives, from EPOCH, on the rank's own clock."""


def _clocks(dumps: list[dict[str, Any]], groups: list[Ends], **more: Any) -> duckdb.DuckDBPyConnection:
    """Return a connection with the clock level of these dumps and of groups g0, g1, …"""
    con = connection()
    con.register("dump_table", dump_rows(*dumps))
    con.execute("CREATE TABLE dumps AS FROM dump_table")
    columns = ", ".join(f"{c.name} {c.type}" for c in catalog.relations()["rank_collectives"].columns)
    con.execute(f"CREATE TABLE rank_collectives ({columns})")
    made = [
        {
            "rank": rank, "capture": 0, "capture_last_step": 9, "step": 9, "shard_step": 9, "activity_no": seq,
            "lane": "stream 7", "queue": f"g{number}", "op": "all_reduce", "shape": "all_reduce",
            "group_name": f"g{number}", "group_ranks": str(sorted(group)), "group_size": len(group), "seq": seq,
            "seq_place": 0, "from_end": len(ends) - 1 - seq, "in_step": seq, "has_end": True, "is_anchor": True,
            "arrival_ns": EPOCH + end - 1000, "end_ns": EPOCH + end, "exposed_ns": 0, **more,
        }
        for number, group in enumerate(groups)
        for rank, ends in group.items()
        for seq, end in enumerate(ends)
    ]  # fmt: skip
    if made:
        con.register("made", pa.Table.from_pylist(made))
        con.execute("INSERT INTO rank_collectives BY NAME FROM made")
    evaluate(con, "clock", ["dumps", "rank_collectives"])
    return con


def _hosts(*names: str) -> list[dict[str, Any]]:
    return [{"host": name} for name in names]


def _moved(ends: Sequence[int], offset: int, drift_ppb: int = 0) -> list[int]:
    """Return ends as a clock shows them that is wrong by the offset at EPOCH and by the drift from there."""
    return [end + offset + end * drift_ppb // 10**9 for end in ends]


TRUE = [n * 100 * MS for n in range(1, 13)]
"""Ends of twelve collectives, 100 ms apart."""

APART = _hosts("a", "b", "c", "d")


def test_two_groups_that_share_a_rank_tie_all_three() -> None:
    con = _clocks(
        APART[:3],
        [{0: TRUE, 1: _moved(TRUE, 5 * S)}, {1: _moved(TRUE, 5 * S + 40), 2: _moved(TRUE, -3 * S + 40)}],
    )

    assert rows(con, "SELECT * EXCLUDE (reference_ns) FROM rank_clocks ORDER BY rank") == [
        (0, 0, 0.0, 0, 12, 0, "collectives", "ok"),
        (1, 5 * S, 0.0, 0, 24, 0, "collectives", "ok"),
        (2, -3 * S, 0.0, 0, 12, 0, "collectives", "ok"),
    ]
    assert rows(con, "SELECT DISTINCT reference_ns FROM rank_clocks") == [(EPOCH + 100 * MS - 3 * S + 40,)]


def test_two_members_whose_ends_are_five_milliseconds_late_now_and_then_move_no_clock() -> None:
    late = _moved(TRUE, 7 * S)
    late[3] += 5 * MS
    late[8] += 5 * MS

    con = _clocks(APART[:3], [{0: TRUE, 1: late, 2: _moved(TRUE, -S)}])

    assert rows(con, "SELECT rank, shift_ns, slope, residual_ns FROM _member_fits ORDER BY rank") == [
        (0, 0, 0, 0),
        (1, 7 * S, 0, 0),
        (2, -S, 0, 0),
    ]
    assert rows(con, "SELECT offset_ns, drift_ppb, residual_ns FROM rank_clocks ORDER BY rank") == [
        (0, 0.0, 0),
        (7 * S, 0.0, 0),
        (-S, 0.0, 0),
    ]


SECONDS = [n * S for n in range(16)]


def test_a_drift_is_found_to_a_part_in_ten_to_the_nine_and_aligns_every_end() -> None:
    con = _clocks(APART[:3], [{0: SECONDS, 1: _moved(SECONDS, 2 * S, 20_000), 2: _moved(SECONDS, -S, -50_000)}])

    found = rows(con, "SELECT drift_ppb FROM rank_clocks ORDER BY rank")
    assert [d for (d,) in found] == pytest.approx([0, 19_999.6, -50_002.5], abs=1)
    # 15 s of 50 ppm are 750 µs; what is left is the rounding of two times.
    assert rows(
        con,
        "SELECT max(abs(end_ns - offset_ns - round(drift_ppb * (end_ns - reference_ns) / 1e9)::BIGINT"
        f" - {EPOCH} - seq * {S})) <= 2 FROM rank_collectives JOIN rank_clocks USING (rank)",
    ) == [(True,)]


def test_a_drift_that_moves_the_last_end_by_less_than_rounding_does_is_none() -> None:
    con = _clocks(APART[:2], [{0: SECONDS, 1: _moved(SECONDS, 2 * S, 40)}])

    assert rows(con, "SELECT offset_ns, drift_ppb FROM rank_clocks ORDER BY rank") == [(0, 0.0), (2 * S + 300, 0.0)]


def test_a_trend_of_a_few_microseconds_within_milliseconds_is_no_drift() -> None:
    ends = [n * MS for n in range(8)]
    trend = [end + 2 * S + late for end, late in zip(ends, (0, 0, 1000, 1000, 2000, 2000, 3000, 3000), strict=True)]

    con = _clocks(APART[:2], [{0: ends, 1: trend}])

    assert rows(con, "SELECT offset_ns, drift_ppb FROM rank_clocks ORDER BY rank") == [(0, 0.0), (2 * S + 1500, 0.0)]


def test_a_drift_hidden_in_jitter_is_none() -> None:
    jitter = (9_000, -9_000, 7_000, -8_000, 8_000, -7_000, 9_000, -9_000, 7_000, -8_000, 8_000, -7_000)
    shaken = [end + late for end, late in zip(_moved(TRUE, S, 20_000), jitter, strict=True)]

    con = _clocks(APART[:2], [{0: TRUE, 1: shaken}])

    assert rows(con, "SELECT drift_ppb FROM rank_clocks ORDER BY rank") == [(0.0,), (0.0,)]


LOOSE = (0, 4 * MS, -6 * MS, 9 * MS, -3 * MS, 7 * MS, -8 * MS, 2 * MS, -5 * MS, 6 * MS, -2 * MS, 5 * MS)
SHAKEN = [end + late for end, late in zip(TRUE, LOOSE, strict=True)]


def test_a_group_whose_members_leave_milliseconds_apart_ties_nothing_and_says_so() -> None:
    con = _clocks(APART[:2], [{0: TRUE, 1: SHAKEN}])

    verdict = "no anchor, members of its groups do not leave together: keeps its own clock"
    assert rows(con, "FROM rank_clocks ORDER BY rank") == [
        (0, None, 0, 0.0, None, 0, 0, "none", verdict),
        (1, None, 0, 0.0, None, 0, 1, "none", verdict),
    ]
    assert rows(con, "SELECT is_shared FROM _clock_basis") == [(False,)]


def test_one_loose_member_is_left_out_of_a_group_that_else_leaves_together() -> None:
    con = _clocks(APART[:3], [{0: TRUE, 1: _moved(TRUE, 3 * S), 2: SHAKEN}])

    assert rows(con, "SELECT rank, offset_ns, residual_ns, n_anchors, clock_no, basis, verdict FROM rank_clocks"
                     " ORDER BY rank") == [
        (0, 0, 0, 12, 0, "collectives", "not tied to every rank: comparable with those of clock 0"),
        (1, 3 * S, 0, 12, 0, "collectives", "not tied to every rank: comparable with those of clock 0"),
        (2, 0, None, 0, 2, "none", "no anchor, members of its groups do not leave together: keeps its own clock"),
    ]  # fmt: skip


def test_ranks_that_share_no_collective_keep_their_own_clocks_and_say_with_whom_they_compare() -> None:
    con = _clocks(
        _hosts("a", "b", "c", "d", "e"),
        [{0: TRUE, 1: _moved(TRUE, 5 * S)}, {2: _moved(TRUE, 2 * S), 3: _moved(TRUE, 9 * S)}],
    )

    assert rows(con, "SELECT rank, offset_ns, clock_no, basis, verdict FROM rank_clocks ORDER BY rank") == [
        (0, 0, 0, "collectives", "not tied to every rank: comparable with those of clock 0"),
        (1, 5 * S, 0, "collectives", "not tied to every rank: comparable with those of clock 0"),
        (2, 0, 2, "collectives", "not tied to every rank: comparable with those of clock 2"),
        (3, 7 * S, 2, "collectives", "not tied to every rank: comparable with those of clock 2"),
        (4, 0, 4, "none", "no anchor: keeps its own clock"),
    ]


@pytest.mark.parametrize(
    "more",
    [{"op": "send_recv"}, {"op": "broadcast"}, {"lane": "host"}, {"is_anchor": False}],
    ids=lambda m: f"{next(iter(m))}-{next(iter(m.values()))}",
)
def test_what_does_not_hold_every_member_to_the_end_is_no_anchor(more: dict[str, Any]) -> None:
    con = _clocks(APART[:2], [{0: TRUE, 1: _moved(TRUE, 5 * S)}], **more)

    assert rows(con, "SELECT offset_ns, n_anchors, verdict FROM rank_clocks ORDER BY rank") == [
        (0, 0, "no anchor: keeps its own clock"),
        (0, 0, "no anchor: keeps its own clock"),
    ]


def test_a_rank_without_anchors_takes_its_hosts_clock() -> None:
    con = _clocks(_hosts("a", "a", "b", "b"), [{0: TRUE, 2: _moved(TRUE, 5 * S)}])

    assert rows(con, "SELECT rank, offset_ns, n_anchors, clock_no, basis, verdict FROM rank_clocks ORDER BY rank") == [
        (0, 0, 12, 0, "collectives", "ok"),
        (1, 0, 0, 0, "host", "ok"),
        (2, 5 * S, 12, 0, "collectives", "ok"),
        (3, 5 * S, 0, 0, "host", "ok"),
    ]


def test_ranks_of_one_host_keep_its_clock_and_their_differences_are_the_residual() -> None:
    con = _clocks(_hosts("a", "a"), [{0: TRUE, 1: _moved(TRUE, 30_000)}])

    assert rows(con, "SELECT * EXCLUDE (reference_ns) FROM rank_clocks ORDER BY rank") == [
        (0, 0, 0.0, 15_000, 12, 0, "host", "ok"),
        (1, 0, 0.0, 15_000, 12, 0, "host", "ok"),
    ]
    assert rows(con, "SELECT is_shared, basis FROM _clock_basis") == [(True, "one host: a")]


def test_ranks_of_one_host_are_fitted_where_their_collectives_contradict_it() -> None:
    con = _clocks(_hosts("a", "a", "a"), [{0: TRUE, 1: TRUE, 2: _moved(TRUE, 480 * MS)}])

    assert rows(con, "SELECT offset_ns, residual_ns, basis FROM rank_clocks ORDER BY rank") == [
        (0, 0, "collectives"),
        (0, 0, "collectives"),
        (480 * MS, 0, "collectives"),
    ]


def test_ranks_of_two_hosts_share_each_hosts_clock_and_the_basis_is_their_collectives() -> None:
    con = _clocks(
        _hosts("a", "a", "b", "b"),
        [{0: TRUE, 1: _moved(TRUE, 6_000), 2: _moved(TRUE, 5 * S), 3: _moved(TRUE, 5 * S + 6_000)}],
    )

    assert rows(con, "SELECT rank, offset_ns, residual_ns, clock_no, basis FROM rank_clocks ORDER BY rank") == [
        (0, 0, 3_000, 0, "collectives"),
        (1, 0, 3_000, 0, "collectives"),
        (2, 5 * S, 3_000, 0, "collectives"),
        (3, 5 * S, 3_000, 0, "collectives"),
    ]
    assert rows(con, "SELECT is_shared, basis FROM _clock_basis") == [(True, "collective ends, to 3.0 µs")]


def test_a_host_is_contradicted_at_its_ranks_own_anchors_and_not_beyond_them() -> None:
    # Ranks 0 and 1 meet in the first second only and are 72 µs apart at its end; ranks 0 and 2 meet over an hour.
    hour = [n * 300 * S for n in range(13)]
    con = _clocks(_hosts("a", "a", "b"), [{0: TRUE, 1: _moved(TRUE, 0, 60_000)}, {0: hour, 2: _moved(hour, 5 * S)}])

    assert rows(con, "SELECT rank, offset_ns, drift_ppb FROM rank_clocks WHERE rank < 2 ORDER BY rank") == [
        (0, 0, 0.0),
        (1, 0, 0.0),
    ]


SPREAD = (
    "SELECT max(spread) FROM (SELECT max(aligned) - min(aligned) AS spread FROM ("
    "SELECT group_id, instance, x_ns - offset_ns - drift * x_ns AS aligned FROM _anchors JOIN {} ON rank = unit"
    ") GROUP BY group_id, instance)"
)
"""The most that members of a collective are apart by a relation's clocks."""


def test_clocks_compose_over_a_rank_that_drifts() -> None:
    middle = _moved(SECONDS, 5 * S, 50_000)

    con = _clocks(APART[:3], [{0: SECONDS, 1: middle}, {1: middle, 2: _moved(SECONDS, -10 * S, -20_000)}])

    # Five seconds of the middle rank's drift are 250 µs.
    assert rows(con, "SELECT drift <> 0 FROM _clock_composed ORDER BY unit") == [(False,), (True,), (True,)]
    for relation in ("_clock_composed", "_clock_refined"):
        ((spread,),) = rows(con, SPREAD.format(relation))
        assert spread < 5


SIX = [{"host": name} for name in "abcdef"]


def test_a_rank_that_is_late_in_one_group_is_set_right_by_another() -> None:
    # Composition goes by the larger group, in which rank 2 leaves 8 µs late four times; in the other it never does.
    con = _clocks(
        SIX,
        [
            {rank: _moved(TRUE[:4], rank * S + (8_000 if rank == 2 else 0)) for rank in range(6)},
            {rank: _moved(TRUE, rank * S + 50 * MS) for rank in range(1, 6)},
        ],
    )

    assert rows(con, "SELECT offset_ns FROM _clock_composed WHERE unit = 2") == [(2 * S + 8_000,)]
    assert rows(con, "SELECT offset_ns FROM rank_clocks ORDER BY rank") == [(rank * S,) for rank in range(6)]


def test_a_drift_of_one_group_is_set_right_by_another() -> None:
    half = [n * S // 2 for n in range(32)]
    con = _clocks(
        SIX,
        [
            {rank: _moved(SECONDS[:8], rank * S, 22_000 if rank == 2 else 0) for rank in range(6)},
            {rank: _moved(half, rank * S, 20_000 if rank == 2 else 0) for rank in range(1, 6)},
        ],
    )

    ((composed,),) = rows(con, "SELECT drift * 1e9 FROM _clock_composed WHERE unit = 2")
    ((refined,),) = rows(con, "SELECT drift_ppb FROM rank_clocks WHERE rank = 2")
    assert (composed, refined) == (pytest.approx(21_999.5, abs=1), pytest.approx(19_999.6, abs=1))


def test_three_pairs_in_a_ring_agree_on_three_clocks() -> None:
    late = (0, 4_000, 1_000, 3_000, 2_000, 0, 4_000, 1_000, 3_000, 2_000, 0, 4_000)

    def shaken(offset: int, turn: int) -> list[int]:
        return [end + offset + late[(n + turn) % 12] for n, end in enumerate(TRUE)]

    con = _clocks(
        APART[:3],
        [
            {0: shaken(0, 0), 1: shaken(2 * S, 3)},
            {1: shaken(2 * S, 1), 2: shaken(-4 * S, 5)},
            {0: shaken(0, 2), 2: shaken(-4 * S, 7)},
        ],
    )

    found = rows(con, "SELECT offset_ns, drift_ppb, residual_ns <= 1500, verdict FROM rank_clocks ORDER BY rank")
    assert [o for o, *_ in found] == pytest.approx([0, 2 * S, -4 * S], abs=1000)
    assert [rest for _, *rest in found] == [[0.0, True, "ok"]] * 3


def test_clocks_against_a_lowest_rank_that_drifts_itself_are_turned_to_its_time() -> None:
    con = connection()
    con.execute(
        "CREATE TABLE _units AS FROM (VALUES (0, 0, FALSE), (1, 1, FALSE)) AS t (rank, unit, is_shared);"
        "CREATE TABLE _anchors AS FROM (VALUES ('g', 'i', 0, 0::DOUBLE, 5::BIGINT), ('g', 'i', 1, 1e10, 5))"
        " AS t (group_id, instance, rank, x_ns, reference_ns);"
        "CREATE TABLE _member_fits AS FROM (VALUES ('g', 0, 0), ('g', 1, 0)) AS t (group_id, rank, residual_ns);"
        "CREATE TABLE _clock_refined AS FROM (VALUES (0, 0, 1000::DOUBLE, 1e-5::DOUBLE), (1, 0, 1e10, -2e-5))"
        " AS t (unit, clock_no, offset_ns, drift);"
        f"CREATE TABLE params AS {catalog.relations()['params'].sql}"
    )

    found = con.execute(f"SELECT offset_ns, drift_ppb FROM ({catalog.relations()['rank_clocks'].sql}) ORDER BY rank")

    # (1 + 2e-5) x - 1e10 = (1 - 1e-5) x0 - 1000, so x - x0 = (1e10 - 1000) / (1 - 1e-5) - 3e-5 / (1 - 1e-5) x.
    assert found.fetchall() == [(0, 0.0), (10_000_099_001, -30_000.3)]
