"""Small Nsight Systems exports, written out in place: the tables and columns a test names, and no others."""

from __future__ import annotations

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from longpole.discover import find
from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions, Sink, nsys_folder, reader_for
from longpole.formats.probe import head_of

Row = dict[str, Any]

CUPTI = "CUPTI_ACTIVITY_KIND_"
NAMES = {1: "gemm", 2: "ncclDevKernel_AllReduce_Sum_f32", 3: "cudaLaunchKernel_v7000", 4: "registered"}


def pid(process: int) -> int:
    """Return the global id of a process on machine 1."""
    return (1 << 48) | (process << 24)


def kernel(start: int, end: int, **changes: Any) -> Row:
    return {
        "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 11,
        "globalPid": pid(144), "demangledName": 1, "shortName": 1, "gridX": 8, "gridY": 1, "gridZ": 1,
        "blockX": 128, "blockY": 2, "blockZ": 1, "graphNodeId": None, **changes,
    }  # fmt: skip


def call(start: int, end: int, **changes: Any) -> Row:
    return {
        "start": start, "end": end, "eventClass": 0, "globalTid": pid(144) + 144, "correlationId": 11, "nameId": 3,
        **changes,
    }  # fmt: skip


def marked(start: int, end: int | None, text: str | None, **changes: Any) -> Row:
    return {
        "start": start, "end": end, "eventType": 59, "text": text, "globalTid": pid(144) + 144, "textId": None,
        **changes,
    }  # fmt: skip


def write(path: Path, tables: dict[str, list[Row]], *, names: dict[int, str] | None = None) -> Path:
    """Write a database with these tables, columns typed INTEGER but for texts, and StringIds beside them."""
    with closing(sqlite3.connect(path)) as con:
        con.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        con.executemany("INSERT INTO StringIds VALUES (?, ?)", sorted((names or NAMES).items()))
        for table, rows in tables.items():
            columns = list(rows[0]) if rows else ["start", "end"]
            con.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" for _ in columns)
            con.executemany(f"INSERT INTO {table} VALUES ({marks})", [[row[c] for c in columns] for row in rows])
        con.commit()
    return path


def as_folder(database: Path, folder: Path) -> Path:
    """Write the tables of a database as `nsys export --type parquetdir` does, and return the folder."""
    folder.mkdir()
    with closing(sqlite3.connect(database)) as con:
        for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = con.execute(f'SELECT * FROM "{table}"')
            columns = [name for name, *_ in cursor.description]
            values = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(columns)
            arrays = [_array(name, list(column)) for name, column in zip(columns, values, strict=True)]
            pq.write_table(pa.table(arrays, names=columns), folder / f"{table}.parquet")
    return folder


def _array(name: str, values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bytes}:  # the exporter writes them as text that is none
        coded = pa.array(values, pa.large_binary())
        return pa.LargeStringArray.from_buffers(len(coded), *coded.buffers()[1:], coded.buffers()[0], coded.null_count)
    if kinds == {str}:
        return pa.array(values, pa.large_string())
    if kinds == {float}:
        return pa.array(values, pa.float64())
    return pa.array(values, pa.uint64() if name.startswith("global") else pa.int64())


def read_both(database: Path, marker: str | None = None) -> tuple[list[Row], DumpFacts]:
    """Return as `read` does, once its tables in a folder of Parquet have given the same."""
    rows, facts = read(database, marker)
    folder = as_folder(database, database.with_name(database.stem + "_pqtdir"))
    others, told = read_folder(folder, marker)
    assert others == rows
    assert told == dataclasses.replace(facts, schema=facts.schema.replace("SQLite", "Parquet"))
    return rows, facts


def read_folder(folder: Path, marker: str | None = None) -> tuple[list[Row], DumpFacts]:
    """Return as `read` does, of a folder of Parquet."""
    rows: list[Row] = []
    (candidate,) = find([str(folder)])
    tables = nsys_folder.local_tables(candidate.parts, folder)
    facts = nsys_folder.read(tables, candidate.name, _taker(rows), ReadOptions(marker=marker))
    return rows, _checked(rows, facts)


def read(path: Path, marker: str | None = None) -> tuple[list[Row], DumpFacts]:
    """Return what the rows of a file have, without the columns that are NULL, and what it says besides."""
    rows: list[Row] = []
    with path.open("rb") as file:
        reader = reader_for(head_of(file), path.name)
        file.seek(0)
        facts = reader.read(file, path.name, _taker(rows), ReadOptions(marker=marker))
    return rows, _checked(rows, facts)


def _taker(rows: list[Row]) -> Sink:
    def take(batch: pa.Table) -> None:
        assert batch.schema == RAW_SCHEMA
        rows.extend({k: v for k, v in row.items() if v is not None} for row in batch.to_pylist())

    return take


def _checked(rows: list[Row], facts: DumpFacts) -> DumpFacts:
    assert facts.n_stored == len(rows)
    assert facts.n_events == facts.n_stored + facts.n_skipped + facts.n_dropped
    assert facts.n_skipped == sum(n for _, n in facts.skipped)
    return facts
