"""Runs in which every text, of the dumps and of run.toml, tries to get out of where it is shown."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from flight_cases import lost_rank_5
from formats import nsys_files
from longpole.store import Store
from pipeline_inline import make_run
from timeline_cases import pipeline, write_job

FIXTURES = Path(__file__).parents[2] / "fixtures"

PAYLOAD = (
    "=cmd|'/C calc'!A1\"><script>window.pwned=1</script><img src=x onerror=window.pwned=2>"
    "<svg/onload=window.pwned=3>' onmouseover='window.pwned=4' \" onfocus=\"window.pwned=5\" javascript:window.pwned=6"
    "]]></failure><pwned/>'; DROP TABLE events; --\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e\r\nPWNED line"
    "{{7*7}}${window.pwned=7}{% raw %}%s%n</title></style></textarea><!--"
)
"""HTML in text, in attributes, in scripts and comments; XML; SQL; a formula; a terminal's escapes; lines; templates."""

KINETO, OTHER, NSYS, HANG, JOB = "kineto", "other", "nsys", "hang", "job"
RUNS = (KINETO, OTHER, NSYS, HANG, JOB)

_NEEDED = {"ph", "cat", "Collective name", "dtype", "Process Group Ranks", "cuda_sync_kind", "displayTimeUnit"}
"""Keys whose texts say what an event is; with others it would be none, and its name would be shown nowhere."""


def config() -> str:
    """Return a run.toml in which every text is the payload, or ends in it."""
    text = json.dumps(PAYLOAD.replace("\x9b", "")).replace("\\u001b", "\\u001B")  # JSON's texts are TOML's
    return "\n".join(
        (
            "[steps]", "marker = 'ProfilerStep#(\\d+)$'", "[run]", f"job = {text}", f"workload = {text}",
            "[model]", f"name = {text}", "params = 1000", "[hardware]", f"device = {text}", "peak_flops = 989e12",
            "[batch]", "tokens_per_step = 4096", "[phases]", f"{text} = 'aten::'", "[comm]", "kernels = ['^pwned']",
            "[gates]", "step_time_ns = 1", "mfu_ratio = 0.9", "goodput_ratio = 0.5",
        )
    )  # fmt: skip


def write_kineto(folder: Path) -> Path:
    """Write the worked example's two ranks with a payload in every text, their names on disk too."""
    folder.mkdir(parents=True)
    for path in sorted((FIXTURES / "worked-late-input").glob("*.json.gz")):
        told = json.loads(gzip.decompress(path.read_bytes()))
        rank = told["distributedInfo"]["rank"]
        events = [_poisoned(e) for e in told.pop("traceEvents")]
        events.append({"ph": "X", "cat": PAYLOAD, "name": PAYLOAD, "pid": PAYLOAD, "tid": PAYLOAD, "ts": 1.5, "dur": 1})
        events.append({"ph": "X", "cat": "kernel", "name": PAYLOAD, "pid": 0, "tid": 7, "ts": "soon", "dur": 1})
        frame = {**_poisoned(told), "traceEvents": events, PAYLOAD: PAYLOAD}
        frame["distributedInfo"]["rank"], frame["distributedInfo"]["world_size"] = rank, 2
        name = PAYLOAD.replace("/", "∕").replace("\x00", "")[:180]  # what a file system takes
        (folder / f"{name}rank{rank}.json").write_text(json.dumps(frame), encoding="utf-8")
    return folder


def _poisoned(told: Any, key: str = "") -> Any:
    if isinstance(told, dict):
        return {k: _poisoned(v, k) for k, v in told.items()}
    if isinstance(told, list):
        return [_poisoned(v, key) for v in told]
    if not isinstance(told, str) or key in _NEEDED:
        return told
    return PAYLOAD + told if told.startswith("ProfilerStep#") else told + PAYLOAD


def write_nsys(folder: Path) -> Path:
    """Write an Nsight export whose names are payloads."""
    folder.mkdir(parents=True)
    names = {
        1: PAYLOAD,
        2: "ncclDevKernel_AllReduce" + PAYLOAD,
        3: "cudaLaunchKernel" + PAYLOAD,
        4: PAYLOAD + "ProfilerStep#1",
    }
    path = nsys_files.write(
        folder / "rank0.sqlite",
        {
            nsys_files.CUPTI + "KERNEL": [
                nsys_files.kernel(1_000 * n, 1_000 * n + 500, correlationId=n, demangledName=1 + n % 2)
                for n in range(1, 9)
            ],
            nsys_files.CUPTI + "RUNTIME": [
                nsys_files.call(1_000 * n - 50, 1_000 * n - 40, correlationId=n) for n in range(1, 9)
            ],
            "NVTX_EVENTS": [
                nsys_files.marked(n * 1_000 - 100, n * 1_000 + 900, f"{PAYLOAD}ProfilerStep#{n}") for n in range(1, 9)
            ],
        },
        names=names,
    )
    with closing(sqlite3.connect(path)) as con:
        con.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)")
        con.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', ?)", [PAYLOAD])
        con.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
        con.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?)", [PAYLOAD])
        con.commit()
    return folder


def write_flights(folder: Path) -> Path:
    """Write flight recorders' dumps whose texts are payloads; the names of groups and operations end in one."""
    folder.mkdir(parents=True)
    for rank, told in lost_rank_5().items():
        for entry in told["entries"]:
            entry["frames"] = [{"name": PAYLOAD, "filename": PAYLOAD, "line": 3}]
            entry["process_group"] = (entry["process_group"][0] + PAYLOAD, PAYLOAD)
            entry["profiling_name"] += PAYLOAD
            entry["input_dtypes"] = [PAYLOAD]
        groups = {
            k + PAYLOAD: {"name": k + PAYLOAD, "desc": PAYLOAD, "ranks": v["ranks"]}
            for k, v in told["pg_config"].items()
        }
        whole = {**told, "version": PAYLOAD, "pg_config": groups}
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(whole, 2))
    return folder


def write_timeline(folder: Path) -> Path:
    """Write an op timeline with ops of a payload's type, and metadata that is one."""
    ops = pipeline(2, 2, 4, lambda op: 1_000_000)
    odd = [replace(ops[0], optype=PAYLOAD, start=ops[-1].start + 10_000_000)]
    path = write_job(folder / "job.parquet", [*ops, *odd])
    (folder / "meta-job.yaml").write_text(f"trial_name: {json.dumps(PAYLOAD)}\ndp_size: 2\npp_size: 2\n")
    return path


def make_runs(folder: Path) -> Store:
    """Return a store with a run of each kind of dump."""
    store = Store(str(folder / "store"))
    make_run(store, KINETO, [write_kineto(folder / "kineto")], config=config())
    make_run(store, OTHER, [FIXTURES / "worked"], config=config().replace("'ProfilerStep", "'^ProfilerStep"))
    make_run(store, NSYS, [write_nsys(folder / "nsys")], config=config())
    make_run(store, HANG, [write_flights(folder / "hang")])
    make_run(store, JOB, [write_timeline(folder / "job")])
    return store
