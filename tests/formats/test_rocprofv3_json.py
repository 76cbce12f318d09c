"""rocprofv3's JSON becomes the events of its database of the same recording; a damaged one gives what is whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from formats.nsys_files import Row, read
from longpole.errors import DumpError
from longpole.events import Device
from longpole.formats import bytestream, json_stream, rocprofv3_json
from longpole.formats.json_stream import JsonError, JsonStream

KINDS = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "hipMemcpyAsync", "hipGraphLaunch"]},
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxRangePushA"]},
    {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {"kind": "RCCL_API", "operations": ["ncclAllReduce"]},
    {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "KERNEL_DISPATCH_COMPLETE"]},
]


def region(kind: int, operation: int, start: int, end: int, number: int) -> Row:
    return {
        "size": 56, "kind": kind, "operation": operation, "correlation_id": {"internal": number, "external": 0},
        "start_timestamp": start, "end_timestamp": end, "thread_id": 71,
    }  # fmt: skip


def kernel(start: int, end: int, number: int, **changes: Any) -> Row:
    return {
        "size": 160, "kind": 5, "operation": 1, "thread_id": 71,
        "correlation_id": {"internal": number, "external": 0}, "start_timestamp": start, "end_timestamp": end,
        "dispatch_info": {
            "size": 64, "agent_id": {"handle": 22}, "queue_id": {"handle": 3}, "kernel_id": 9, "dispatch_id": 1,
            "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 1_000, "y": 2, "z": 1},
        },
        "stream_id": {"handle": 0}, **changes,
    }  # fmt: skip


def recording(**records: list[Any]) -> Row:
    """Return what one process's file holds, in the order of its writer."""
    return {
        "metadata": {"pid": 70, "init_time": 1, "fini_time": 9_000, "node": {"hostname": "node3"}, "command": ["a"]},
        "agents": [
            {"size": 296, "id": {"handle": 11}, "type": 1, "logical_node_type_id": 0, "product_name": "EPYC"},
            {"size": 296, "id": {"handle": 22}, "type": 2, "logical_node_type_id": 4, "product_name": "MI300X"},
        ],
        "counters": [],
        "strings": {
            "callback_records": [{"kind": "NONE", "operations": []}],
            "buffer_records": KINDS,
            "marker_api": [{"key": 50, "value": "iteration 5"}],
            "correlation_id": {"external": []},
        },
        "code_objects": [{"size": 1, "uri": "file:///a", "nested": [[{}], {"a": [1.5e3, None, True]}]}],
        "kernel_symbols": [
            {"kernel_id": 9, "kernel_name": "_Z4gemmv.kd", "formatted_kernel_name": "gemm()"},
            {"kernel_id": 10, "kernel_name": "plain"},
        ],
        "host_functions": [],
        "summary": [],
        "callback_records": {"counter_collection": []},
        "buffer_records": {"memory_allocation": [{"size": 1}], **records},
    }


WHOLE = recording(
    kernel_dispatch=[kernel(1_200, 1_300, 51)],
    hip_api=[region(1, 0, 1_100, 1_110, 51), region(1, 1, 1_120, 1_130, 52)],
    marker_api=[region(2, 1, 1_000, 2_000, 50)],
    rccl_api=[region(4, 0, 1_140, 1_150, 53)],
    memory_copy=[
        {"size": 56, "kind": 3, "operation": 1, "correlation_id": {"internal": 52, "external": 0}, "thread_id": 71,
         "start_timestamp": 1_400, "end_timestamp": 1_450, "dst_agent_id": {"handle": 22},
         "src_agent_id": {"handle": 11}, "bytes": 4_096, "stream_id": {"handle": 0}},
    ],
)  # fmt: skip


def write(path: Path, *recordings: Row) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": recordings}, indent=0))
    return path


def test_kernels_copies_calls_and_markers_are_the_events_of_the_database(tmp_path: Path) -> None:
    rows, facts = read(write(tmp_path / "70_results.json", WHOLE))

    host = {"process": 70, "thread": 71}
    assert rows == [
        {"category": "kernel", "name": "gemm()", "start_ns": 1_200, "duration_ns": 100, "device": 4, "stream": 0,
         "process": 70, "correlation_id": 51, "grid": [4, 2, 1], "block": [256, 1, 1]},
        {"category": "runtime", "name": "hipLaunchKernel", "start_ns": 1_100, "duration_ns": 10, **host,
         "correlation_id": 51},
        {"category": "runtime", "name": "hipMemcpyAsync", "start_ns": 1_120, "duration_ns": 10, **host,
         "correlation_id": 52},
        {"category": "annotation", "name": "iteration 5", "start_ns": 1_000, "duration_ns": 1_000, **host},
        {"category": "annotation", "name": "ncclAllReduce", "start_ns": 1_140, "duration_ns": 10, **host},
        {"category": "memcpy", "name": "MEMORY_COPY_HOST_TO_DEVICE", "start_ns": 1_400, "duration_ns": 50, "device": 4,
         "stream": 0, "process": 70, "correlation_id": 52, "n_bytes": 4_096},
    ]  # fmt: skip
    assert (facts.format, facts.host, facts.devices) == ("rocprofv3-json", "node3", (Device(4, "MI300X"),))


def test_a_graphs_kernels_carry_the_number_of_its_launch_and_their_nodes(tmp_path: Path) -> None:
    work = recording(
        kernel_dispatch=[kernel(1_000, 1_100, 60, graph_node_id=3), kernel(1_100, 1_200, 60, graph_node_id=0)],
        hip_api=[region(1, 2, 900, 950, 60)],
    )

    rows, _ = read(write(tmp_path / "a.json", work))

    assert [(row["name"], row["correlation_id"], row.get("graph_node_id")) for row in rows] == [
        ("gemm()", 60, 3), ("gemm()", 60, None), ("hipGraphLaunch", 60, None),
    ]  # fmt: skip


