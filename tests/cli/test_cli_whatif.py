"""`longpole whatif` as a person uses it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from longpole import cli
from longpole.analyze import analyze_run
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import inline, make_run

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with the worked example: four steps of 750 ms on two ranks."""
    url = str(tmp_path_factory.mktemp("cli-whatif") / "store")
    make_run(Store(url), "worked", [FIXTURES / "worked"])
    return url


def call(capsys: pytest.CaptureFixture[str], store: str, *argv: str) -> tuple[int, str, str]:
    code = cli.main(["whatif", *argv, "--store", store])
    out, err = capsys.readouterr()
    return code, out, err


def test_25_ms_off_the_exposed_tail_make_the_worked_step_725(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, store, "worked", "--remove", "exposed=25ms", "--format", "json")

    (scenario,) = json.loads(out)["scenarios"]
    assert code == 0
    assert {s["predicted_ns"] for s in scenario["steps"]} == {725_000_000}
    assert {s["measured_ns"] for s in scenario["steps"]} == {750_000_000}
    assert round(scenario["speedup_ratio"], 3) == 1.034
    assert scenario["replay_error_ratio"] == 0


def test_the_optimizer_twice_as_fast_makes_the_worked_step_700(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, store, "worked", "--scale", "phase:optimizer=0.5", "--format", "json")

    (scenario,) = json.loads(out)["scenarios"]
    assert code == 0
    assert {s["predicted_ns"] for s in scenario["steps"]} == {700_000_000}
    assert round(scenario["speedup_ratio"], 3) == 1.071


