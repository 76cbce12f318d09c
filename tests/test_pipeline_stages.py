"""The bubble of a pipeline's stages: as measured, beside that of its schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation import connection, rows
from longpole import synth
from longpole.catalog import relations
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from timeline_cases import answered, pipeline
from timeline_reference import Op

STAGES = "SELECT stage, bubble_ratio, n_microbatches, schedule_ratio, excess_ratio, verdict FROM {} ORDER BY stage"


def passes(op: Op) -> int:
    """Return 100 ns for a pass and nothing for a transfer."""
    return 100 if op.optype in ("forward-compute", "backward-compute") else 0


def test_a_pipeline_without_gaps_has_the_bubble_of_its_schedule() -> None:
    con = answered(pipeline(1, 4, 8, passes, tail="none"))

    for stage, bubble, n_microbatches, schedule, excess, verdict in rows(con, STAGES.format("timeline_stages")):
        assert (bubble, n_microbatches, schedule) == (pytest.approx(3 / 11), 8, pytest.approx(3 / 11)), stage
        assert (excess, verdict) == (0.0, "ok")


def test_a_last_stage_with_twice_the_work_leaves_the_others_waiting() -> None:
    con = answered(pipeline(1, 4, 8, lambda op: passes(op) * (2 if op.stage == 3 else 1), tail="none"))

    found = rows(con, STAGES.format("timeline_stages"))
    # 16 passes of 200 on the last stage, 3 of 100 before its first and 3 after its last: 3,800 ns.
    assert [bubble for _, bubble, *_ in found] == pytest.approx([22 / 38, 22 / 38, 22 / 38, 6 / 38])
    assert [excess for *_, excess, _ in found] == [0.0, 0.0, 0.0, 1.0]


def test_a_receive_that_overlaps_a_pass_is_no_bubble() -> None:
    ops = [
        Op(0, 0, "forward-compute", 0, 0, 100),
        Op(0, 1, "forward-recv", 0, 50, 50),
        Op(0, 1, "forward-compute", 0, 80, 120),
    ]
    con = answered(ops)

    # The second stage receives alone from 50 to 80, and has no op before: 80 of 200 ns.
    assert rows(con, "SELECT stage, device_ns, compute_ns, bubble_ns FROM timeline_stages ORDER BY stage") == [
        (0, 200, 100, 100),
        (1, 200, 120, 80),
    ]


def stages_of(
    entries: list[tuple[int, int, int, int, int, int]], config: str = "NULL, NULL, NULL"
) -> list[tuple[Any, ...]]:
    """Return pipeline_stages of (step, stage, ranks, device, compute, bubble) with 4 exchanges; config is pp, m, v."""
    con = connection()
    con.execute("CREATE TABLE parallel (pp BIGINT, microbatches BIGINT, virtual_stages BIGINT)")
    con.execute(f"INSERT INTO parallel VALUES ({config})")
    columns = ", ".join(f"{c.name} {c.type}" for c in relations()["step_stages"].columns)
    con.execute(f"CREATE TABLE step_stages ({columns})")
    for step, stage, n_ranks, device, compute, bubble in entries:
        con.execute(
            "INSERT INTO step_stages VALUES ($1, $2, $3, $4, $5, 0, 0, $6, 4)",
            [step, stage, n_ranks, device, compute, bubble],
        )
    con.execute(f"CREATE TABLE pipeline_stages AS {relations()['pipeline_stages'].sql}")
    return rows(con, STAGES.format("pipeline_stages"))


TWO = [(5, 0, 1, 1000, 600, 400), (5, 1, 1, 1000, 900, 100)]


def test_microbatches_are_counted_from_the_exchanges_of_an_end_of_the_pipeline() -> None:
    assert stages_of(TWO) == [
        (0, 0.4, 2, pytest.approx(1 / 3), pytest.approx(-0.2), "ok"),
        (1, 0.1, 2, pytest.approx(1 / 3), pytest.approx(0.2), "ok"),
    ]


def test_the_config_says_the_schedule_where_it_does() -> None:
    assert [row[2:4] for row in stages_of(TWO, "2, 8, 2")] == [(8, pytest.approx(1 / 17))] * 2


def test_exchanges_that_fit_no_number_of_microbatches_leave_the_schedule_unknown() -> None:
    doubt = "schedule n/a: [parallel] microbatches is not given and its sends and receives do not tell"

    assert [row[2:] for row in stages_of(TWO, "2, NULL, 2")] == [
        (None, None, pytest.approx(-0.2), doubt),
        (None, None, pytest.approx(0.2), doubt),
    ]


def test_a_stage_that_is_not_recorded_is_said() -> None:
    assert [row[-1] for row in stages_of(TWO, "4, 8, 1")] == ["2 of 4 stages recorded"] * 2


def test_a_run_without_a_pipeline_has_no_stages() -> None:
    assert stages_of([(5, 0, 8, 8000, 600, 400)]) == []


def test_kernel_dumps_of_a_pipeline_show_its_microbatches_and_the_stage_with_more_to_do(tmp_path: Path) -> None:
    synth.write("straggler-stage", tmp_path / "dumps", form="events", ranks=8, steps=6, seed=1)
    store = Store(str(tmp_path / "store"))
    make_run(store, "made", [tmp_path / "dumps"])
    with Session(store) as session:
        found = session.con.execute(STAGES.format("pipeline_stages")).fetchall()
        sums = session.con.execute(
            "SELECT bool_and(device_ns = compute_ns + comm_ns + copy_ns + bubble_ns) FROM step_stages"
        ).fetchall()

    assert [(stage, n, round(schedule, 3)) for stage, _, n, schedule, *_ in found] == [(s, 4, 0.429) for s in range(4)]
    assert [excess > 0.1 for *_, excess, _ in found] == [False, False, False, True]
    assert found[0][1] > 0.4 > found[3][1]
    assert sums == [(True,)]
