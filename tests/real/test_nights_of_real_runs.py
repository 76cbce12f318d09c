"""A night over real dumps of several formats: each folder is a run, and the next night has nothing to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longpole import cli
from longpole.cli import nightly
from pipeline_inline import inline_commands

RUNS = {
    "kineto": "single/simple_add.json.gz",
    "hang": "flight-recorder/missing/*.json",
    "rpd": "rocpd/*.gz",
}
"""The quickest of each format; the larger ones are made by every other test here."""


def test_real_dumps_of_three_kinds_are_a_night_and_then_none(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = inline_commands(monkeypatch)
    monkeypatch.setattr(nightly, "_pause", lambda seconds: None)
    for run, dumps in RUNS.items():
        (tmp_path / "root" / run).mkdir(parents=True)
        for dump in traces.glob(dumps):
            (tmp_path / "root" / run / dump.name).symlink_to(dump)
    command = ["nightly", str(tmp_path / "root"), "--store", str(tmp_path / "store"), "-o", str(tmp_path / "out")]

    def night() -> dict[str, str]:
        assert cli.main(command) == 0, capsys.readouterr().err
        runs = json.loads((tmp_path / "out" / "verdict.json").read_text())["runs"]
        assert {run["page"] for run in runs} == {f"runs/{run}.html" for run in RUNS}
        return {run["run"]: run["status"] for run in runs}

    assert night() == dict.fromkeys(RUNS, "changed")
    store = {p: p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()}
    done.clear()
    assert night() == dict.fromkeys(RUNS, "unchanged")
    assert done == []
    assert {p: p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()} == store
