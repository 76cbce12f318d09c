"""Tables of Nsight Systems' export become events; several processes stay apart; what was not recorded is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from formats.nsys_files import CUPTI, call, kernel, marked, pid, read, read_both, write
from longpole.cli.ingest import recognised
from longpole.cli.options import stderr
from longpole.discover import find
from longpole.errors import DumpError
from longpole.events import Device
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run


def test_a_kernel_has_its_names_grid_and_launch(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {CUPTI + "KERNEL": [kernel(1_000, 1_250)], CUPTI + "RUNTIME": [call(900, 940)]})

    rows, facts = read_both(path)

    assert rows == [
        {
            "category": "kernel", "name": "gemm", "start_ns": 1_000, "duration_ns": 250, "device": 0, "stream": 7,
            "process": 144, "correlation_id": 11, "context": 1, "grid": [8, 1, 1], "block": [128, 2, 1],
        },
        {
            "category": "runtime", "name": "cudaLaunchKernel", "start_ns": 900, "duration_ns": 40, "process": 144,
            "thread": 144, "correlation_id": 11,
        },
    ]  # fmt: skip
    assert facts.format == "nsys"
    assert facts.processes == (144,)
    assert facts.notes == (
        "no NVTX ranges were recorded, so there are no steps: nsys profile --trace=cuda,nvtx records them",
    )


def test_copies_fills_and_driver_calls_keep_their_kind(tmp_path: Path) -> None:
    device = {"deviceId": 1, "contextId": 1, "streamId": 13, "correlationId": 5, "globalPid": pid(144)}
    path = write(
        tmp_path / "a.sqlite",
        {
            CUPTI + "MEMCPY": [{"start": 10, "end": 30, **device, "bytes": 4_096, "copyKind": 8}],
            CUPTI + "MEMSET": [{"start": 40, "end": 41, **device, "bytes": 2**33, "value": 0}],
            CUPTI + "RUNTIME": [call(5, 9, eventClass=1, nameId=5, correlationId=0)],
        },
        names={5: "cuMemcpyDtoH_v2"},
    )

    rows, _ = read_both(path)

    assert [(r["category"], r["name"], r.get("n_bytes"), r.get("correlation_id")) for r in rows] == [
        ("memcpy", "Memcpy DtoD", 4_096, 5),
        ("memset", "Memset (Device)", 2**33, 5),
        ("driver", "cuMemcpyDtoH_v2", None, None),
    ]


def test_ranges_of_pytorch_lose_their_numbers_and_keep_the_sequence(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sqlite",
        {
            "NVTX_EVENTS": [
                marked(1, 9, "aten::mm, seq = 17, op_id = 1204, sizes = [[8, 4], [4, 2]]"),
                marked(2, 8, "aten::empty, op_id = 3"),
                marked(3, 7, "ProfilerStep#12, op_id = 4"),
                marked(4, 6, None, textId=4),
                marked(5, None, "forward, and more", eventType=60),
                marked(6, None, "a mark", eventType=34),
            ]
        },
    )

    rows, facts = read_both(path)

    assert [(r["category"], r["name"], r.get("sequence_id"), r.get("duration_ns")) for r in rows] == [
        ("cpu_op", "aten::mm", 17, 8),
        ("cpu_op", "aten::empty", None, 6),
        ("annotation", "ProfilerStep#12", None, 4),
        ("annotation", "registered", None, 2),
        ("annotation", "forward, and more", None, None),
    ]
    assert facts.skipped == (("NVTX marks, and names of threads, domains and categories", 1),)


def test_a_wait_of_a_stream_names_the_call_that_recorded_its_event(tmp_path: Path) -> None:
    device = {"deviceId": 0, "contextId": 1, "globalPid": pid(144)}
    wait = {"start": 50, "end": 52, **device, "streamId": 7, "correlationId": 31, "syncType": 2, "eventId": 6,
            "eventSyncId": 90}  # fmt: skip
    path = write(
        tmp_path / "a.sqlite",
        {
            CUPTI + "KERNEL": [kernel(60, 70)],
            CUPTI + "SYNCHRONIZATION": [
                wait,
                {**wait, "eventSyncId": 91},
                {**wait, "syncType": 4, "streamId": 0xFFFFFFFF, "eventId": 0xFFFFFFFF},
            ],
            CUPTI + "CUDA_EVENT": [
                {**device, "streamId": 20, "correlationId": 29, "eventId": 6, "eventSyncId": 90},
                {**device, "globalPid": pid(145), "streamId": 21, "correlationId": 28, "eventId": 6, "eventSyncId": 91},
            ],
        },
    )

    rows, _ = read_both(path)

    assert [
        (r["name"], r.get("stream"), r.get("wait_stream"), r.get("wait_correlation_id"), r.get("wait_event_id"))
        for r in rows
        if r["category"] == "sync"
    ] == [
        ("Stream Wait Event", 7, 20, 29, 6),
        ("Stream Wait Event", 7, None, None, 6),
        ("Context Sync", None, None, None, None),
    ]


def test_a_graph_recorded_as_a_whole_is_one_activity_and_said(tmp_path: Path) -> None:
    graph = {"start": 5, "end": 95, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 40,
             "globalPid": pid(144), "graphId": 3}  # fmt: skip
    node = kernel(100, 110, graphNodeId=8_589_934_593)
    rows, facts = read_both(write(tmp_path / "a.sqlite", {CUPTI + "GRAPH_TRACE": [graph], CUPTI + "KERNEL": [node]}))

    assert [(r["category"], r["name"], r["duration_ns"], r.get("graph_node_id")) for r in rows] == [
        ("kernel", "gemm", 10, 8_589_934_593),
        ("kernel", "CUDA graph 3", 90, None),
    ]
    assert "1 launches of CUDA graphs are recorded as one piece of work each" in facts.notes[0]


def test_an_older_export_without_processes_ids_of_texts_or_sessions_is_read(tmp_path: Path) -> None:
    old = {k: v for k, v in kernel(10, 20).items() if k in {"start", "end", "deviceId", "streamId", "shortName"}}
    path = write(
        tmp_path / "a.sqlite",
        {
            CUPTI + "KERNEL": [old],
            "NVTX_EVENTS": [{"start": 1, "end": 30, "eventType": 59, "text": "step 1", "globalTid": pid(7) + 8}],
        },
    )

    rows, facts = read_both(path)

    assert [(r["category"], r["name"], r.get("process")) for r in rows] == [
        ("kernel", "gemm", None),
        ("annotation", "step 1", 7),
    ]
    assert (facts.schema, facts.base_ns, facts.processes) == ("nsys SQLite of an unknown version", 0, ())
    assert facts.notes == (
        "no calls were recorded, so no launch is known: nsys profile --trace=cuda,nvtx records them",
    )


def test_host_device_version_and_start_of_the_session_are_told(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sqlite",
        {
            CUPTI + "KERNEL": [kernel(10, 20)],
            "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.11.0"}],
            "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": "node7"}],
            "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}],
            "TARGET_INFO_GPU": [{"id": 4, "name": "NVIDIA H100", "totalMemory": 85_000_000_000}],
            "TARGET_INFO_CUDA_DEVICE": [{"cudaId": 0, "gpuId": 4}],
        },
    )

    _, facts = read_both(path)

    assert (facts.schema, facts.host, facts.base_ns) == ("nsys SQLite 3.11.0", "node7", 1_700_000_000_000_000_000)
    assert facts.devices == (Device(0, "NVIDIA H100", 85_000_000_000),)


def two_processes() -> dict[str, list[dict[str, object]]]:
    """Two processes that count alike: both use device 0, correlations 11 and 12, and their own steps 5 and 6."""
    kernels, calls, ranges = [], [], []
    for number, late in ((144, 0), (145, 30)):
        tid = {"globalTid": pid(number) + number}
        for step, at in ((5, 1_000), (6, 2_000)):
            correlation = step + 6
            ranges.append(marked(at, at + 900, f"iteration {step}", **tid))
            calls.append(call(at + 100 + late, at + 110 + late, correlationId=correlation, **tid))
            kernels.append(kernel(at + 200 + late, at + 500 + late, correlationId=correlation, globalPid=pid(number)))
    worker = {"globalTid": pid(150) + 151}
    ranges.append(marked(1_500, 1_600, "iteration 99", **worker))
    return {CUPTI + "KERNEL": kernels, CUPTI + "RUNTIME": calls, "NVTX_EVENTS": ranges}


def test_processes_that_number_alike_are_ranks_of_their_own_with_their_own_steps(tmp_path: Path) -> None:
    path = write(tmp_path / "report.sqlite", two_processes())
    store = Store(str(tmp_path / "store"))
    make_run(store, "two", [path], config="[steps]\nmarker = '^iteration (\\d+)$'\n")

    with Session(store) as session:
        launches = session.con.execute(
            "SELECT rank, step, start_ns, launch_ns, process FROM events WHERE category = 'kernel' ORDER BY ALL"
        ).fetchall()
        steps = session.con.execute(
            "SELECT rank, step, start_ns, end_ns, compute_ns FROM rank_steps ORDER BY ALL"
        ).fetchall()
        ((notes,), *_) = session.con.execute("SELECT notes FROM dumps ORDER BY rank").fetchall()

    assert launches == [
        (0, 5, 1_200, 1_100, 144), (0, 6, 2_200, 2_100, 144), (1, 5, 1_230, 1_130, 145), (1, 6, 2_230, 2_130, 145),
    ]  # fmt: skip
    assert steps == [
        (0, 5, 1_000, 1_500, 300), (0, 6, 1_500, 2_500, 300), (1, 5, 1_000, 1_530, 300), (1, 6, 1_530, 2_530, 300),
    ]  # fmt: skip
    assert "2 processes in one dump: one rank each" in notes


def test_exports_of_two_nodes_with_two_processes_each_are_four_ranks(tmp_path: Path) -> None:
    for node, late in ((0, 0), (1, 7)):
        tables = two_processes()
        tables[CUPTI + "KERNEL"] = [{**row, "end": int(str(row["end"])) + late} for row in tables[CUPTI + "KERNEL"]]
        write(tmp_path / f"node{node}.sqlite", tables)
    store = Store(str(tmp_path / "store"))
    make_run(store, "nodes", [tmp_path / "node0.sqlite", tmp_path / "node1.sqlite"], rank_pattern=r"node(\d+)\.sqlite")

    with Session(store) as session:
        found = session.con.execute(
            "SELECT rank, process, min(duration_ns) FROM events WHERE kind IS NOT NULL GROUP BY ALL ORDER BY rank"
        ).fetchall()

    assert found == [(0, 144, 300), (1, 145, 300), (2, 144, 307), (3, 145, 307)]


def test_a_report_beside_its_export_is_left_out_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "report_rank0.sqlite", two_processes())
    (tmp_path / "report_rank0.nsys-rep").write_bytes(b"\x01")
    monkeypatch.setenv("COLUMNS", "400")

    chosen = recognised(find([str(tmp_path)]), stderr())

    assert [Path(c.name).name for c in chosen] == ["report_rank0.sqlite"]
    assert "report_rank0.nsys-rep is an Nsight Systems report, not a profiler dump" in capsys.readouterr().err


def test_what_processes_without_kernels_did_is_left_out_and_counted(tmp_path: Path) -> None:
    fill = {"start": 3, "end": 4, "deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": pid(150), "bytes": 8}
    rows, facts = read_both(write(tmp_path / "a.sqlite", {**two_processes(), CUPTI + "MEMSET": [fill]}))

    assert {r["process"] for r in rows} == {144, 145}
    assert facts.processes == (144, 145)
    assert facts.skipped == (
        ("device work of processes without kernels", 1), ("ranges of processes without kernels", 1),
    )  # fmt: skip


def test_an_export_in_gzip_reads_alike(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", two_processes())
    packed = tmp_path / "a.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    assert read(packed) == read(path)


def test_an_export_at_a_url_reads_alike(tmp_path: Path) -> None:
    import fsspec

    path = write(tmp_path / "a.sqlite", two_processes())
    fsspec.filesystem("memory").pipe("/remote/report.sqlite", path.read_bytes())
    store = Store(str(tmp_path / "store"))
    make_run(store, "remote", ["memory://remote/report.sqlite"])

    with Session(store) as session:
        assert session.con.execute("SELECT count(*) FROM events WHERE kind = 'compute'").fetchall() == [(4,)]


def test_a_report_that_was_not_exported_gets_the_command_that_does(tmp_path: Path) -> None:
    report = tmp_path / "my run.nsys-rep"
    report.write_bytes(b"\x01\x02")

    with pytest.raises(DumpError) as error:
        read(report)

    assert error.value.fact == "my run.nsys-rep is an Nsight Systems report, not a profiler dump"
    assert error.value.cure == "Export it first: nsys export --type sqlite 'my run.nsys-rep'"


def test_a_run_may_have_kineto_on_one_rank_and_nsight_on_another(tmp_path: Path) -> None:
    epoch_us = 1_700_000_000_000_000
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 9, "tid": 9, "ts": epoch_us + 1,
         "dur": 9},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": epoch_us + 2,
         "dur": 1, "args": {"correlation": 11}},
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32", "pid": 0, "tid": 7,
         "ts": epoch_us + 4, "dur": 4, "args": {"device": 0, "stream": 7, "correlation": 11}},
    ]  # fmt: skip
    (tmp_path / "rank0.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    write(
        tmp_path / "rank1.sqlite",
        {
            CUPTI + "KERNEL": [kernel(6_000, 8_000, demangledName=2)],
            CUPTI + "RUNTIME": [call(2_000, 3_000)],
            "NVTX_EVENTS": [marked(1_000, 10_000, "ProfilerStep#5, op_id = 2")],
            "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": epoch_us * 1_000}],
        },
    )
    store = Store(str(tmp_path / "store"))
    make_run(store, "mixed", [tmp_path])

    with Session(store) as session:
        dumps = session.con.execute("SELECT rank, format FROM dumps ORDER BY rank").fetchall()
        met = session.con.execute(
            "SELECT step, rank, end_ns - 1700000000000000000, is_last FROM collectives ORDER BY rank"
        ).fetchall()

    assert dumps == [(0, "kineto"), (1, "nsys")]
    assert met == [(5, 0, 8_000, False), (5, 1, 8_000, True)]
