"""rocprofv3's tables, whose names end in the recording's id, become events."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from formats.nsys_files import read
from longpole.errors import DumpError
from longpole.events import Device
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

SCHEMA = """
CREATE TABLE rocpd_string{e} (id INTEGER NOT NULL PRIMARY KEY, string TEXT);
CREATE TABLE rocpd_info_node{e} (id INTEGER NOT NULL PRIMARY KEY, hostname TEXT);
CREATE TABLE rocpd_info_process{e} (id INTEGER NOT NULL PRIMARY KEY, pid INTEGER);
CREATE TABLE rocpd_info_thread{e} (id INTEGER NOT NULL PRIMARY KEY, tid INTEGER);
CREATE TABLE rocpd_info_agent{e} (id INTEGER NOT NULL PRIMARY KEY, type TEXT, type_index INTEGER, product_name TEXT);
CREATE TABLE rocpd_info_kernel_symbol{e} (id INTEGER NOT NULL PRIMARY KEY, kernel_name TEXT, display_name TEXT);
CREATE TABLE rocpd_event{e} (id INTEGER NOT NULL PRIMARY KEY, category_id INTEGER, stack_id INTEGER, extdata JSONB);
CREATE TABLE rocpd_region{e} (id INTEGER NOT NULL PRIMARY KEY, pid, tid, start, "end", name_id, event_id, extdata);
CREATE TABLE rocpd_kernel_dispatch{e} (id INTEGER NOT NULL PRIMARY KEY, pid, agent_id, kernel_id, stream_id, start,
    "end", workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id);
CREATE TABLE rocpd_memory_copy{e} (id INTEGER NOT NULL PRIMARY KEY, pid, dst_agent_id, src_agent_id, name_id, size,
    stream_id, start, "end", event_id);
CREATE VIEW IF NOT EXISTS rocpd_region AS SELECT * FROM rocpd_region{e};
INSERT INTO rocpd_string{e} VALUES (1, 'HIP_RUNTIME_API'), (2, 'hipLaunchKernel'), (3, 'MARKER_CORE_RANGE_API'),
    (4, 'roctxRangePush'), (5, 'MEMORY_COPY_HOST_TO_DEVICE'), (6, 'KERNEL_DISPATCH'), (7, 'hipMemcpyAsync');
INSERT INTO rocpd_info_node{e} VALUES (1, 'node3');
INSERT INTO rocpd_info_process{e} VALUES (1, {pid});
INSERT INTO rocpd_info_thread{e} VALUES (1, {pid} + 1);
INSERT INTO rocpd_info_agent{e} VALUES (1, 'CPU', 0, 'EPYC'), (2, 'GPU', {gpu}, 'MI300X');
INSERT INTO rocpd_info_kernel_symbol{e} VALUES (9, '_Z4gemmv.kd', 'gemm()');
INSERT INTO rocpd_event{e} VALUES (1, 3, 50, '{{"message":"iteration 5"}}'), (2, 1, 51, '{{}}'), (3, 6, 51, '{{}}'),
    (4, 1, 52, '{{}}'), (5, 5, 52, '{{}}');
INSERT INTO rocpd_region{e} VALUES (1, 1, 1, 1000, 2000, 4, 1, '{{}}'), (2, 1, 1, 1100, 1110, 2, 2, '{{}}'),
    (3, 1, 1, 1120, 1130, 7, 4, '{{}}');
INSERT INTO rocpd_kernel_dispatch{e} VALUES (1, 1, 2, 9, 0, 1200, 1300, 256, 1, 1, 1000, 2, 1, 3);
INSERT INTO rocpd_memory_copy{e} VALUES (1, 1, 2, 1, 5, 4096, 0, 1400, 1450, 5);
"""


def write(path: Path, *recordings: tuple[str, int, int]) -> Path:
    with closing(sqlite3.connect(path)) as con:
        for end, pid, gpu in recordings:
            con.executescript(SCHEMA.format(e=end, pid=pid, gpu=gpu))
        con.commit()
    return path


def test_kernels_copies_calls_and_markers_are_events(tmp_path: Path) -> None:
    rows, facts = read(write(tmp_path / "a_results.db", ("_0000ab_1f", 70, 4)))

    host = {"process": 70, "thread": 71}
    assert rows == [
        {"category": "kernel", "name": "gemm()", "start_ns": 1_200, "duration_ns": 100, "device": 4, "stream": 0,
         "process": 70, "correlation_id": 51, "grid": [4, 2, 1], "block": [256, 1, 1]},
        {"category": "memcpy", "name": "MEMORY_COPY_HOST_TO_DEVICE", "start_ns": 1_400, "duration_ns": 50, "device": 4,
         "stream": 0, "process": 70, "correlation_id": 52, "n_bytes": 4_096},
        {"category": "annotation", "name": "iteration 5", "start_ns": 1_000, "duration_ns": 1_000, **host},
        {"category": "runtime", "name": "hipLaunchKernel", "start_ns": 1_100, "duration_ns": 10, **host,
         "correlation_id": 51},
        {"category": "runtime", "name": "hipMemcpyAsync", "start_ns": 1_120, "duration_ns": 10, **host,
         "correlation_id": 52},
    ]  # fmt: skip
    assert (facts.format, facts.host, facts.devices) == ("rocpd", "node3", (Device(4, "MI300X"),))


def test_recordings_of_several_processes_in_one_file_are_ranks(tmp_path: Path) -> None:
    path = write(tmp_path / "merged.db", ("_aa", 70, 0), ("_bb", 80, 1))
    store = Store(str(tmp_path / "store"))
    make_run(store, "merged", [path], config="[steps]\nmarker = '^iteration (\\d+)$'\n")

    with Session(store) as session:
        found = session.con.execute(
            "SELECT rank, step, device, process, launch_ns, kind FROM events WHERE kind IS NOT NULL ORDER BY ALL"
        ).fetchall()

    assert found == [
        (0, 5, 0, 70, 1_100, "compute"), (0, 5, 0, 70, 1_120, "copy"),
        (1, 5, 1, 80, 1_100, "compute"), (1, 5, 1, 80, 1_120, "copy"),
    ]  # fmt: skip


def test_two_recordings_of_one_process_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError) as error:
        read(write(tmp_path / "merged.db", ("_aa", 70, 0), ("_bb", 70, 1)))

    assert error.value.fact == "merged.db has two recordings of process 70"
