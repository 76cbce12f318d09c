"""Other people's runs by phase, and beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from longpole import catalog
from longpole.report import compare
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

# rank, step, window and idle of known answers: their difference is what the phases add up to.
BUSY = [
    ("nanogpt-8x-h100", 6, 10, 36_080_031 - 968_221),
    ("nanogpt-8x-h100", 1, 11, 48_352_271 - 14_477_438),
    ("rccl_mi300_rank0_of_8", 0, 15, 18_980_345 - 92_619),
    ("rccl_mi300_rank0_of_8", 0, 17, 18_554_331 - 108_620),
]


@pytest.mark.parametrize("expected", BUSY, ids=lambda e: f"{e[0]}-r{e[1]}-s{e[2]}")
def test_phases_add_up_to_the_known_busy_time(real: Session, expected: tuple[str | int, ...]) -> None:
    run, rank, step, busy_ns = expected

    found = real.con.execute(
        "SELECT sum(gpu_ns) FROM phases WHERE run = $1 AND rank = $2 AND step = $3", [run, rank, step]
    ).fetchall()

    assert found == [(busy_ns,)]


def test_phases_add_up_in_every_set(real: Session) -> None:
    assert real.sql(catalog.relations()["phases_add_up"].sql).fetchall() == []


def test_a_recording_of_forward_alone_has_no_other_phase(real: Session) -> None:
    found = real.con.execute("SELECT DISTINCT phase FROM phases WHERE run = 'megatron-tp8-a100'").fetchall()

    assert found == [("forward",)]


def test_training_has_its_phases_on_every_rank(real: Session) -> None:
    found = real.con.execute(
        "SELECT phase, count(DISTINCT rank) FROM phases WHERE run = 'nanogpt-8x-h100' AND phase <> 'sync'"
        " GROUP BY phase ORDER BY phase"
    ).fetchall()

    assert found == [("backward", 8), ("forward", 8), ("optimizer", 8)]


def test_two_captures_of_one_job_are_within_noise(traces: Path, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    for name, pattern in (("first", "*.step7.*"), ("second", "*.step14.*")):
        make_run(store, name, sorted((traces / "gloo-4x-cpu").glob(pattern)))

    with Session(store) as session:
        found = compare.build(session.con, store.manifest("first"), store.manifest("second"))

    assert (found.head.verdict, found.head.reasons) == ("within noise", ())
    assert (found.head.baseline_ns, found.head.value_ns) == (84_396_801, 81_168_075)
    assert [part.item for part in found.of("time") + found.of("phase") if part.is_changed] == []


def test_runs_of_two_models_are_not_recordings_of_one_job(real: Session, real_store: Store) -> None:
    found = compare.build(real.con, real_store.manifest("nanogpt-8x-h100"), real_store.manifest("torchrec-4x-v100"))

    assert found.head.verdict == "not comparable"
    assert found.head.reasons[0] == "the job has 4 ranks, the baseline's 8"


@pytest.mark.parametrize("run", ["dlrm-8x-v100", "simple_add", "cpu_only", "rank_missing", "kineto_2021_schema"])
def test_whatever_is_compared_there_is_an_answer(real: Session, real_store: Store, run: str) -> None:
    found = compare.build(real.con, real_store.manifest("nanogpt-8x-h100"), real_store.manifest(run))

    assert found.head.verdict in ("not comparable", "n/a: it has no steps", "n/a: fewer than three steps")
