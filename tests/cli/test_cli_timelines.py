"""A job recorded as an op timeline, as a person meets it on the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longpole import cli
from longpole.store import Store
from pipeline_inline import make_run

SECOND = 10**9
OPS: list[dict[str, Any]] = [
    {"dp_rank": 0, "optype": "params-all-gather", "start_ts": 0, "duration": 4},
    {"dp_rank": 0, "optype": "forward-compute", "start_ts": 4, "duration": 10, "mb_id": 0, "gmc": 0},
    {"dp_rank": 0, "optype": "backward-compute", "start_ts": 14, "duration": 20, "mb_id": 0, "gmc": 0},
    {"dp_rank": 0, "optype": "grads-reduce-scatter", "start_ts": 34, "duration": 25},
    {"dp_rank": 0, "optype": "optimizer", "start_ts": 59, "duration": 3},
    {"dp_rank": 1, "optype": "params-all-gather", "start_ts": 1, "duration": 3},
    {"dp_rank": 1, "optype": "forward-compute", "start_ts": 4, "duration": 30, "mb_id": 0, "gmc": 0},
    {"dp_rank": 1, "optype": "backward-compute", "start_ts": 34, "duration": 20, "mb_id": 0, "gmc": 0},
    {"dp_rank": 1, "optype": "grads-reduce-scatter", "start_ts": 54, "duration": 5},
    {"dp_rank": 1, "optype": "optimizer", "start_ts": 59, "duration": 3},
]
"""Two replicas, the second with a forward pass of 30 s where the first takes 10: 62 s, 61 of them explained, 51 ideal.
"""


def write_job(folder: Path, n_steps: int = 2) -> Path:
    folder.mkdir()
    plain = {"stage": 0, "seq_id": 0, "mc": 0, "mb_id": -1, "gmc": -1}
    rows = [{**plain, **op, "rank": 8 * op["dp_rank"], "step": step} for step in range(n_steps) for op in OPS]
    names = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id", "gmc")
    kinds = {"optype": pa.string(), "start_ts": pa.float64(), "duration": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.int32())) for name in names])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "trace-job.parquet")
    (folder / "meta-job.yaml").write_text("trial_name: job\ndp_size: 2\ntp_size: 8\nworld_size: 16\n")
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("timelines")
    url = str(folder / "store")
    make_run(Store(url), "job", [write_job(folder / "job")])
    make_run(Store(url), "long", [write_job(folder / "long", 21)])
    return url


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGPOLE_STORE", store)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_run_says_what_stragglers_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_job(tmp_path / "dumps")
    code, out, err = call(capsys, "run", "dumps", "--name", "job")
    assert code == 0, err
    assert out.splitlines() == [
        "job: op timeline of 2 ranks, steps 0 to 1 (2)",
        "A step takes 62.0 s, and 61.0 s without gaps that no op explains (1.016x).",
        "Without stragglers it would take 51.0 s: the slowdown S is 1.196x.",
        "Slowdown by dp rank alone, the slowest: 1 (1.196x), 0 (1.000x).",
        "Slowdown by stage alone, the slowest: 0 (1.196x).",
        "Slowdown by type of op alone, the slowest: forward-compute (1.196x), backward-compute (1.000x),"
        " grads-reduce-scatter (1.000x).",
        "Making the slowest 3 % of the workers ideal (rank 8) saves 100.0 % of the slowdown.",
        "Making the last stage (0) ideal saves 100.0 % of it.",
    ]
    assert "wrote job.html" in err
    assert "meta-job.yaml" not in err


def test_runs_counts_its_ranks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "job\t2 ranks\t2 dumps\t" in call(capsys, "runs")[1]


def test_its_rules_hold(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "check", "job")[0] == 0


def test_inspect_says_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "inspect", str(write_job(tmp_path / "job") / "trace-job.parquet"))
    assert code == 0
    assert [line.strip() for line in out.splitlines()[1:]] == [
        "format    op-timeline: ops of pipelined steps",
        "ranks     2 of 16",
        "steps     0-1 (2)",
        "ops       20: backward-compute 4, forward-compute 4, grads-reduce-scatter 4, optimizer 4, params-all-gather 4",
        "note      its metadata says: job, dp 2, tp 8, world 16",
    ]


def test_its_trace_has_each_rank_as_recorded_and_ideal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "export", "job", "-o", "job.json")
    assert code == 0
    events = json.loads((here / "job.json").read_text())["traceEvents"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X"]
    assert f"wrote job.json: {len(slices)} slices" in err
    found = [
        (tracks[e["pid"], e["tid"]], e["name"], int(e["ts"] * 1000) // SECOND, int(e["dur"] * 1000) // SECOND)
        for e in slices
        if e["pid"] == 0 and e["args"]["step"] == 0
    ]
    assert sorted(found) == [
        ("ideal compute", "backward-compute", 23, 20),
        ("ideal compute", "forward-compute", 3, 20),
        ("ideal compute", "optimizer", 48, 3),
        ("ideal transfers", "grads-reduce-scatter", 43, 5),
        ("ideal transfers", "params-all-gather", 0, 3),
        ("recorded compute", "backward-compute", 14, 20),
        ("recorded compute", "forward-compute", 4, 10),
        ("recorded compute", "optimizer", 59, 3),
        ("recorded transfers", "grads-reduce-scatter", 54, 5),
        ("recorded transfers", "params-all-gather", 1, 3),
        ("recorded transfers", "wait grads-reduce-scatter", 34, 20),
        ("recorded transfers", "wait params-all-gather", 0, 1),
    ]
    steps = [(e["name"], e["ts"] / 1e6) for e in slices if tracks[e["pid"], e["tid"]] == "recorded steps"]
    assert steps == [("step 0", 0.0), ("step 1", 65.1)]  # 62 s and a twentieth
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {
        *("run job", "rank 0 · dp 0 · stage 0"),
        "rank 8 · dp 1 · stage 0",
    }


def test_a_trace_of_some_ranks_and_steps_has_these_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "export", "job", "--steps", "1", "--ranks", "8", "-o", "some.json")[0] == 0
    events = json.loads((here / "some.json").read_text())["traceEvents"]
    of_ops = Counter((e["pid"], e["args"]["step"]) for e in events if e["ph"] == "X" and e["cat"] != "longpole")
    assert of_ops == {(8, 1): 10}


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["long"], "run 'long' has 21 steps, 0 to 20: too many for one trace, as --steps 0:3"),
        (["job", "--steps", "7:9"], "run 'job' has no such steps"),
        (["job", "--ranks", "5"], "run 'job' has no rank 5"),
    ],
)
def test_what_cannot_be_exported_is_said(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], fact: str
) -> None:
    code, _, err = call(capsys, "export", *argv)
    assert code == 1
    assert all(part in err for part in fact.split(", as "))
    assert not list(here.iterdir())


def test_whatif_points_to_where_its_answers_are(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "whatif", "job", "--remove", "waits")

    assert (code, out) == (1, "")
    assert "run 'job' is an op timeline" in err
    assert "FROM run_whatif" in err
