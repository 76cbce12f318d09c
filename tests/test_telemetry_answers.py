"""Telemetry beside a run's dumps: a slow device's cause is its clock, and what joins nothing says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longpole import synth
from longpole.errors import LongpoleError
from longpole.session import Session
from longpole.store import Store
from longpole.synth.stragglers import SM_CLOCK_MHZ
from pipeline_inline import make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("clock") / "dumps"
    synth.write("straggler-clock", made, form="events", ranks=4, steps=5, seed=1)
    with (made / "telemetry.csv").open("a") as file:
        file.write("2026-11-29T13:15:03Z, node9, 0, 1980, 688.75, 61, 0x0\n")
    (made / "smi.csv").write_text("timestamp, index, clocks.sm [MHz]\n2026/11/29 13:15:03.5, 0, 1980 MHz\n")
    return made


@pytest.fixture(scope="module")
def session(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    store = Store(str(tmp_path_factory.mktemp("store")))
    make_run(store, "made", [folder])
    with Session(store) as opened:
        yield opened


def rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    return session.sql(sql).fetchall()


def test_a_slow_device_is_named_for_its_clock(session: Session, folder: Path) -> None:
    (told,) = json.loads((folder / "truth.json").read_text())["stragglers"]
    (slow,) = told["ranks"]

    assert rows(session, "SELECT rank, cause, n_straggler FROM run_stragglers") == [(slow, "clock", 5)]
    assert rows(session, "SELECT DISTINCT cause FROM step_stragglers WHERE is_straggler") == [("clock",)]
    (mhz,) = {round(hz / 1e6) for (hz,) in rows(session, f"SELECT sm_clock_hz FROM rank_telemetry WHERE rank = {slow}")}
    # Kernels that take longer by some share have a clock that is lower by as much.
    assert 0.8 < mhz / SM_CLOCK_MHZ < 0.95
    others = (
        f"SELECT DISTINCT sm_clock_hz / 1e6, throttled_ratio, covered_ratio FROM rank_telemetry WHERE rank <> {slow}"
    )
    assert rows(session, others) == [(SM_CLOCK_MHZ, 0, 1)]


def test_what_joins_nothing_is_said(session: Session) -> None:
    assert rows(
        session,
        """SELECT "check", expected, found, verdict FROM run_coverage WHERE "check" LIKE '%telemetry' ORDER BY 1""",
    ) == [
        ("hosts of telemetry", 5, 4, "1: no rank is known to be on node9"),
        ("ranks with telemetry", 4, 4, "ok"),
    ]
    ((name, error),) = rows(session, "SELECT file_name, error FROM dumps WHERE error IS NOT NULL")
    assert name == "smi.csv"
    assert "has times without a time zone (2026/11/29 13:15:03.5)" in error
    assert '[telemetry] utc_offset = "+00:00"' in error


def test_telemetry_alone_is_no_run(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LongpoleError, match=r"telemetry.csv is telemetry, which stands beside dumps"):
        make_run(Store(str(tmp_path)), "t", [folder / "telemetry.csv"])
