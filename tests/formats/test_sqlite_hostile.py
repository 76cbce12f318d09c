"""SQLite files that are no dump, damaged, in use or made to mislead: a verdict each, and nothing in them runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from formats.nsys_files import CUPTI, call, kernel, marked, read, write
from longpole.errors import DumpError
from longpole.formats.sqlite_file import SqliteFile

KERNELS = CUPTI + "KERNEL"


def refused(path: Path) -> DumpError:
    with pytest.raises(DumpError) as error:
        read(path)
    return error.value


def altered(path: Path, *statements: str) -> Path:
    """Return the database after these statements, its schema open to them."""
    with closing(sqlite3.connect(path)) as con:
        for statement in statements:
            con.execute(statement)
        con.commit()
    return path


def test_a_database_of_something_else_is_named_by_its_tables(tmp_path: Path) -> None:
    path = altered(tmp_path / "mlflow.db", "CREATE TABLE experiments (id)", "CREATE TABLE runs (id)")

    error = refused(path)

    assert error.fact == ("mlflow.db is an SQLite database of no known profiler (its first tables: experiments, runs)")
    assert "nsys export --type sqlite" in error.cure


def test_a_database_cut_off_says_how_much_is_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {KERNELS: [kernel(n, n + 1) for n in range(2_000)]})
    data = path.read_bytes()
    path.write_bytes(data[:12_288])

    assert refused(path).fact == (
        f"a.sqlite is an SQLite database that was cut off: 12,288 of its {len(data):,} bytes are there"
    )


@pytest.mark.parametrize("n_bytes", [16, 50, 99])
def test_a_database_cut_off_in_its_header_is_no_traceback(tmp_path: Path, n_bytes: int) -> None:
    path = write(tmp_path / "a.sqlite", {KERNELS: [kernel(1, 2)]})
    path.write_bytes(path.read_bytes()[:n_bytes])

    assert refused(path).fact == "a.sqlite is an SQLite database that was cut off in its header"


def test_a_header_alone_followed_by_nonsense_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {KERNELS: [kernel(1, 2)]})
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xa5" * (len(data) - 100))

    assert "cannot be read: " in refused(path).fact


def test_a_page_damaged_in_the_middle_costs_what_follows_it_and_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {KERNELS: [kernel(n, n + 1) for n in range(5_000)]})
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4_096 * 4_096
    data[middle : middle + 4_096] = b"\xff" * 4_096
    path.write_bytes(data)

    rows, facts = read(path)

    assert facts.is_truncated
    assert 0 <= len(rows) < 5_000
    assert facts.samples[0].startswith("CUPTI_ACTIVITY_KIND_KERNEL ends early, after ")


def test_a_database_that_another_program_writes_is_locked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {KERNELS: [kernel(1, 2)]})
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")

        assert refused(path).fact == "a.sqlite is locked: another program is writing it"


def test_changes_still_in_the_log_beside_the_database_are_not_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rpd", {KERNELS: [kernel(1, 2)]})
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO StringIds VALUES (77, 'late')")
        writer.commit()

        error = refused(path)

    assert error.fact == "a.rpd is not finished: changes to it are still in a.rpd-wal"
    assert "sqlite3 a.rpd 'PRAGMA wal_checkpoint(TRUNCATE)'" in error.cure


def test_a_database_in_log_mode_that_was_closed_is_read_and_nothing_is_written_beside_it(tmp_path: Path) -> None:
    path = altered(write(tmp_path / "a.sqlite", {KERNELS: [kernel(1, 2)]}), "PRAGMA journal_mode = WAL")

    rows, _ = read(path)

    assert len(rows) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]


def test_values_of_another_kind_and_numbers_beyond_their_range_cost_their_row_or_their_value(tmp_path: Path) -> None:
    big: list[dict[str, Any]] = [
        kernel(1, 9, correlationId=2**62, streamId=2**40, gridX=2**31, graphNodeId=-(2**63)),
        kernel(2, 9, deviceId=2**31),
        kernel(3, 9, deviceId="0"),
        kernel(4, 9, demangledName=2**63 - 1, shortName=None),
        kernel(5, 9, demangledName="gemm", shortName=b"\x00"),
    ]
    path = write(
        tmp_path / "a.sqlite",
        {
            KERNELS: [
                *big,
                {**kernel(6, 9), "start": "six"},
                {**kernel(7, 9), "start": -(2**63), "end": 2**63 - 1},
                {**kernel(8, 9), "end": 8.5},
                {**kernel(9, 9), "end": 2**63 - 1},
            ]
        },
    )

    rows, facts = read(path)

    assert [(r["start_ns"], r["name"], r.get("duration_ns")) for r in rows] == [
        (1, "gemm", 8), (3, "gemm", 6), (4, "(unnamed kernel)", 5), (5, "(unnamed kernel)", 4), (8, "gemm", None),
    ]  # fmt: skip
    assert (rows[0]["correlation_id"], rows[0]["stream"], rows[0].get("grid")) == (2**62, 2**40, None)
    assert rows[1].get("device") is None
    assert facts.samples == (
        "a device number that cannot be: 1", "an end beyond any time: 1", "no start, or one beyond any time: 2",
    )  # fmt: skip
    assert facts.n_dropped == 4


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW {KERNELS} AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n)"
        " SELECT start, start AS end FROM n",
        f"CREATE VIRTUAL TABLE {KERNELS} USING fts5(start, end)",
    ],
)
def test_a_view_or_a_virtual_table_is_no_table(tmp_path: Path, statement: str) -> None:
    path = altered(write(tmp_path / "a.sqlite", {"NVTX_EVENTS": [marked(1, 2, "x")]}), statement)

    rows, facts = read(path)

    assert [r["name"] for r in rows] == ["x"]
    assert "no device work was recorded: nsys profile --trace=cuda,nvtx records it" in facts.notes


def test_a_computed_column_is_as_if_missing_and_an_indexed_expression_is_not_computed(tmp_path: Path) -> None:
    path = altered(
        tmp_path / "a.sqlite",
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)",
        f"CREATE TABLE {KERNELS} (start, end, deviceId, streamId,"
        " correlationId AS (length(hex(zeroblob(start * 100000000)))))",
        f"INSERT INTO {KERNELS} VALUES (1, 2, 0, 7)",
        f"CREATE INDEX every ON {KERNELS} (start, end, deviceId, streamId, abs(start))",
    )

    rows, _ = read(path)

    assert [(r["start_ns"], r.get("correlation_id")) for r in rows] == [(1, None)]


def test_whatever_else_a_statement_would_need_is_refused(tmp_path: Path) -> None:
    path = altered(write(tmp_path / "a.sqlite", {KERNELS: [kernel(1, 2)]}), "CREATE VIEW v AS SELECT * FROM StringIds")
    with SqliteFile(path, "a.sqlite") as file:
        for statement in (
            "SELECT id FROM v", "SELECT load_extension('x')", "ATTACH 'b' AS b", "PRAGMA query_only = OFF",
            "DELETE FROM StringIds", "SELECT hex(start) FROM " + KERNELS,
        ):  # fmt: skip
            with pytest.raises(sqlite3.DatabaseError):
                file._con.execute(statement)


def test_pages_that_repeat_themselves_end_at_what_the_file_can_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {KERNELS: [kernel(n, n + 1) for n in range(3_000)]})
    with closing(sqlite3.connect(path)) as con:
        ((root,),) = con.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNELS,)).fetchall()
    data = bytearray(path.read_bytes())
    at = (root - 1) * 4_096
    n_cells = int.from_bytes(data[at + 3 : at + 5], "big")
    cells = [int.from_bytes(data[at + 12 + 2 * n : at + 14 + 2 * n], "big") for n in range(n_cells)]
    first = data[at + cells[0] : at + cells[0] + 4]
    # One page that points at one leaf four hundred times, the root at that page as often: a million rows and more.
    middle = bytearray(4_096)
    middle[0] = 5
    middle[3:5] = (400).to_bytes(2, "big")
    middle[5:7] = (4_090).to_bytes(2, "big")
    middle[8:12] = first
    middle[4_090:4_096] = bytes(first) + b"\x01\x00"
    for n in range(400):
        middle[12 + 2 * n : 14 + 2 * n] = (4_090).to_bytes(2, "big")
    new_page = len(data) // 4_096 + 1
    root_page = bytearray(middle)
    root_page[8:12] = root_page[4_090:4_094] = new_page.to_bytes(4, "big")
    data[at : at + 4_096] = root_page
    data[28:32] = new_page.to_bytes(4, "big")
    path.write_bytes(bytes(data) + bytes(middle))

    with pytest.raises(DumpError, match="has more rows than fit into its") as error:
        read(path)

    assert KERNELS in str(error.value)


def test_names_without_a_key_are_refused_rather_than_searched_for_each_row(tmp_path: Path) -> None:
    path = altered(
        tmp_path / "a.sqlite",
        "CREATE TABLE StringIds (id, value)",
        f"CREATE TABLE {KERNELS} (start, end, demangledName)",
    )

    assert refused(path).fact == "a.sqlite is an Nsight Systems export whose table StringIds has no key"


def test_a_text_without_end_is_cut_and_broken_utf8_is_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {"NVTX_EVENTS": [marked(1, 2, "x" * 5_000_000), marked(3, 4, "b")]})
    altered(path, "UPDATE NVTX_EVENTS SET text = CAST(x'66ff6f' AS TEXT) WHERE start = 3")

    rows, _ = read(path)

    assert [(len(r["name"]), r["name"][:3]) for r in rows] == [(4_096, "xxx"), (3, "f\ufffdo")]


def test_a_complaint_of_sqlite_that_quotes_bytes_of_the_file_is_no_traceback(tmp_path: Path) -> None:
    path = altered(
        write(tmp_path / "a.sqlite", {KERNELS: [kernel(1, 2)]}),
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = CAST(x'f3f3' AS TEXT) WHERE name = '{KERNELS}'",
    )

    assert refused(path).fact.startswith("a.sqlite is an SQLite database that cannot be read: ")


def test_an_empty_export_holds_no_event(tmp_path: Path) -> None:
    rows, facts = read(write(tmp_path / "a.sqlite", {KERNELS: [], CUPTI + "RUNTIME": [], "NVTX_EVENTS": []}))

    assert rows == []
    assert facts.n_events == 0


def test_more_processes_than_a_machine_has_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", {KERNELS: [kernel(1, 2, globalPid=n << 24) for n in range(70)]})

    assert refused(path).fact == "a.sqlite has device work of more than 64 processes"


def test_calls_of_two_machines_with_one_process_number_stay_apart(tmp_path: Path) -> None:
    other = (2 << 48) | (144 << 24)
    path = write(
        tmp_path / "a.sqlite",
        {
            KERNELS: [kernel(10, 20), kernel(30, 40, globalPid=other)],
            CUPTI + "RUNTIME": [call(5, 6), call(25, 26, globalTid=other + 144)],
        },
    )

    rows, facts = read(path)

    assert len(facts.processes) == 2
    assert [r["process"] for r in rows] == [*facts.processes, *facts.processes]
