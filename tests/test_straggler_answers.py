"""Made runs with a straggler, and one without: who is named, and for what, is the simulator's own truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longpole import synth, whatif
from longpole.analyze import analyze_run
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import inline, make_run

Json = dict[str, Any]


def made(folder: Path, scenario: str, *, has_what_ifs: bool = False) -> tuple[Store, Json]:
    """Return the store of a made run of 8 ranks and 12 steps, and its truth."""
    synth.write(scenario, folder / "dumps", form="events", ranks=8, steps=12, seed=1)
    store = Store(str(folder / "store"))
    make_run(store, "made", [folder / "dumps"], has_what_ifs=has_what_ifs)
    truth: Json = json.loads((folder / "dumps" / "truth.json").read_text())
    return store, truth


def rows_of(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with Session(store) as session:
        return session.con.execute(sql).fetchall()


def answered(folder: Path, scenario: str) -> tuple[list[tuple[Any, ...]], Json]:
    """Return the rows of run_stragglers, the latest first, and the truth of a made run."""
    store, truth = made(folder, scenario)
    sql = "SELECT rank, cause, pattern, n_straggler, late_ns, place FROM run_stragglers ORDER BY late_ns DESC, rank"
    return rows_of(store, sql), truth


@pytest.mark.parametrize("cause", ["compute", "host", "input"])
def test_a_persistent_straggler_is_named_with_its_cause_and_what_it_costs(tmp_path: Path, cause: str) -> None:
    rows, truth = answered(tmp_path, f"straggler-{cause}")

    ((rank, found, pattern, n_steps, late_ns, place),) = rows
    (told,) = truth["stragglers"]
    assert ([rank], found, pattern, n_steps, place) == (told["ranks"], cause, "persistent", 12, None)
    # Lateness is counted against the median of the others, the saving against the next of them.
    assert abs(late_ns / 12 - told["ns_per_step"]) < 0.25 * told["ns_per_step"]


def test_pauses_are_named_in_their_steps_and_called_transient(tmp_path: Path) -> None:
    rows, truth = answered(tmp_path, "straggler-gc")

    assert {(rank, n) for rank, _, _, n, *_ in rows} == {
        (entry["ranks"][0], len(entry["steps"])) for entry in truth["stragglers"]
    }
    assert {(cause, pattern) for _, cause, pattern, *_ in rows} <= {("host", "transient"), ("host", "periodic")}


def test_longer_sequences_on_another_rank_each_step_are_no_slow_devices(tmp_path: Path) -> None:
    rows, truth = answered(tmp_path, "straggler-sequence")

    assert {rank for rank, *_ in rows} == {r for entry in truth["stragglers"] for r in entry["ranks"]}
    assert {cause for _, cause, *_ in rows} == {"sequence"}


@pytest.mark.parametrize(("cause", "place"), [("link", "node4, node5"), ("stage", "stage 3")])
def test_a_slow_link_and_a_slow_stage_are_named_on_all_their_ranks(tmp_path: Path, cause: str, place: str) -> None:
    rows, truth = answered(tmp_path, f"straggler-{cause}")

    (told,) = truth["stragglers"]
    assert [row[:4] for row in rows] == [(rank, cause, "persistent", 12) for rank in told["ranks"]]
    assert {row[5] for row in rows} == {place}
    # A link's bound is the last arrival, and a stage's excess is against all stages of the job, not the next one alone.
    assert all(abs(row[4] / 12 - told["ns_per_step"]) < 0.25 * told["ns_per_step"] for row in rows)


def test_nobody_is_named_in_a_healthy_run(tmp_path: Path) -> None:
    rows, truth = answered(tmp_path, "healthy")

    assert (rows, truth["stragglers"]) == ([], [])


@pytest.mark.parametrize("cause", ["compute", "host", "input"])
def test_a_straggler_costs_what_the_same_run_takes_less_without_it(tmp_path: Path, cause: str) -> None:
    store, truth = made(tmp_path, f"straggler-{cause}", has_what_ifs=True)

    ((saved_ns, slowdown, verdict),) = rows_of(store, "SELECT saved_ns, slowdown_ratio, verdict FROM run_stragglers")
    (told,) = truth["stragglers"]
    ((step_ns,),) = rows_of(store, "SELECT avg(duration_ns) FROM steps")
    assert abs(saved_ns - told["ns_per_step"]) < 0.25 * told["ns_per_step"]
    assert abs(slowdown - step_ns / (step_ns - saved_ns)) < 1e-6
    assert verdict == "ok"


def test_a_straggler_makes_most_of_the_slowdown_of_its_run(tmp_path: Path) -> None:
    store, _ = made(tmp_path, "straggler-host", has_what_ifs=True)

    found = dict(rows_of(store, "SELECT measure, value_ratio FROM run_whatif WHERE dimension IN ('run', 'workers')"))
    assert found.keys() == {"S", "M_W"}
    assert found["S"] > 1.05
    assert 0.6 < found["M_W"] <= 1.0


def test_the_first_thing_to_fix_is_the_straggler(tmp_path: Path) -> None:
    store, truth = made(tmp_path, "straggler-input", has_what_ifs=True)

    ranked = rows_of(
        store, "SELECT what, kind, rank, saved_ns FROM run_opportunities ORDER BY saved_ns DESC, path_ns DESC"
    )
    (told,) = truth["stragglers"]
    fixes = {(kind, rank): saved_ns for what, kind, rank, saved_ns in ranked if what == "fix"}
    assert fixes[None, told["ranks"][0]] > 0.7 * 12 * told["ns_per_step"]
    assert [saved for *_, saved in ranked] == sorted((saved for *_, saved in ranked), reverse=True)


def test_what_ifs_of_a_larger_run_are_asked_only_where_a_person_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = made(tmp_path, "healthy")
    asked = "SELECT measure, dimension FROM run_whatif WHERE dimension <> 'step' ORDER BY ALL"

    def analyzed(has_what_ifs: bool | None) -> list[tuple[Any, ...]]:
        with store.lock("made"):
            analyze_run(store, "made", run_tasks=inline, has_what_ifs=has_what_ifs)
        return rows_of(store, asked)

    monkeypatch.setattr(whatif, "MOST_PRICED_EVENTS", 1)
    assert analyzed(None) == []
    assert analyzed(True) == [("S", "run")]
    assert analyzed(None) == [("S", "run")]
