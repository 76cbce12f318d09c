"""The shipped fixtures through the whole pipeline: every number of truth.json, and the worked ones by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from longpole import synth
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[1] / "fixtures"
SCENARIOS = ("worked", "worked-contended", "worked-late-input", "idle-causes", "cpu")
MADE = {"training": (3, 5), "graphs": (2, 3)}
FORMS: tuple[Literal["kineto", "events"], ...] = ("kineto", "events")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    store = Store(str(tmp_path_factory.mktemp("worked") / "store"))
    for name in SCENARIOS:
        make_run(store, name, [FIXTURES / name])
    for name, (ranks, steps) in MADE.items():
        folder = tmp_path_factory.mktemp(name)
        for form in FORMS:
            synth.write(name, folder / form, form=form, ranks=ranks, steps=steps)
            make_run(store, f"{name}-{form}", [folder / form])
            TRUTHS[f"{name}-{form}"] = folder / form / "truth.json"
    opened = Session(store)
    opened.con.execute("SELECT 1")
    return opened


TRUTHS = {name: FIXTURES / name / "truth.json" for name in SCENARIOS}


@pytest.mark.parametrize("run", [*SCENARIOS, *(f"{name}-{form}" for name in MADE for form in FORMS)])
def test_every_rank_step_and_step_is_the_truth(session: Session, run: str) -> None:
    truth = json.loads(TRUTHS[run].read_text())
    columns = list(truth["rank_steps"][0])

    found = session.con.execute(
        f"SELECT {', '.join(columns)} FROM rank_steps WHERE run = $1 ORDER BY rank, step", [run]
    ).fetchall()

    expected = sorted(truth["rank_steps"], key=lambda r: (r["rank"], r["step"]))
    assert [dict(zip(columns, row, strict=True)) for row in found] == expected
    steps = session.con.execute(
        "SELECT step, duration_ns, end_rank FROM steps WHERE run = $1 ORDER BY step", [run]
    ).fetchall()
    assert steps == [(s["step"], s["duration_ns"], s["end_rank"]) for s in truth["steps"]]


@pytest.mark.parametrize(
    ("run", "milliseconds", "exposed_ms"),
    [("worked", 750, 50), ("worked-contended", 780, 0), ("worked-late-input", 830, 50)],
)
def test_the_worked_steps_take_750_780_and_830_with_50_0_and_50_exposed(
    session: Session, run: str, milliseconds: int, exposed_ms: int
) -> None:
    steps = session.con.execute("SELECT DISTINCT duration_ns, verdict FROM steps WHERE run = $1", [run]).fetchall()
    ranks = session.con.execute(
        "SELECT DISTINCT duration_ns, exposed_comm_ns FROM rank_steps WHERE run = $1", [run]
    ).fetchall()

    assert steps == [(milliseconds * 10**6, "ok")]
    assert ranks == [(milliseconds * 10**6, exposed_ms * 10**6)]
