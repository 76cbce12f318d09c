"""Night after night, as a batch system calls it: what is done again, what fails, and what it leaves behind."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from longpole import cli, synth
from longpole.cli import nightly
from longpole.store import Store
from pipeline_inline import Done, inline_commands


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Done:
    """Return the list that tasks enter as they run, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LONGPOLE_STORE", raising=False)
    monkeypatch.setattr(nightly, "_pause", lambda seconds: None)
    return inline_commands(monkeypatch)


def trace(path: Path, rank: int, steps: Sequence[int], *, start_us: int = 0, length_us: int = 100) -> Path:
    """Write a dump with a step for each number, each launching one kernel that takes half of it."""
    events: list[dict[str, Any]] = []
    for place, number in enumerate(steps):
        at = start_us + place * length_us
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1,
                       "ts": at, "dur": length_us})  # fmt: skip
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                       "ts": at + 10, "dur": 5, "args": {"correlation": 1000 + place}})  # fmt: skip
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + length_us // 5,
                       "dur": length_us // 2,
                       "args": {"device": 0, "stream": 7, "correlation": 1000 + place}})  # fmt: skip
    whole = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2},
             "deviceProperties": [{"id": n, "name": "X"} for n in range(2)], "traceEvents": events}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole))
    return path


def run_folder(name: str, *, start_us: int, length_us: int = 100, config: str = '[run]\njob = "j"\n') -> Path:
    """Write a run of two ranks and four steps."""
    folder = Path("root", name)
    for rank in (0, 1):
        trace(folder / f"rank{rank}.json", rank, range(4), start_us=start_us, length_us=length_us)
    (folder / "run.toml").write_text(config)
    return folder


def night(capsys: pytest.CaptureFixture[str], *more: str, settle: str = "0s") -> tuple[int, dict[str, Any], str]:
    """Return exit code, verdict.json and stderr of a night."""
    code = cli.main(["nightly", "root", "-o", "out", "--settle", settle, *more])
    return code, json.loads(Path("out", "verdict.json").read_text()), capsys.readouterr().err


def statuses(verdict: dict[str, Any]) -> dict[str, str]:
    return {run["run"]: run["status"] for run in verdict["runs"]}


