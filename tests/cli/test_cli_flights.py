"""A job that hung, as a person meets it on the command line."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from flight_cases import call, lost_rank_5, of_calls, write_dumps
from longpole import cli


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str], str]:
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_run_names_the_first_cause_and_its_page_says_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dumps = lost_rank_5()
    dumps[5]["entries"][-1]["frames"] = [{"name": "<b>x</b>", "filename": "load.py", "line": 7}]
    write_dumps(here / "dumps", dumps)
    code, out, err = run(capsys, "run", "dumps", "--name", "job", "-o", "page.html")
    assert code == 0, err
    assert out == [
        "job: flight recorders of 8 ranks, 37 records",
        "First cause: rank 5 never enqueued all_reduce, collective 3 of group 3 (tp2).",
        "Its last call was at load.py:7 <b>x</b>.",
        "Besides: rank 5 never enqueued all_reduce, collective 2 of group 6 (dp1).",
        "1 more call waits because of these.",
    ]
    html = (here / "page.html").read_text()
    soup = BeautifulSoup(html, "html.parser")
    header, members = soup.header, soup.find(id="members")
    assert header is not None and members is not None
    shown = " ".join(header.get_text().split())
    assert all(line in shown for line in out)
    assert [[c.get_text() for c in row.find_all(["th", "td"])][:4] for row in members.find_all("tr")[1:]] == [
        ["5", "never enqueued", "n/a", "n/a"],
        ["4", "started", "all_reduce", "1,000"],
    ]
    assert "<b>x</b>" not in html
    assert run(capsys, "report", "job", "-o", "again.html")[0] == 0
    assert (here / "again.html").read_text() == html


def test_ingest_counts_the_files_of_flight_records(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dumps(here / "dumps", lost_rank_5())
    code, out, err = run(capsys, "ingest", "dumps", "--name", "job")
    assert (code, out) == (0, ["job"])
    assert "wrote 8 files of flight records of run job\n" in err


def test_a_job_that_does_not_hang_is_said_not_to(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dumps(
        here / "dumps",
        of_calls({rank: [call("0", 1, "barrier", rank)] for rank in range(4)}, {"0": ("default_pg", range(4))}),
    )
    code, out, err = run(capsys, "run", "dumps", "--name", "job", "-o", "page.html")
    assert code == 0, err
    assert out == [
        "job: flight recorders of 4 ranks, 4 records",
        "Nothing hangs: whatever was recorded ended on every rank that recorded it.",
    ]
    assert "Nothing hangs" in (here / "page.html").read_text()
    for command in (
        ["check", "job"],
        ["runs"],
        ["report", "job", "--kind", "postmortem"],
        ["explain", "job", "--step", "1"],
    ):
        code, _, err = run(capsys, *command)
        assert "Traceback" not in err
    assert run(capsys, "check", "job")[0] == 0


def test_inspect_says_what_a_dump_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dumps(here, lost_rank_5())
    code, out, _ = run(capsys, "inspect", "nccl_trace_rank_5")
    assert code == 0
    assert [line.strip() for line in out[1:]] == [
        "format    flight-recorder: pickle, version 2.5",
        "rank      5 (from its name) of 8",
        "groups    2",
        "records   3: completed 3",
        "last      nccl:all_reduce, collective 1 of group 6, at train.py:11 step",
    ]


def test_inspect_refuses_a_pickle_that_would_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "fr_rank_0").write_bytes(pickle.dumps({"entries": [print]}, 2))
    code, out, _ = run(capsys, "inspect", "fr_rank_0")
    assert code == 1
    assert "is a pickle with the opcode GLOBAL at byte" in out[1]


def test_a_hang_beside_profiler_dumps_is_told_after_the_summary(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "synth", "training", "-o", "dumps", "--ranks", "2", "--steps", "3")[0] == 0
    calls = {0: [call("0", 9, "all_reduce", 1, "started")], 1: [call("0", 8, "all_reduce", 0)]}
    write_dumps(here / "dumps", of_calls(calls, {"0": ("default_pg", [0, 1])}))
    code, out, err = run(capsys, "run", "dumps", "--name", "job", "-o", "page.html")
    assert code == 0, err
    assert out[-2:] == [
        "First cause: rank 1 never enqueued all_reduce, collective 9 of group 0 (default_pg).",
        "Its last call was at train.py:18 step.",
    ]
    assert "step" in out[0]
