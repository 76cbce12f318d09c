"""Tables of ROCm's RPD become events; several processes in one file stay apart."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from formats.nsys_files import read
from longpole.errors import DumpError
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

STRINGS = (
    "", "KernelExecution", "gemm", "CopyHostToDevice", "hipLaunchKernel", "UserMarker", "iteration 5", "aten::mm",
    "hipMemcpyAsync", "Task", "Barrier", "rpdflush", "FillBuffer",
)  # fmt: skip
"""Their ids are their places."""

SCHEMA = """
CREATE TABLE rocpd_string (id integer NOT NULL PRIMARY KEY AUTOINCREMENT, string varchar(4096) NOT NULL);
CREATE TABLE rocpd_op (id integer NOT NULL PRIMARY KEY, gpuId, queueId, start, end, description_id, opType_id);
CREATE TABLE rocpd_api (id integer NOT NULL PRIMARY KEY, pid, tid, start, end, apiName_id, args_id);
CREATE TABLE rocpd_api_ops (id integer NOT NULL PRIMARY KEY, api_id, op_id);
"""


def word(text: str) -> int:
    return STRINGS.index(text)


def operation(number: int, start: int, end: int, kind: str, name: str = "", *, gpu: int = 0) -> Sequence[int]:
    return number, gpu, 3, start, end, word(name), word(kind)


def api(number: int, start: int, end: int, name: str, told: str = "", *, pid: int = 9) -> Sequence[int]:
    return number, pid, pid + 1, start, end, word(name), word(told)


def write(
    path: Path, ops: list[Sequence[int]], apis: list[Sequence[int]], links: list[tuple[int, int]], more: str = ""
) -> Path:
    with closing(sqlite3.connect(path)) as con:
        con.executescript(SCHEMA + more)
        con.executemany("INSERT INTO rocpd_string VALUES (?, ?)", list(enumerate(STRINGS)))
        con.executemany("INSERT INTO rocpd_op VALUES (?, ?, ?, ?, ?, ?, ?)", ops)
        con.executemany("INSERT INTO rocpd_api VALUES (?, ?, ?, ?, ?, ?, ?)", apis)
        con.executemany("INSERT INTO rocpd_api_ops (api_id, op_id) VALUES (?, ?)", links)
        con.commit()
    return path


def test_operations_take_process_shape_and_launch_from_their_call(tmp_path: Path) -> None:
    far = 2**32 + 8
    path = write(
        tmp_path / "a.rpd",
        [
            operation(far, 100, 150, "KernelExecution", "gemm"),
            operation(far + 1, 160, 170, "CopyHostToDevice"),
            operation(far + 2, 180, 190, "Task", "gemm"),
            operation(far + 3, 191, 192, "FillBuffer"),
            operation(far + 4, 193, 194, "Barrier"),
        ],
        [api(far, 90, 95, "hipLaunchKernel"), api(far + 1, 96, 97, "hipMemcpyAsync")],
        [(far, far), (far + 1, far + 1)],
        "CREATE TABLE rocpd_kernelapi (api_ptr_id integer NOT NULL PRIMARY KEY, gridX, gridY, gridZ, workgroupX,"
        f" workgroupY, workgroupZ); INSERT INTO rocpd_kernelapi VALUES ({far}, 4, 2, 1, 256, 1, 1);"
        "CREATE TABLE rocpd_copyapi (api_ptr_id integer NOT NULL PRIMARY KEY, size);"
        f"INSERT INTO rocpd_copyapi VALUES ({far + 1}, 4096);",
    )

    rows, facts = read(path)

    shared = {"device": 0, "stream": 3, "process": 9}
    assert rows == [
        {"category": "kernel", "name": "gemm", "start_ns": 100, "duration_ns": 50, **shared, "correlation_id": far,
         "grid": [4, 2, 1], "block": [256, 1, 1]},
        {"category": "memcpy", "name": "CopyHostToDevice", "start_ns": 160, "duration_ns": 10, **shared,
         "correlation_id": far + 1, "n_bytes": 4_096},
        {"category": "kernel", "name": "gemm", "start_ns": 180, "duration_ns": 10, **shared},
        {"category": "memset", "name": "FillBuffer", "start_ns": 191, "duration_ns": 1, **shared},
        {"category": "sync", "name": "Barrier", "start_ns": 193, "duration_ns": 1, **shared},
        {"category": "runtime", "name": "hipLaunchKernel", "start_ns": 90, "duration_ns": 5, "process": 9,
         "thread": 10, "correlation_id": far},
        {"category": "runtime", "name": "hipMemcpyAsync", "start_ns": 96, "duration_ns": 1, "process": 9,
         "thread": 10, "correlation_id": far + 1},
    ]  # fmt: skip
    assert facts.notes == ("3 operations have no call that launched them",)
    assert facts.schema == "RPD of an unknown version"


def test_markers_are_annotations_or_operators_by_pytorchs_own_table(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.rpd",
        [],
        [
            api(1, 10, 20, "UserMarker", "iteration 5"),
            api(2, 11, 12, "UserMarker", "aten::mm"),
            api(3, 30, 31, "rpdflush"),
        ],
        [],
        "CREATE TABLE ext_autogradapi (api_ptr_id integer NOT NULL PRIMARY KEY, seq);"
        "INSERT INTO ext_autogradapi VALUES (2, 17);",
    )

    rows, _ = read(path)

    assert [(r["category"], r["name"], r.get("sequence_id"), r.get("correlation_id")) for r in rows] == [
        ("annotation", "iteration 5", None, None),
        ("cpu_op", "aten::mm", 17, None),
        ("overhead", "rpdflush", None, None),
    ]


def test_processes_of_one_file_are_ranks_with_their_own_steps(tmp_path: Path) -> None:
    ops, apis, links = [], [], []
    for place, pid in enumerate((20, 30)):
        first = 10 * place
        apis += [
            api(first + 1, 1_000, 1_900, "UserMarker", "iteration 5", pid=pid),
            api(first + 2, 1_100 + place, 1_110, "hipLaunchKernel", pid=pid),
        ]
        ops.append(operation(first + 2, 1_200, 1_300 + place, "KernelExecution", "gemm", gpu=place))
        links.append((first + 2, first + 2))
    apis.append(api(99, 1, 2, "hipLaunchKernel", pid=40))
    path = write(tmp_path / "node.rpd", ops, apis, links)
    store = Store(str(tmp_path / "store"))
    make_run(store, "two", [path], config="[steps]\nmarker = '^iteration (\\d+)$'\n")

    with Session(store) as session:
        found = session.con.execute(
            "SELECT rank, step, process, device, launch_ns, duration_ns FROM events WHERE kind = 'compute' ORDER BY ALL"
        ).fetchall()
        skipped = session.con.execute("SELECT DISTINCT n_skipped FROM dumps").fetchall()

    assert found == [(0, 5, 20, 0, 1_100, 100), (1, 5, 30, 1, 1_101, 101)]
    assert skipped == [(1,)]


def test_a_profile_without_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.rpd"
    with closing(sqlite3.connect(path)) as con:
        con.executescript("CREATE TABLE rocpd_string (id); CREATE TABLE rocpd_op (id); CREATE TABLE rocpd_api (id);")

    with pytest.raises(DumpError) as error:
        read(path)

    assert error.value.fact == "a.rpd is an RPD profile whose table rocpd_string has no key"


def test_text_where_numbers_belong_costs_its_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rpd", [operation(1, 5, 9, "Task", "gemm"), operation(2, 6, 9, "Task", "gemm")], [], [])
    with closing(sqlite3.connect(path)) as con:
        con.execute("UPDATE rocpd_op SET start = 'soon', queueId = 'seven' WHERE id = 1")
        con.execute("UPDATE rocpd_op SET queueId = 'seven', opType_id = 'x' WHERE id = 2")
        con.commit()

    rows, facts = read(path)

    assert [(r["start_ns"], r.get("stream"), r["category"]) for r in rows] == [(6, None, "kernel")]
    assert facts.samples == ("no start, or one beyond any time: 1",)
