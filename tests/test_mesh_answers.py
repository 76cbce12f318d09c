"""The made mesh through the whole pipeline: 32 ranks on four hosts whose clocks disagree, held to its truth.json."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from longpole import catalog, synth
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

Json = dict[str, Any]

HOP_NS = 5_000
"""Arrivals closer than this are a tie."""

CLOCK_NS = 1_000
"""Aligned times are right to this."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Json]:
    """Return a session over the run `kineto`, and over a smaller one made of events; and the answers of the first."""
    folder = tmp_path_factory.mktemp("mesh")
    store = Store(str(folder / "store"))
    synth.write("mesh", folder / "kineto")
    make_run(store, "kineto", [folder / "kineto"])
    synth.write("mesh", folder / "events", form="events", ranks=16, steps=2)
    make_run(store, "events", [folder / "events"])
    return Session(store), json.loads((folder / "kineto" / "truth.json").read_text())


def _rows(made: tuple[Session, Json], sql: str) -> list[tuple[Any, ...]]:
    return made[0].con.execute(sql).fetchall()


def test_every_group_has_its_members(made: tuple[Session, Json]) -> None:
    found = _rows(
        made,
        "SELECT group_id, any_value(description), list(rank ORDER BY rank), any_value(source), max(n_recorded)"
        " FROM groups WHERE run = 'kineto' GROUP BY group_id ORDER BY group_id::INT",
    )

    assert found == [
        (group["group"], group["description"], group["ranks"], "arguments", len(group["ranks"]))
        for group in made[1]["groups"]
    ]


def _instances(made: tuple[Session, Json]) -> list[tuple[Json, tuple[Any, ...]]]:
    """Return each answer with the row found for it: of a group the collectives of one kind follow each other."""
    rows: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in _rows(
        made,
        "SELECT group_id, op, step, n_ranks, n_present, n_bytes, is_complete, verdict, last_rank, skew_ns, seq, shape"
        " FROM collective_instances WHERE run = 'kineto' ORDER BY last_arrival_ns",
    ):
        rows[row[:2]].append(row[2:])
    truths: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for truth in sorted(made[1]["instances"], key=lambda instance: int(instance["last_arrival_ns"])):
        truths[truth["group"], truth["op"]].append(truth)
    assert {key: len(found) for key, found in rows.items()} == {key: len(known) for key, known in truths.items()}
    return [pair for key, known in truths.items() for pair in zip(known, rows[key], strict=True)]


def test_every_collective_is_matched_on_all_its_ranks(made: tuple[Session, Json]) -> None:
    pairs = _instances(made)

    assert len(pairs) == 6 * (129 + 64 + 16 + 16)
    assert {row[4:6] for _, row in pairs} == {(True, "ok")}
    assert [row[:4] for _, row in pairs] == [(t["step"], t["n_ranks"], t["n_ranks"], t["n_bytes"]) for t, _ in pairs]


def test_a_send_and_its_receive_are_one_instance_of_two(made: tuple[Session, Json]) -> None:
    found = _rows(
        made,
        "SELECT i.n_ranks, i.shape, list(c.rank ORDER BY c.rank), i.n_bytes, count(DISTINCT c.op)"
        " FROM collective_instances AS i JOIN collectives AS c USING (run, group_id, seq, shape)"
        " WHERE run = 'kineto' AND i.step = 10 AND i.group_id IN ('1', '16')"
        " GROUP BY i.group_id, i.n_ranks, i.shape, i.n_bytes, i.last_arrival_ns"
        " ORDER BY i.group_id::INT, i.last_arrival_ns",
    )

    forward = [(2, f"send_recv {low}>{low + 16}", [low, low + 16], 13_107_200, 1) for low in (0, 15)]
    backward = [(2, f"send_recv {low + 16}>{low}", [low, low + 16], 13_107_200, 1) for low in (0, 15)]
    assert found == [row for low in (0, 1) for row in (*[forward[low]] * 2, *[backward[low]] * 2)]


def test_what_ranks_of_one_host_say_of_each_other_needs_no_clock(made: tuple[Session, Json]) -> None:
    within = {group["group"] for group in made[1]["groups"] if group["description"] == "mesh_tp"}
    pairs = [(truth, row) for truth, row in _instances(made) if truth["group"] in within]

    assert len(pairs) == 6 * 8 * 16
    # Two times of one clock, which runs up to 50 ppm fast, each to a nanosecond.
    assert max(abs(row[7] - truth["skew_ns"]) for truth, row in pairs) <= 4
    assert [row[6] for truth, row in pairs if truth["margin_ns"] > 4] == [
        truth["last_rank"] for truth, _ in pairs if truth["margin_ns"] > 4
    ]