def test_the_first_night_does_all_the_second_nothing_and_the_third_what_one_rank_touched(
    done: Done, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, name in enumerate(("a", "b", "c")):
        run_folder(name, start_us=10_000_000 * place)
    code, verdict, _ = night(capsys)
    assert (code, statuses(verdict)) == (0, {"a": "changed", "b": "changed", "c": "changed"})
    assert sum(name.endswith(".json") for _, name, _, _ in done) == 6
    assert sum(scope == "rank" for _, scope, _, _ in done) == 6
    pages = {p: p.read_bytes() for p in Path("out", "runs").glob("*.html")}
    assert {p.name for p in pages} == {"a.html", "b.html", "c.html"}

    done.clear()
    code, verdict, _ = night(capsys)
    assert (code, statuses(verdict)) == (0, {"a": "unchanged", "b": "unchanged", "c": "unchanged"})
    assert done == []
    assert {p: p.read_bytes() for p in Path("out", "runs").glob("*.html")} == pages

    trace(Path("root", "b", "rank1.second.json"), 1, range(100, 103), start_us=20_000_000)
    code, verdict, _ = night(capsys)
    assert (code, statuses(verdict)) == (0, {"a": "unchanged", "b": "changed", "c": "unchanged"})
    assert [entry for entry in done if entry[0] == "read_dump"] == [("read_dump", "rank1.second.json", None, None)]
    facts = [(scope, rank) for _, scope, rank, _ in done if scope == "rank"]
    assert facts == [("rank", 1)]
    assert [first for _, scope, _, first in done if scope == "steps"] == [100]
    assert [first for _, scope, _, first in done if scope == "paths"] == [100]


def test_a_dump_that_has_grown_is_read_again_and_one_that_was_touched_changes_nothing(
    done: Done, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder("a", start_us=0)
    night(capsys)
    trace(folder / "rank1.json", 1, range(6))
    done.clear()

    _, verdict, _ = night(capsys)

    assert statuses(verdict) == {"a": "changed"}
    assert [name for task, name, _, _ in done if task == "read_dump"] == ["rank1.json"]
    assert [rank for _, scope, rank, _ in done if scope == "rank"] == [1]
    done.clear()
    before = Store("longpole-store").manifest("a").files
    (folder / "rank0.json").touch()
    night(capsys)
    assert [entry[:2] for entry in done] == [("read_dump", "rank0.json")]
    assert Store("longpole-store").manifest("a").files == before


def test_a_gate_that_fails_ends_with_3_and_says_its_name_value_and_limit(
    done: Done, capsys: pytest.CaptureFixture[str]
) -> None:
    config = '[run]\njob = "j"\n[gates]\nstep_time_worse_ratio = 0.05\nmfu_ratio = 0.3\ncoverage_ratio = 0.5\n'
    run_folder("a", start_us=0, config=config)
    run_folder("b", start_us=10_000_000, config=config)
    run_folder("c", start_us=20_000_000, length_us=120, config=config)

    code, verdict, err = night(capsys)

    assert code == 3
    assert "1 gate failed" in err
    told = (
        "run c: step_time_worse_ratio is 0.2 (20.00 %), at most 0.05 (5.00 %) is allowed (120.0 µs against 100.0 µs"
        " of b, noise 0 ns)"
    )
    assert told in err
    assert (verdict["exit_code"], verdict["n_gates_failed"]) == (3, 1)
    gates = {(run["run"], gate["gate"]): gate for run in verdict["runs"] for gate in run["gates"]}
    assert {key: gate["verdict"].partition(":")[0] for key, gate in gates.items() if key[0] == "c"} == {
        ("c", "coverage_ratio"): "passed",
        ("c", "mfu_ratio"): "n/a",
        ("c", "step_time_worse_ratio"): "failed",
    }
    assert gates["c", "step_time_worse_ratio"] | {"verdict": ""} == {
        "gate": "step_time_worse_ratio",
        "measure": "step_time_ns",
        "value": pytest.approx(0.2),
        "threshold": 0.05,
        "is_most": True,
        "measured": 120_000.0,
        "baseline_run": "b",
        "baseline": 100_000.0,
        "noise_floor": 0.0,
        "verdict": "",
    }
    suites = {suite.attrib["name"]: suite for suite in ElementTree.parse("out/junit.xml").getroot()}  # noqa: S314
    counts = [suites["c"].attrib[key] for key in ("tests", "failures", "errors", "skipped")]
    assert counts == ["4", "1", "0", "1"]
    failures = {case.attrib["name"]: f.attrib["message"] for case in suites["c"] for f in case.findall("failure")}
    assert failures == {"step_time_worse_ratio": told}
    page = BeautifulSoup(Path("out", "index.html").read_text(), "html.parser")
    assert told in page.get_text()

    assert cli.main(["check", "c"]) == 3
    checked = capsys.readouterr()
    assert "failed  step_time_worse_ratio" in checked.out
    assert told in checked.err
    assert cli.main(["check", "b"]) == 0
    capsys.readouterr()
    code, verdict, _ = night(capsys)
    assert (code, verdict["exit_code"], verdict["n_gates_failed"]) == (0, 0, 0)


def test_a_run_that_cannot_be_read_stops_no_other(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder("a", start_us=0)
    Path("root", "b").mkdir()
    Path("root", "b", "rank0.json").write_text("no dump <script>")
    run_folder("c", start_us=0, config="[gate]\n")
    run_folder("d", start_us=0)

    code, verdict, err = night(capsys)

    assert code == 1
    assert statuses(verdict) == {"a": "changed", "b": "failed", "c": "failed", "d": "changed"}
    assert "2 of 4 runs failed" in err
    assert "there is no [gate]" in next(r["error"] for r in verdict["runs"] if r["run"] == "c")
    assert "<script>" not in Path("out", "junit.xml").read_text()
    assert Path("out", "runs", "d.html").exists()
    assert Path("out", "junit.xml").read_text().count("<error ") == 2

    run_folder("e", start_us=0, config="[gates]\nstep_time_ns = 1\n")
    assert night(capsys)[0] == 3


def test_a_dump_that_is_still_written_waits_and_its_run_goes_on(
    done: Done, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder("a", start_us=0)
    half = folder / "rank1.json"
    whole = half.read_text()
    half.write_text(whole[:300])

    def goes_on(seconds: float) -> None:
        half.write_text(whole[:400])

    monkeypatch.setattr(nightly, "_pause", goes_on)

    code, verdict, err = night(capsys, settle="1h")

    assert code == 0
    assert "a: still being written, left for the next night: " in err
    assert [Path(p).name for p in verdict["runs"][0]["waiting"]] == ["rank1.json"]
    assert [name for task, name, _, _ in done if task == "read_dump"] == ["rank0.json"]
    done.clear()
    half.write_text(whole)
    night(capsys)
    assert [name for task, name, _, _ in done if task == "read_dump"] == ["rank1.json"]


def test_a_run_of_which_all_is_still_written_waits(
    done: Done, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder("a", start_us=0)

    def goes_on(seconds: float) -> None:
        for path in folder.glob("*.json"):
            path.write_text(path.read_text() + " ")

    monkeypatch.setattr(nightly, "_pause", goes_on)

    code, verdict, _ = night(capsys, settle="1h")

    assert (code, statuses(verdict), done) == (0, {"a": "waiting"}, [])


def test_a_night_that_ended_before_its_verdict_is_done_again_without_work(
    done: Done, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder("a", start_us=0, config="[gates]\nstep_time_ns = 1\n")
    with monkeypatch.context() as broken:
        broken.setattr(nightly, "_tell", lambda *_: (_ for _ in ()).throw(OSError(5, "the machine went down")))
        assert cli.main(["nightly", "root", "-o", "out", "--settle", "0s"]) == 1
    capsys.readouterr()
    done.clear()

    code, verdict, _ = night(capsys)

    assert (code, statuses(verdict), done) == (3, {"a": "changed"}, [])


def test_the_baseline_can_be_named(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder("a", start_us=0, length_us=200)
    run_folder("b", start_us=10_000_000)
    run_folder("c", start_us=20_000_000)
    night(capsys)
    trace(Path("root", "c", "rank0.more.json"), 0, range(100, 104), start_us=30_000_000)

    _, verdict, _ = night(capsys, "--baseline", "a")

    found = {run["run"]: run["baseline_run"] for run in verdict["runs"]}
    assert found == {"a": None, "b": "a", "c": "a"}
    assert cli.main(["nightly", "root", "--baseline", "none"]) == 2
    assert "--baseline 'none' is no run of" in capsys.readouterr().err


def test_a_damaged_run_and_one_that_another_night_writes_stop_no_other(
    done: Done, capsys: pytest.CaptureFixture[str]
) -> None:
    run_folder("a", start_us=0)
    run_folder("b", start_us=0)
    for damaged in ("b", "older"):
        Path("longpole-store", "runs", damaged).mkdir(parents=True)
    Path("longpole-store", "runs", "b", "run.json").write_text("{")
    Path("longpole-store", "runs", "older", "run.json").write_text('{"schema_version": 0}')
    run_folder("c", start_us=0)

    with Store("longpole-store").lock("c"):
        code, verdict, err = night(capsys)

    assert (code, statuses(verdict)) == (1, {"a": "changed", "b": "failed", "c": "failed"})
    assert [m["measure"] for m in verdict["runs"][0]["measures"]][:1] == ["step_time_ns"]
    assert f"c: failed: run 'c' is being written by process {os.getpid()} on " in err
    assert "If that process is dead, this removes its lock: rm " in err
    assert "left out of the trends: run 'older' has schema version 0, this longpole reads " in err
    assert "runs/b/run.json is damaged" in next(r["error"] for r in verdict["runs"] if r["run"] == "b")


def test_pages_go_to_a_folder(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder("a", start_us=0)

    assert cli.main(["nightly", "root", "-o", "s3://bucket/pages"]) == 2
    assert "-o s3://bucket/pages is a URL" in capsys.readouterr().err
    assert done == []


def test_a_batch_system_gets_one_json_object_a_line(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder("a", start_us=0)
    Path("root", "b").mkdir()
    Path("root", "b", "rank0.json").write_text("no dump")

    code, _, err = night(capsys, "--log-format", "json")

    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 1
    assert all(line["time"].endswith("+00:00") for line in lines)
    milestones = {line["milestone"]: line for line in lines if "milestone" in line}
    assert milestones["run done"]["run"] == "a"
    assert milestones["run failed"]["run"] == "b"
    assert {k: milestones["night done"][k] for k in ("changed", "failed", "n_gates_failed")} == {
        "changed": 1,
        "failed": 1,
        "n_gates_failed": 0,
    }
    assert lines[-1]["error"].startswith("1 of 2 runs failed")


def test_the_index_stands_alone_and_links_every_page(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    for place, name in enumerate(("a", "b")):
        run_folder(name, start_us=10_000_000 * place, config='[run]\njob = "<b>j</b>"\n')
    night(capsys)

    html = Path("out", "index.html").read_text()

    soup = BeautifulSoup(html, "html.parser")
    policy = soup.select_one('meta[http-equiv="Content-Security-Policy"]')
    assert policy is not None and str(policy["content"]).startswith("default-src 'none'")
    assert {str(a["href"]) for a in soup.select("table a")} == {"runs/a.html", "runs/b.html", "compare/b.html"}
    assert [h.get_text() for h in soup.select("h2")] == ["<b>j</b>"]
    assert not [tag for tag in soup.find_all(True) for key in ("src", "href") if "//" in str(tag.get(key, ""))]
    block = json.loads(str(soup.select_one("#page-data").string))  # type: ignore[union-attr]
    assert [chart["id"] for chart in block["charts"]] == ["time-0", "shares-0"]
    assert len(block["datasets"]["trend"]["run"]) == 2 * 3  # step time, exposed comm, coverage


def test_a_night_after_one_without_news_touches_no_file(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder("a", start_us=0)
    run_folder("b", start_us=10_000_000)

    def files(*folders: str) -> dict[Path, tuple[int, bytes]]:
        paths = [p for folder in folders for p in Path(folder).rglob("*") if p.is_file()]
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in paths}

    night(capsys)
    first = files("longpole-store", "out/runs", "out/compare")
    night(capsys)
    second = files("longpole-store", "out")
    assert first.items() < second.items()
    assert {p.name for p in second.keys() - first.keys()} == {"index.html", "verdict.json", "junit.xml"}
    night(capsys)
    assert files("longpole-store", "out") == second


def test_a_synth_run_goes_the_whole_way(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    synth.write("worked", Path("root", "worked"))

    code, verdict, _ = night(capsys)

    assert code == 0
    measures = {m["measure"]: m["value"] for m in verdict["runs"][0]["measures"]}
    assert measures["step_time_ns"] == 750_000_000.0
    assert measures["exposed_comm_ratio"] == pytest.approx(50 / 750)