def test_changes_are_made_together(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--scale", "phase:optimizer=0.8", "--remove", "exposed=25ms"]

    _, out, _ = call(capsys, store, "worked", *changes, "--format", "json")

    (scenario,) = json.loads(out)["scenarios"]
    assert {s["predicted_ns"] for s in scenario["steps"]} == {705_000_000}
    assert [c["words"] for c in scenario["changes"]] == [
        "all work in optimizer x 0.8",
        "exposed exchange gone up to 25.00 ms",
    ]


def test_the_table_says_what_was_changed_and_what_each_step_gains(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(capsys, store, "worked", "--remove", "exposed=25ms")

    lines = out.splitlines()
    assert code == 0
    assert lines[:3] == [
        "run worked: 4 steps, 3.00 s as recorded; the unchanged graph replays its steps to 0.00% (median)",
        "change: exposed exchange gone up to 25.00 ms",
        "predicted 2.90 s: 100.0 ms saved, speedup 1.034x",
    ]
    assert lines[3].split() == ["step", "recorded", "predicted", "saved", "speedup"]
    assert [line.split()[1:] for line in lines[4:]] == [["750.0", "ms", "725.0", "ms", "25.00", "ms", "1.034x"]] * 4


def test_opportunities_are_sorted_by_what_they_save(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, store, "worked", "--opportunities")

    gains = [float(gain) for gain in re.findall(r"^ *([0-9.]+)x ", out, re.MULTILINE)]
    assert code == 0
    assert gains == sorted(gains, reverse=True)
    assert gains[0] == 1.154  # the forward pass twice as fast


def test_what_stays_of_an_answer_is_how_well_the_unchanged_graph_replays(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, store, "worked", "--scale", "comm=0.5")
    before = sorted(Path(store).rglob("*"))

    call(capsys, store, "worked", "--scale", "host=0.5")

    assert sorted(Path(store).rglob("*")) == before
    assert [p.parent.name for p in before if "step_replays" in str(p) and p.is_file()] == ["step_replays"]
    with Session(Store(store)) as session:
        rows = session.con.execute("SELECT step, measured_ns, replayed_ns, error_ratio FROM step_replays").fetchall()
    assert rows == [(n, 750_000_000, 750_000_000, 0.0) for n in (10, 11, 12, 13)]


def test_a_second_analysis_keeps_it(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, store, "worked", "--scale", "comm=0.5")
    before = Store(store).manifest("worked")

    analyze_run(Store(store), "worked", run_tasks=inline, has_what_ifs=False)

    assert Store(store).manifest("worked") == before
    assert len(before.of("step_replays")) == 1


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        ([], 2, "ask for changes, for opportunities or for stragglers"),
        (["--scale", "comm=0.5", "--opportunities"], 2, "ask for changes, for opportunities or for stragglers"),
        (["--scale", "comm"], 2, "has no factor"),
        (["--scale", "comm=-1"], 2, "has no factor"),
        (["--scale", "comm=nan"], 2, "has no factor"),
        (["--scale", "network=0.5"], 2, "'network' names nothing"),
        (["--scale", "rank:one=0.5"], 2, "is no rank"),
        (["--scale", "host,comm=0.5"], 2, "gives two of"),
        (["--scale", "group:1,rank:0=0.5"], 2, "a group has exchanges alone"),
        (["--scale", "name:(=0.5"], 1, "is no pattern"),
        (["--fix-rank", "9"], 1, "rank 9 is not recorded"),
        (["--fix-rank", "1"], 1, "run 'worked' has 2 recorded ranks: a median of ranks needs 3"),
        (["--scale", "phase:optimiser=0.5"], 1, "Phases: forward, backward, sync, optimizer, input."),
        (["--scale", "group:nobody=0.5"], 1, "'nobody' is no process group of run 'worked'"),
        (["--fix-rank", "some"], 2, "is no rank"),
        (["--remove", "comm"], 2, "is nothing to remove"),
        (["--remove", "exposed=soon"], 2, "is no duration"),
    ],
)
def test_what_means_nothing_is_said_with_a_cure(
    store: str, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, words: str
) -> None:
    found, out, err = call(capsys, store, "worked", *argv)

    assert (found, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


def test_a_pattern_may_hold_commas_and_equal_signs(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(
        capsys, store, "worked", "--scale", "compute,name:a{1,2}=b|FusedOptimizer=0.5", "--format", "json"
    )

    (scenario,) = json.loads(out)["scenarios"]
    assert code == 0
    assert scenario["changes"][0]["pattern"] == "a{1,2}=b|FusedOptimizer"
    # The end of the step before the first is shorter too, so the first gains more.
    assert [s["predicted_ns"] for s in scenario["steps"]] == [687_500_000, 700_000_000, 700_000_000, 700_000_000]


def test_a_run_whose_ranks_share_no_clock_has_no_answer_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1):
        events = [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": n * 100, "dur": 100}
            | {"pid": 1 + rank, "tid": 1}
            for n in (1, 2)
        ]
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    url = str(tmp_path / "store")
    make_run(Store(url), "apart", [tmp_path / "rank0.json", tmp_path / "rank1.json"])

    for argv in (["--scale", "host=0"], ["--scale", "host=0", "--format", "json"], ["--opportunities"]):
        code, out, err = call(capsys, url, "apart", *argv)

        assert (code, out) == (1, "")
        assert "no step of run 'apart' can be predicted: no step's length is known" in err


def test_the_first_step_of_a_recording_without_a_device_gains_what_the_others_gain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        event
        for n in (1, 2)
        for event in (
            host | {"cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": n * 100, "dur": 100},
            host | {"cat": "cpu_op", "name": "aten::mm", "ts": n * 100 + 20, "dur": 30},
        )
    ]
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    url = str(tmp_path / "store")
    make_run(Store(url), "cpu", [tmp_path / "rank0.json"])

    for change, expected in (("compute=0", 70_000), ("host=0", 30_000)):
        _, out, _ = call(capsys, url, "cpu", "--scale", change, "--format", "json")

        assert [s["predicted_ns"] for s in json.loads(out)["scenarios"][0]["steps"]] == [expected, expected]


def test_work_launched_when_a_wait_ended_is_not_what_the_wait_was_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # GIVEN a kernel without length, launched and run in the very microsecond in which the wait for another one ended
    def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, object]:
        return {"ph": "X", "pid": 1, "tid": args.get("stream", 1), "cat": cat, "name": name, "ts": ts, "dur": dur} | {
            "args": args
        }

    events = [
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cuda_runtime", "cudaLaunchKernel", 10, 2, correlation=1),
        event("kernel", "long", 20, 40, correlation=1, stream=7, device=0),
        event("cuda_runtime", "cudaDeviceSynchronize", 15, 45, correlation=2),
        event("cuda_runtime", "cudaLaunchKernel", 60, 0, correlation=3),
        event("kernel", "empty", 60, 0, correlation=3, stream=7, device=0),
        event("cuda_runtime", "cudaLaunchKernel", 70, 2, correlation=4),
        event("kernel", "last", 80, 10, correlation=4, stream=7, device=0),
    ]
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    url = str(tmp_path / "store")
    make_run(Store(url), "tied", [tmp_path / "rank0.json"])

    # WHEN the kernel that was waited for is gone
    code, out, err = call(capsys, url, "tied", "--scale", "name:long=0", "--format", "json")

    # THEN its 40 µs are saved
    assert code == 0, err
    (scenario,) = json.loads(out)["scenarios"]
    assert [(s["measured_ns"], s["predicted_ns"]) for s in scenario["steps"]] == [(90_000, 50_000)]
