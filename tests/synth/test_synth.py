"""A made dump is the same every time, looks like a profiler's, and has the answer that was worked out by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from longpole.errors import UsageError
from longpole.synth import SCENARIOS, Part, write

MS = 1_000_000
WORKED = ["worked", "worked-contended", "worked-late-input"]
SMALL: dict[str, dict[str, Any]] = {
    "training": {"ranks": 2, "steps": 2},
    "graphs": {"ranks": 2, "steps": 2},
    "mesh": {"ranks": 8, "steps": 2},
    "healthy": {"ranks": 2, "steps": 2},
    "slow-exchange": {"ranks": 2, "steps": 2},
    **{
        f"straggler-{case}": {"ranks": 2, "steps": 2}
        for case in ("compute", "clock", "host", "input", "gc", "sequence")
    },
    "straggler-link": {"ranks": 8, "steps": 1},
    "straggler-stage": {"ranks": 8, "steps": 1},
}


def _truth(scenario: str, folder: Path, **size: int) -> dict[str, Any]:
    write(scenario, folder, form="events", ranks=size.get("ranks"), steps=size.get("steps"))
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    return truth


def _events(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_arguments_give_the_same_bytes(scenario: str, tmp_path: Path) -> None:
    size = SMALL.get(scenario, {})
    for folder in ("once", "again"):
        write(scenario, tmp_path / folder / "kineto", gzip=True, **size)
        write(scenario, tmp_path / folder / "events", form="events", **size)

    once, again = (
        {
            path.relative_to(tmp_path / folder): path.read_bytes()
            for path in (tmp_path / folder).rglob("*")
            if path.is_file()
        }
        for folder in ("once", "again")
    )
    n_ranks = {"idle-causes": 1, "mesh": 8, "straggler-link": 8, "straggler-stage": 8}.get(scenario, 2)
    n_beside = 2 if scenario == "straggler-clock" else 1  # the truth, and telemetry
    assert len(once) == 2 * (n_beside + n_ranks)
    assert once == again


def test_gzip_changes_the_file_and_not_the_text(tmp_path: Path) -> None:
    plain = write("worked", tmp_path / "plain")
    compressed = write("worked", tmp_path / "gz", gzip=True)

    assert [path.name for path in compressed] == ["rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz"]
    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == [
        "rank0.pt.trace.json",
        "rank1.pt.trace.json",
        "truth.json",
    ]
    assert gzip.decompress(compressed[0].read_bytes()) == plain[0].read_bytes()


def test_a_dump_says_who_it_is_before_its_events(tmp_path: Path) -> None:
    paths = write("worked", tmp_path)

    dump = json.loads(paths[1].read_text())

    assert list(dump) == [
        "schemaVersion",
        "deviceProperties",
        "cupti_version",
        "cuda_runtime_version",
        "cuda_driver_version",
        "trace_id",
        "record_shapes",
        "distributedInfo",
        "host_name",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "traceEvents",
        "traceName",
    ]
    assert [device["id"] for device in dump["deviceProperties"]] == [0, 1]
    assert dump["distributedInfo"] == {
        "backend": "nccl",
        "rank": 1,
        "world_size": 2,
        "pg_count": 1,
        "pg_config": [
            {
                "pg_name": "0",
                "pg_desc": "default_pg",
                "backend_config": "cuda:nccl",
                "pg_size": 2,
                "ranks": [0, 1],
            }
        ],
        "nccl_version": "2.27.5",
    }
    assert dump["baseTimeNanoseconds"] == 1790857026000000000


def test_a_dump_without_a_device_has_no_devices_and_no_kernels(tmp_path: Path) -> None:
    paths = write("cpu", tmp_path)

    dump = json.loads(paths[0].read_text())

    assert dump["deviceProperties"] == []
    assert dump["distributedInfo"]["backend"] == "gloo"
    assert {event.get("cat") for event in dump["traceEvents"]} == {
        "cpu_op",
        "user_annotation",
        "fwdbwd",
        "Trace",
        None,
    }


def test_an_exchange_is_launched_under_its_record_and_says_what_it_moves(tmp_path: Path) -> None:
    events = _events(write("worked", tmp_path)[0])
    kernels = [event for event in events if event["name"].startswith("ncclDevKernel_AllReduce")]

    assert len(kernels) == 16
    kernel = min(kernels, key=lambda event: event["ts"])
    assert kernel["args"] == {
        "External id": kernel["args"]["External id"],
        "queued": 0,
        "device": 0,
        "context": 1,
        "stream": 20,
        "correlation": kernel["args"]["correlation"],
        "registers per thread": 96,
        "shared memory": 103808,
        "blocks per SM": 0.181818,
        "warps per SM": 3.090909,
        "grid": [24, 1, 1],
        "block": [544, 1, 1],
        "est. achieved occupancy %": 0,
        "Collective name": "allreduce",
        "In msg nelems": 6553600,
        "Out msg nelems": 6553600,
        "Group size": 2,
        "dtype": "Float",
        "In split size": "[]",
        "Out split size": "[]",
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1]",
        "Seq": 1,
    }
    call = next(
        event
        for event in events
        if event.get("cat") == "cuda_runtime" and event["args"]["correlation"] == kernel["args"]["correlation"]
    )
    record = next(
        event
        for event in events
        if event["name"] == "record_param_comms" and event["args"]["External id"] == call["args"]["External id"]
    )
    assert call["name"] == "cudaLaunchKernelExC"
    assert record["ts"] < call["ts"] < call["ts"] + call["dur"] < record["ts"] + record["dur"]
    assert record["args"]["Seq"] == 1


def test_the_exchange_waits_for_backward_and_the_optimizer_for_the_exchange(tmp_path: Path) -> None:
    events = _events(write("worked", tmp_path, steps=1)[0])
    calls = {event["args"]["correlation"]: event["name"] for event in events if event.get("cat") == "cuda_runtime"}

    waits = [event["args"] for event in events if event.get("cat") == "cuda_sync"]

    assert [(wait["stream"], wait["wait_on_stream"]) for wait in waits] == [(20, 7)] * 4 + [(7, 20)] * 4
    assert {calls[wait["correlation"]] for wait in waits} == {"cudaStreamWaitEvent"}
    assert {calls[wait["wait_on_cuda_event_record_corr_id"]] for wait in waits} == {"cudaEventRecord"}


def test_every_range_of_a_thread_lies_within_the_one_around_it(tmp_path: Path) -> None:
    for scenario in SCENARIOS:
        for path in write(scenario, tmp_path / scenario, **SMALL.get(scenario, {})):
            open_until: dict[int, list[float]] = {}
            host = [
                event for event in _events(path) if event.get("cat") in ("cpu_op", "user_annotation", "cuda_runtime")
            ]
            for event in sorted(host, key=lambda event: (event["ts"], -event["dur"])):
                stack = open_until.setdefault(event["tid"], [])
                end = round((event["ts"] + event["dur"]) * 1000)
                while stack and stack[-1] <= round(event["ts"] * 1000):
                    stack.pop()
                assert not stack or end <= stack[-1], (path, event)
                stack.append(end)


@pytest.mark.parametrize(
    ("scenario", "duration", "compute", "comm", "exposed", "idle"),
    [
        ("worked", 750, 700, 350, 50, 0),
        ("worked-contended", 780, 780, 270, 0, 0),
        ("worked-late-input", 830, 700, 350, 50, 80),
    ],
)
def test_the_worked_example_has_the_answer_done_by_hand(
    scenario: str, duration: int, compute: int, comm: int, exposed: int, idle: int, tmp_path: Path
) -> None:
    truth = _truth(scenario, tmp_path)

    assert truth["steps"] == [{"step": step, "duration_ns": duration * MS, "end_rank": 0} for step in (10, 11, 12, 13)]
    assert [(row["rank"], row["step"]) for row in truth["rank_steps"]] == [
        (rank, step) for rank in (0, 1) for step in (10, 11, 12, 13)
    ]
    for row in truth["rank_steps"]:
        assert row["duration_ns"] == duration * MS
        assert row["compute_ns"] == compute * MS
        assert row["comm_ns"] == comm * MS
        assert row["exposed_comm_ns"] == exposed * MS
        assert row["overlapped_comm_ns"] == (comm - exposed) * MS
        assert row["idle_ns"] == idle * MS


def test_the_windows_of_a_rank_tile(tmp_path: Path) -> None:
    rows = [row for row in _truth("worked", tmp_path)["rank_steps"] if row["rank"] == 1]

    assert [row["start_ns"] for row in rows] == [
        1795958103100000000,
        1795958103850000000,
        1795958104600000000,
        1795958105350000000,
    ]
    assert [row["end_ns"] for row in rows[:-1]] == [row["start_ns"] for row in rows[1:]]


def test_a_late_batch_is_idle_for_input_until_the_host_has_it(tmp_path: Path) -> None:
    row = _truth("worked-late-input", tmp_path)["rank_steps"][0]

    assert (row["idle_input_ns"], row["idle_host_ns"], row["idle_launch_ns"]) == (79_900_000, 80_000, 20_000)
    assert (row["idle_sync_ns"], row["idle_turnaround_ns"], row["idle_other_ns"]) == (0, 0, 0)


def test_idle_causes_has_one_gap_for_each_cause(tmp_path: Path) -> None:
    (row,) = _truth("idle-causes", tmp_path)["rank_steps"]

    assert row["duration_ns"] == 120_000_000
    assert row["compute_ns"] == 89_956_000
    assert (row["copy_ns"], row["exposed_copy_ns"]) == (1_000_000, 1_000_000)
    assert row["idle_ns"] == 29_044_000
    assert row["idle_input_ns"] == 10_000_000
    assert row["idle_sync_ns"] == 8_000_000
    assert row["idle_host_ns"] == 6_000_000
    assert row["idle_launch_ns"] == 3_040_000
    assert row["idle_turnaround_ns"] == 4_000
    assert row["idle_other_ns"] == 2_000_000


def test_without_a_device_operators_are_compute_and_gloo_spans_are_comm(tmp_path: Path) -> None:
    rows = _truth("cpu", tmp_path)["rank_steps"]

    assert [(row["compute_ns"], row["comm_ns"], row["exposed_comm_ns"], row["idle_ns"]) for row in rows] == [
        *[(65 * MS, 35 * MS, 15 * MS, 20 * MS)] * 3,
        *[(65 * MS, 26 * MS, 10 * MS, 25 * MS)] * 3,
    ]
    # Nothing follows the last step's last gap.
    assert [(row["idle_input_ns"], row["idle_host_ns"], row["idle_other_ns"]) for row in rows] == [
        *[(10 * MS, 10 * MS, 0)] * 2,
        (10 * MS, 5 * MS, 5 * MS),
        *[(15 * MS, 10 * MS, 0)] * 2,
        (15 * MS, 5 * MS, 5 * MS),
    ]


def test_the_parts_of_every_step_add_up(tmp_path: Path) -> None:
    for scenario in SCENARIOS:
        for row in _truth(scenario, tmp_path / scenario, **SMALL.get(scenario, {}))["rank_steps"]:
            whole = row["compute_ns"] + row["exposed_comm_ns"] + row["exposed_copy_ns"] + row["idle_ns"]
            causes = [value for key, value in row.items() if key.startswith("idle_") and key != "idle_ns"]
            assert whole == row["duration_ns"] == row["end_ns"] - row["start_ns"]
            assert len(causes) == 6
            assert sum(causes) == row["idle_ns"]


def test_training_has_a_slow_rank_that_the_others_wait_for_and_a_late_batch(tmp_path: Path) -> None:
    truth = _truth("training", tmp_path, ranks=4, steps=5)

    assert truth["slow"] == {"rank": 2, "percent": 10}
    assert truth["late_input"] == {"rank": 3, "step": 102, "late_ns": 8_000_000}
    assert [row["end_rank"] for row in truth["steps"]] == [2] * 5
    by_place = {(row["rank"], row["step"]): row for row in truth["rank_steps"]}
    assert {
        rank: round(by_place[rank, 100]["compute_ns"] / by_place[0, 100]["compute_ns"], 2) for rank in range(4)
    } == {0: 1.0, 1: 1.0, 2: 1.1, 3: 1.0}
    late = by_place[3, 102]["idle_input_ns"] - by_place[3, 101]["idle_input_ns"]
    assert 7_900_000 < late < 8_100_000


def test_a_long_run_is_the_same_as_its_parts(tmp_path: Path) -> None:
    """The truth of early steps does not depend on how many come after, although it is worked out in portions."""
    short = _truth("training", tmp_path / "short", ranks=1, steps=20)
    long = _truth("training", tmp_path / "long", ranks=1, steps=150)

    assert len(long["steps"]) == 150
    assert long["rank_steps"][:10] == short["rank_steps"][:10]


@pytest.mark.parametrize("scenario", ["training", "mesh", "straggler-link"])
@pytest.mark.parametrize("form", ["kineto", "events"])
def test_a_run_made_in_parts_is_the_run_made_at_once(
    scenario: str, form: Literal["kineto", "events"], tmp_path: Path
) -> None:
    """Three parts of eight ranks; each task works out all ranks and writes its own."""
    ran: list[tuple[int, ...]] = []

    def run_tasks(task: Callable[[Part], list[Path]], parts: list[Part]) -> list[list[Path]]:
        ran.extend(part.chosen for part in parts)
        return [task(part) for part in parts]

    write(scenario, tmp_path / "once", form=form, ranks=8, steps=1)
    paths = write(scenario, tmp_path / "parts", form=form, ranks=8, steps=1, n_parts=3, run_tasks=run_tasks)

    assert ran == [(0, 1), (2, 3, 4), (5, 6, 7)]
    assert [path.name.partition(".")[0] for path in paths] == [f"rank{rank}" for rank in range(8)]
    once, parts = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} for folder in ("once", "parts")
    )
    assert len(once) == 9
    assert parts == once


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ({"scenario": "worked2"}, "there is no scenario 'worked2'"),
        ({"scenario": "worked", "form": "nsys"}, "there is no form 'nsys'"),
        ({"scenario": "worked", "form": "events", "gzip": True}, "events are Parquet"),
        ({"scenario": "worked", "ranks": 0}, "0 ranks and 4 steps are no run"),
        ({"scenario": "idle-causes", "steps": 2}, "scenario idle-causes has 1 rank and 1 step"),
    ],
)
def test_a_run_that_cannot_be_made_says_why(arguments: dict[str, Any], fact: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=fact):
        write(folder=tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []
