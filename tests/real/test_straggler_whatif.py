"""Two published jobs with published answers: every number of them comes out of the run's tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

CLOSE = 1e-6
"""How far a number may be from the published one, which was computed in 32-bit floats; 0.1 % is asked for."""

JOBS = ("AR", "SE")

Key = tuple[str, ...]


@pytest.fixture(scope="module")
def folder(traces: Path) -> Path:
    return traces / "straggler-whatif"


@pytest.fixture(scope="module")
def session(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    store = Store(str(tmp_path_factory.mktemp("whatif") / "store"))
    for job in JOBS:  # of the two in the folder, the metadata says which is meant
        make_run(store, job, [folder])
    with Session(store) as opened:
        yield opened


def published(folder: Path, what: str, job: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((folder / f"{what}-{job}.json").read_text())
    return answers


def answers(session: Session, job: str, sql: str) -> dict[Key, float]:
    """Return the last column of a query about one run by the text of the others."""
    rows = session.con.execute(sql, {"run": job}).fetchall()
    found = {tuple(str(v) for v in row[:-1]): row[-1] for row in rows}
    assert len(found) == len(rows) > 0
    return found


def flat(told: dict[str, Any], before: Key = ()) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for key, value in told.items():
        found |= flat(value, (*before, key)) if isinstance(value, dict) else {(*before, key): value}
    return found


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("published_as", "duration"),
    [
        ("step_t_base", "any_value(recorded_ns)"),
        ("step_t_nodelay", "sum(duration_ns) FILTER (change = 'retimed')"),
        ("step_t_noblk", "sum(duration_ns) FILTER (change = 'ideal')"),
    ],
)
def test_steps_take_what_was_published(
    session: Session, folder: Path, job: str, published_as: str, duration: str
) -> None:
    found = answers(session, job, f"SELECT step, {duration} / 1e9 FROM timeline_replays WHERE run = $run GROUP BY step")
    assert found == pytest.approx(flat(published(folder, "result", job)[published_as]), rel=CLOSE)


@pytest.mark.parametrize("job", JOBS)
def test_the_slowdown_of_the_job_is_the_published_one(session: Session, folder: Path, job: str) -> None:
    told = published(folder, "result", job)
    found = answers(session, job, "SELECT measure, value_ratio FROM run_whatif WHERE run = $run AND dimension = 'run'")
    wanted = {("S",): told["blocking_slowdown"], ("launch_slowdown",): told["launch_slowdown"]}
    assert found == pytest.approx(wanted, rel=CLOSE)


@pytest.mark.parametrize("job", JOBS)
def test_slowdowns_of_steps_are_the_published_ones(session: Session, folder: Path, job: str) -> None:
    told = published(folder, "result", job)
    found = answers(
        session,
        job,
        "SELECT measure, group_key, value_ratio FROM run_whatif WHERE run = $run AND dimension = 'step'",
    )
    wanted = flat({"S": told["blocking_step_slowdown"], "launch_slowdown": told["launch_step_slowdown"]})
    assert found == pytest.approx(wanted, rel=CLOSE)


@pytest.mark.parametrize("job", JOBS)
def test_slowdowns_of_groups_are_the_published_ones(session: Session, folder: Path, job: str) -> None:
    told = published(folder, "result", job)
    groups = {"dp_rank": "dp_rank", "stage": "stage", "op_type": "optype"}
    found = answers(
        session,
        job,
        "SELECT dimension, group_key, value_ratio FROM run_whatif"
        " WHERE run = $run AND measure = 'S' AND dimension IN ('dp_rank', 'stage', 'op_type')",
    )
    wanted = flat({ours: told[f"blocking_decompose_by_{theirs}"] for ours, theirs in groups.items()})
    assert found == pytest.approx(wanted, rel=CLOSE)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("ours", "theirs"), [("dp_rank", "dp_rank"), ("stage", "stage"), ("op_type", "optype")])
def test_slowdowns_of_groups_in_each_step_are_the_published_ones(
    session: Session, folder: Path, job: str, ours: str, theirs: str
) -> None:
    found = answers(
        session,
        job,
        f"""
        SELECT kept.step, kept.group_key, kept.duration_ns / ideal.duration_ns
        FROM timeline_replays AS kept
        JOIN timeline_replays AS ideal ON kept.run = ideal.run AND kept.step = ideal.step AND ideal.change = 'ideal'
        WHERE kept.run = $run AND kept.change = 'only' AND kept.dimension = '{ours}'
        """,
    )
    wanted = flat(published(folder, "result", job)[f"blocking_decompose_by_{theirs}_per_step"])
    assert found == pytest.approx(wanted, rel=1e-5)  # a step alone averages nothing out


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("what", "measure"), [("mw", "M_W"), ("ms", "M_S")])
def test_what_the_slowest_workers_and_the_last_stage_cost_is_the_published_answer(
    session: Session, folder: Path, job: str, what: str, measure: str
) -> None:
    told = published(folder, what, job)
    rows = session.con.execute(
        "SELECT measure, value_ratio, duration_ns / 1e9, base_ns / 1e9 FROM run_whatif"
        " WHERE run = $run AND starts_with(measure, $measure)",
        {"run": job, "measure": measure},
    ).fetchall()
    found = {measure: rest for measure, *rest in rows}
    assert found.keys() == {measure, f"{measure}_alone"}
    assert found[measure] == pytest.approx([told["rem"], told["trem"], told["tori"]], rel=CLOSE)
    alone = [told["add"], told["tadd"], told["tideal"]]
    assert found[f"{measure}_alone"] == pytest.approx(alone, rel=CLOSE, abs=1e-7)  # 0.0024 is small beside its terms
    assert told["rem"] == told[{"mw": "Mw", "ms": "Ms"}[what]]


def test_the_numbers_that_the_definitions_quote_come_out(session: Session) -> None:
    sql = "SELECT measure, dimension, group_key, value_ratio FROM run_whatif WHERE run = $run"
    ar, se = answers(session, "AR", sql), answers(session, "SE", sql)
    assert ar["S", "run", "all"] == pytest.approx(1.9730450967262543, abs=1e-4)
    assert ar["launch_slowdown", "run", "all"] == pytest.approx(1.0067506609199466, abs=1e-4)
    assert (ar["M_W", "workers", "slowest"], ar["M_S", "stage", "3"]) == pytest.approx((1.00170, -0.00121), abs=1e-5)
    assert se["S", "run", "all"] == pytest.approx(1.5373613711484118, abs=1e-4)
    assert (se["M_W", "workers", "slowest"], se["M_S", "stage", "1"]) == pytest.approx((0.02506, 0.68771), abs=1e-5)


def test_the_slow_worker_of_the_slowed_job_is_named(session: Session) -> None:
    rows = session.con.execute(
        "SELECT rank, dp_rank, stage FROM timeline_workers WHERE run = 'AR' AND is_slowest"
    ).fetchall()
    assert rows == [(0, 0, 0)]


@pytest.mark.parametrize("job", JOBS)
def test_sizes_of_the_job_are_those_of_its_metadata(session: Session, folder: Path, job: str) -> None:
    told = published(folder, "result", job)["job_meta"]
    ((note, world_size, verdict),) = session.con.execute(
        "SELECT DISTINCT notes[1], world_size, verdict FROM dumps WHERE run = $run", {"run": job}
    ).fetchall()
    sizes = ", ".join(f"{n} {told[f'{n}_size']}" for n in ("dp", "pp", "tp", "dsp", "vpp", "world"))
    assert (note, world_size, verdict) == (f"its metadata says: {job}, {sizes}", told["world_size"], "ok")


def test_every_op_of_the_files_is_in_the_model(session: Session) -> None:
    rows = session.con.execute(
        "SELECT run, sum(n_ops)::INT, sum(n_unpaired)::INT FROM timeline_ideals GROUP BY run ORDER BY run"
    ).fetchall()
    assert rows == [("AR", 117_216, 0), ("SE", 107_328, 0)]