def test_every_rank_is_on_the_runs_clock_to_a_microsecond_from_its_first_to_its_last_step(
    made: tuple[Session, Json],
) -> None:
    since = made[1]["clock_reference_ns"]
    clocks = {clock["rank"]: clock for clock in made[1]["clocks"]}

    worst = 0
    for rank, reference, offset, drift, verdict, first, last in _rows(
        made,
        "SELECT rank, c.reference_ns, c.offset_ns, c.drift_ppb, c.verdict, min(s.start_ns), max(s.end_ns)"
        " FROM rank_clocks AS c JOIN rank_steps AS s USING (run, rank) WHERE run = 'kineto' GROUP BY ALL",
    ):
        assert verdict == "ok"
        known = clocks.pop(rank)
        for shown in (first, (first + last) // 2, last):
            aligned = shown - offset - round(drift * (shown - reference) / 1e9)
            true = shown - known["offset_ns"] - round(known["drift_ppb"] * (shown - since) / 1e9)
            worst = max(worst, abs(aligned - true))
    assert clocks == {}
    assert worst < CLOCK_NS


def test_who_came_last_is_known_wherever_it_is_no_tie(made: tuple[Session, Json]) -> None:
    pairs = [(truth, row) for truth, row in _instances(made) if truth["margin_ns"] > HOP_NS]

    assert len(pairs) > 700
    assert [row[6] for _, row in pairs] == [truth["last_rank"] for truth, _ in pairs]


def test_every_wait_is_right_to_two_microseconds(made: tuple[Session, Json]) -> None:
    waits: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    for group, seq, shape, rank, wait in _rows(
        made, "SELECT group_id, seq, shape, rank, wait_ns FROM collectives WHERE run = 'kineto'"
    ):
        waits[group, seq, shape][rank] = wait
    members = {group["group"]: group["ranks"] for group in made[1]["groups"]}

    errors = [
        abs(waits[truth["group"], row[8], row[9]][rank] - known)
        for truth, row in _instances(made)
        for rank, known in zip(members[truth["group"]], truth["wait_ns"], strict=True)
    ]

    assert len(errors) == 6 * (32 + 128 * 4 + 64 * 2 + 32 * 4)
    assert max(errors) < 2 * CLOCK_NS


def test_steps_of_the_run_last_what_they_do_on_its_clock(made: tuple[Session, Json]) -> None:
    found = _rows(made, "SELECT step, duration_ns, verdict FROM steps WHERE run = 'kineto' ORDER BY step")

    assert [(step, verdict) for step, _, verdict in found] == [(step, "ok") for step in range(10, 16)]
    known = [step["duration_ns"] for step in made[1]["steps"]]
    assert [ns for _, ns, _ in found] == pytest.approx(known, abs=2 * CLOCK_NS)


def test_every_rank_step_is_the_truth_on_its_own_clock(made: tuple[Session, Json]) -> None:
    columns = list(made[1]["rank_steps"][0])

    found = _rows(made, f"SELECT {', '.join(columns)} FROM rank_steps WHERE run = 'kineto' ORDER BY rank, step")

    known = sorted(made[1]["rank_steps"], key=lambda row: (row["rank"], row["step"]))
    assert [dict(zip(columns, row, strict=True)) for row in found] == known


def test_the_place_of_each_rank_in_the_mesh_is_known(made: tuple[Session, Json]) -> None:
    found = _rows(made, "SELECT rank, pp, dp, tp, host FROM ranks WHERE run = 'kineto' ORDER BY rank")

    assert found == [(r, r // 16, r // 4 % 4, r % 4, f"node{r // 8}") for r in range(32)]


def test_events_of_half_as_many_ranks_match_as_well(made: tuple[Session, Json]) -> None:
    found = _rows(
        made,
        "SELECT op, n_ranks, count(*), bool_and(is_complete) FROM collective_instances WHERE run = 'events'"
        " GROUP BY op, n_ranks ORDER BY op, n_ranks",
    )

    assert found == [
        ("all_gather", 2, 2 * 16, True),
        ("all_reduce", 4, 2 * 64, True),
        ("all_reduce", 16, 2, True),
        ("reduce_scatter", 2, 2 * 16, True),
        ("send_recv", 2, 2 * 32, True),
    ]


def test_every_path_is_its_step_although_no_rank_keeps_the_runs_clock(made: tuple[Session, Json]) -> None:
    paths = _rows(made, "SELECT run, count(DISTINCT step) FROM step_critical_path GROUP BY run ORDER BY run")

    assert paths == [("events", 2), ("kineto", 6)]
    assert _rows(made, catalog.relations()["paths_add_up"].sql) == []


def test_a_path_goes_on_at_the_rank_that_a_collective_had_waited_for(made: tuple[Session, Json]) -> None:
    overs = _rows(
        made,
        "SELECT * FROM (SELECT step, rank, end_ns, lag(rank) OVER (PARTITION BY step ORDER BY piece_no) AS to_rank"
        " FROM path_pieces WHERE run = 'kineto') WHERE rank <> to_rank",
    )
    members = {group["group"]: group["ranks"] for group in made[1]["groups"]}

    assert len(overs) > 100
    for _, from_rank, at_ns, to_rank in overs:
        assert [
            truth
            for truth in made[1]["instances"]
            if truth["last_rank"] == from_rank
            and abs(truth["last_arrival_ns"] - at_ns) < CLOCK_NS
            and {from_rank, to_rank} <= set(members[truth["group"]])
        ]
