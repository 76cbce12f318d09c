"""One Nsight Systems export, two processes, two devices: two ranks, with the answers of traces/README.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from formats.nsys_files import as_folder
from longpole.discover import find
from longpole.formats import ReadOptions, nsys_folder
from longpole.formats.sqlite_dump import SqliteReader
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run


@pytest.fixture(scope="module")
def export(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over the run."""
    store = Store(str(tmp_path_factory.mktemp("nsys") / "store"))
    make_run(store, "before", [traces / "nsys-2x" / "before.sqlite"])
    with Session(store) as session:
        yield session


def _rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    return session.con.execute(sql).fetchall()


def test_the_two_processes_are_two_ranks(export: Session) -> None:
    found = _rows(export, "SELECT rank, device_index, process, host FROM ranks ORDER BY rank")
    dumps = _rows(export, "SELECT rank, format, n_events, n_stored, n_dropped, verdict FROM dumps ORDER BY rank")

    assert found == [(0, 0, 144, None), (1, 1, 145, None)]
    assert dumps == [(rank, "nsys", 32_249, 32_249, 0, "ok") for rank in (0, 1)]


def test_a_rank_has_its_own_process_alone(export: Session) -> None:
    found = _rows(
        export,
        "SELECT rank, category, count(*), count(DISTINCT process) FROM events"
        " WHERE category IN ('kernel', 'memcpy', 'memset', 'runtime', 'driver', 'sync') GROUP BY ALL ORDER BY ALL",
    )

    assert found == [
        (0, "driver", 530, 1), (0, "kernel", 1_993, 1), (0, "memcpy", 510, 1), (0, "memset", 133, 1),
        (0, "runtime", 3_158, 1), (0, "sync", 178, 1),
        (1, "driver", 544, 1), (1, "kernel", 2_017, 1), (1, "memcpy", 510, 1), (1, "memset", 136, 1),
        (1, "runtime", 3_234, 1), (1, "sync", 188, 1),
    ]  # fmt: skip


def test_communication_and_compute_are_exact_to_the_nanosecond(export: Session) -> None:
    found = _rows(export, "SELECT rank, comm_ns, overlapped_comm_ns, compute_ns FROM rank_captures ORDER BY rank")
    spans = _rows(
        export,
        "SELECT rank, max(start_ns + duration_ns) - min(start_ns) FROM events WHERE category = 'kernel'"
        " GROUP BY rank ORDER BY rank",
    )

    assert found == [(0, 17_172_652, 0, 253_690_832), (1, 8_229_100, 0, 256_095_624)]
    assert spans == [(0, 299_848_812), (1, 298_661_551)]


def test_all_launches_but_the_31_before_the_recording_are_found(export: Session) -> None:
    found = _rows(
        export,
        "SELECT count(*), count(launch_ns), count(*) FILTER (launch_ns > start_ns) FROM events WHERE kind IS NOT NULL",
    )

    assert found == [(5_299, 5_268, 0)]


def test_times_are_on_the_epoch_of_the_session(export: Session) -> None:
    found = _rows(export, "SELECT min(start_ns) FROM events WHERE category = 'kernel' AND rank = 0")

    assert found == [(1_779_782_330_176_752_435 + 60_111_541_307,)]


def test_the_kernels_of_both_ranks_are_one_collective_each(export: Session) -> None:
    found = _rows(export, "SELECT count(*), min(n_present), bool_and(is_complete) FROM collective_instances")

    assert found == [(33, 2, True)]


def test_a_folder_of_parquet_with_the_same_tables_gives_the_same_rows(traces: Path, tmp_path: Path) -> None:
    database = traces / "nsys-2x" / "before.sqlite"
    folder = as_folder(database, tmp_path / "before_pqtdir")
    (candidate,) = find([str(folder)])
    own: list[pa.Table] = []
    others: list[pa.Table] = []

    with database.open("rb") as file:
        facts = SqliteReader().read(file, database.name, own.append, ReadOptions())
    told = nsys_folder.read(
        nsys_folder.local_tables(candidate.parts, tmp_path), candidate.name, others.append, ReadOptions()
    )

    assert pa.concat_tables(own).num_rows == 32_249
    assert pa.concat_tables(others).equals(pa.concat_tables(own))
    assert facts.schema == "nsys SQLite 3.25.0, Nsight Systems 2026.2.1.210"
    assert told == replace(facts, schema="nsys Parquet 3.25.0, Nsight Systems 2026.2.1.210")