def test_an_older_file_without_streams_names_queues(tmp_path: Path) -> None:
    old = kernel(1, 2, 1)
    del old["stream_id"]

    rows, _ = read(write(tmp_path / "a.json", recording(kernel_dispatch=[old])))

    assert rows[0]["stream"] == 3


def test_one_in_gzip_reads_alike(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", WHOLE)
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    assert read(packed) == read(path)


def test_a_file_larger_than_any_window_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_WINDOW", 10_000)
    monkeypatch.setattr(bytestream, "_RAW_READ", 4_000)
    monkeypatch.setattr(rocprofv3_json, "BATCH_ROWS", 300)
    many = recording(
        kernel_dispatch=[kernel(start, start + 1, start, note="ü" * 20) for start in range(1, 2_001)],
        hip_api=[region(1, 0, start, start + 1, start) for start in range(1, 501)],
    )

    rows, facts = read(write(tmp_path / "a.json", many))

    assert (facts.n_events, facts.n_dropped) == (2_500, 0)
    assert (rows[1_999]["start_ns"], rows[2_499]["start_ns"]) == (2_000, 500)


def test_a_file_cut_off_gives_its_whole_records_and_says_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = json.dumps({"rocprofiler-sdk-tool": [WHOLE]})
    path.write_text(text[: text.index('"marker_api": [{"size"') + 30])

    rows, facts = read(path)

    assert [row["name"] for row in rows] == ["gemm()", "hipLaunchKernel", "hipMemcpyAsync"]
    assert facts.is_truncated
    assert facts.samples == ("after 3 events, it ends early, or is no JSON",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"agents": [{"id": 1', "it ends early, or is no JSON"),
        ('{"metadata": {}} {}]}', "it is no JSON"),
        ('{"agents" 5}]}', "it is no JSON"),
        ("{5: 5}]}", "it is no JSON"),
        ('{"else": ' + "[" * 100_000, "it is nested too deeply"),
        ('{"metadata": ' + "[" * 100_000, "it is nested too deeply"),
        ('{"metadata": {"pid": ' + "9" * 5_000 + "}}]}", "it ends early, or is no JSON"),
        ('{"metadata": "' + "x" * (18 << 20), "it has a value that does not end within 16 MiB"),
    ],
    ids=["cut", "two values", "no colon", "a number as key", "deep", "deep value", "long number", "long text"],
)  # fmt: skip
def test_what_is_no_such_file_is_refused_in_words(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"rocprofiler-sdk-tool": [' + text)

    with pytest.raises(DumpError) as error:
        read(path)

    assert error.value.fact == f"a.json begins like rocprofv3's JSON, but {why}"


def test_values_of_another_kind_and_numbers_beyond_their_range_cost_their_row_or_their_value(tmp_path: Path) -> None:
    odd = recording(
        kernel_dispatch=[
            5,
            {},
            kernel(2**63, 2**64, 1),
            kernel(0, 0, 1, start_timestamp="1", end_timestamp=True),
            kernel(100, 200, 2**63, kind="x", stream_id=[], dispatch_info={"grid_size": {"x": 2**40, "y": 1, "z": 1}}),
        ],
        hip_api=[region(2**31, 0, 1, 2, 3), region(1, -1, 1, 2, 3)],
        memory_copy=[{"start_timestamp": 5, "end_timestamp": 9, "dst_agent_id": {"handle": 2**64}, "bytes": 1.5}],
    )
    odd["buffer_records"]["rccl_api"] = {"kind": 4}
    odd["kernel_symbols"].append({"kernel_id": 11, "kernel_name": "\ud800"})

    rows, facts = read(write(tmp_path / "a.json", odd))

    shared = {"process": 70, "duration_ns": 1, "start_ns": 1, "thread": 71}
    assert rows == [
        {"category": "kernel", "name": "(unnamed kernel)", "start_ns": 100, "duration_ns": 100, "process": 70},
        {"category": "annotation", "name": "(unnamed)", **shared},
        {"category": "runtime", "name": "(unnamed)", "correlation_id": 3, **shared},
        {"category": "memcpy", "name": "(unnamed copy)", "start_ns": 5, "duration_ns": 4, "process": 70},
    ]
    assert facts.samples == ("a record that is no object: 1", "no start, or one beyond any time: 3")


def test_recordings_of_several_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError) as error:
        read(write(tmp_path / "a.json", WHOLE, WHOLE))

    assert error.value.fact == "a.json holds the recordings of several processes"
    assert error.value.cure == "Give the files as rocprofv3 wrote them, one a process."


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 7])
def test_pieces_may_end_anywhere(n_bytes: int) -> None:
    text = '{"a": [1, 23, {"ü€😀": "\\u00fc"}], "b": {"c": []}, "d": -1.5}'.encode()
    stream = JsonStream(text[at : at + n_bytes] for at in range(0, len(text), n_bytes))
    found: list[Any] = []

    for key in stream.members():
        found.append(key)
        found += [stream.value() for _ in stream.items()] if key == "a" else [stream.value()]

    assert found == ["a", 1, 23, {"ü€😀": "ü"}, "b", {"c": []}, "d", -1.5]


def test_an_end_within_a_list_is_an_error() -> None:
    stream = JsonStream([b"[1,"])

    with pytest.raises(JsonError, match="ends early"):
        [stream.value() for _ in stream.items()]
