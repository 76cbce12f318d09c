"""Made runs with a straggler, and one without: who is named, and for what, is the simulator's own truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longpole import synth
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

Json = dict[str, Any]


def answered(folder: Path, scenario: str) -> tuple[list[tuple[Any, ...]], Json]:
    """Return the rows of run_stragglers, the latest first, and the truth of a made run of 8 ranks and 12 steps."""
    synth.write(scenario, folder / "dumps", form="events", ranks=8, steps=12, seed=1)
    store = Store(str(folder / "store"))
    make_run(store, "made", [folder / "dumps"])
    with Session(store) as session:
        rows = session.con.execute(
            "SELECT rank, cause, pattern, n_straggler, late_ns, place FROM run_stragglers ORDER BY late_ns DESC, rank"
        ).fetchall()
    truth: Json = json.loads((folder / "dumps" / "truth.json").read_text())
    return rows, truth


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
