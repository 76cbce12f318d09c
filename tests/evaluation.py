"""Evaluate shipped relations on hand-made rows: what the tests of sql/ share."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, get_type_hints

import duckdb
import pyarrow as pa

from longpole import catalog
from longpole.catalog import Scope
from longpole.config import Parallel
from longpole.engine import load_phases
from longpole.events import RAW_SCHEMA
from longpole.store import DUMP_TABLE

Row = dict[str, Any]

TOLD = {
    "told_runs": "run VARCHAR, job VARCHAR, workload VARCHAR, baseline VARCHAR",
    "told_gates": "run VARCHAR, gate VARCHAR, threshold DOUBLE",
    "phase_patterns": "phase VARCHAR, pattern VARCHAR",
    "dump_facts": "dump_no BIGINT, is_truncated BOOLEAN, n_dropped BIGINT, format VARCHAR",
}
"""What run.toml and readers say besides, with its columns."""


def connection() -> duckdb.DuckDBPyConnection:
    """Return a connection with the shipped data and thresholds, and with the order of rows kept."""
    con = duckdb.connect()
    con.execute("SET threads = 1; SET asof_loop_join_threshold = 0; SET preserve_insertion_order = true")
    for name in catalog.data_names():
        catalog.load_data(con, name)
    catalog.load_macros(con)
    return con


def evaluate(con: duckdb.DuckDBPyConnection, scope: Scope, given: Sequence[str]) -> None:
    """Make a table of every relation of the scope that is not given; topology, sizes and telemetry may be left out."""
    con.execute("CREATE TABLE IF NOT EXISTS topology (rank INT, host TEXT, node TEXT, rack TEXT, rail TEXT)")
    sizes = ", ".join(f"{name} BIGINT" for name in get_type_hints(Parallel))
    con.execute(f"CREATE TABLE IF NOT EXISTS parallel ({sizes})")
    samples = ("telemetry", "rank_telemetry") if scope in ("steps", "run") else ()
    for name in samples:
        create_empty(con, name)
    known = {*given, "topology", "parallel", *samples, *catalog.data_names()}
    for relation in catalog.needed(scope, known):
        con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")


def create_empty(con: duckdb.DuckDBPyConnection, name: str, *, of_runs: bool = False) -> None:
    """Make a relation, or a table of `TOLD`, without rows, unless it is there: what a run has that nothing says.

    Args:
        of_runs: The run comes before a relation's columns, as in the views of a session.
    """
    if name in TOLD:
        con.execute(f"CREATE TABLE IF NOT EXISTS {name} ({TOLD[name]})")
        return
    columns = ", ".join(f'"{c.name}" {c.type}' for c in catalog.relations()[name].columns)
    con.execute(f"CREATE TABLE IF NOT EXISTS {name} ({'run VARCHAR, ' if of_runs else ''}{columns})")


def insert(con: duckdb.DuckDBPyConnection, table: str, **values: Any) -> None:
    """Add one row to a table; what it leaves out is NULL."""
    names, places = ", ".join(f'"{n}"' for n in values), ", ".join("?" * len(values))
    con.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(values.values()))


@functools.cache
def _shipped() -> duckdb.DuckDBPyConnection:
    return connection()


def answer(name: str, /, select: str = "*", **given: Sequence[Row] | pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of one relation, in order, where what it reads has these rows and other relations have none.

    Args:
        select: The columns or expressions that are wanted of each row.
        given: Rows by the relation or table that has them. What a row of a relation leaves out is NULL, of `params` as
            shipped, of `dumps` that of a whole dump, and of events the dump is 0; tables that are neither relations
            nor in `TOLD` have the columns of their first row, so they must have one.
    """
    con, relations = _shipped(), catalog.relations()
    relation = relations[name]
    assert set(given) <= relation.reads, f"{name} does not read {set(given) - relation.reads}"
    is_of_runs = relation.scope in ("fleet", "check")
    try:
        for read in sorted(relation.reads):
            its = given.get(read, ())
            if read == "params":
                con.execute(f"CREATE TABLE params AS {relations[read].sql}")
                for threshold, value in dict(*its).items():
                    con.execute(f"UPDATE params SET {threshold} = ?", [value])
            elif read in relations or read in TOLD:
                create_empty(con, read, of_runs=is_of_runs and read in relations and relations[read].scope != "fleet")
                if read == "events":
                    con.execute("ALTER TABLE events ADD COLUMN dump_no BIGINT DEFAULT 0")
                for row in its:
                    insert(con, read, **row)
            elif read in given:
                con.register("its", _table(read, its))
                con.execute(f"CREATE TABLE {read} AS FROM its")
        return rows(con, f"SELECT {select} FROM ({relation.sql}) ORDER BY ALL")
    finally:
        for read in relation.reads - set(catalog.data_names()):
            con.execute(f"DROP TABLE IF EXISTS {read}")


def _table(name: str, its: Sequence[Row] | pa.Table) -> pa.Table:
    if isinstance(its, pa.Table):
        return its
    return dump_rows(*its) if name == "dumps" else pa.Table.from_pylist(list(its))


def link(rows: Sequence[Row], *, base_ns: int = 0, step_pattern: str = r"^ProfilerStep#(\d+)$") -> pa.Table:
    """Return the events that raw rows of one dump become, in order of start."""
    con = _linked(rows, base_ns, step_pattern)
    return con.sql("FROM events ORDER BY start_ns, category, stream, thread, duration_ns DESC").to_arrow_table()


def allocations(rows: Sequence[Row], *, base_ns: int = 0) -> pa.Table:
    """Return the memory_events that raw rows of one dump become."""
    con = _linked(rows, base_ns, r"^ProfilerStep#(\d+)$")
    return con.sql("FROM memory_events ORDER BY start_ns, row_id").to_arrow_table()


def _linked(rows: Sequence[Row], base_ns: int, step_pattern: str) -> duckdb.DuckDBPyConnection:
    con = connection()
    con.register("raw_rows", raw_table(rows))
    con.execute("CREATE TABLE raw AS FROM raw_rows WHERE category IS DISTINCT FROM 'memory'")
    con.execute("CREATE TABLE raw_memory AS FROM raw_rows WHERE category = 'memory'")
    con.execute(
        "CREATE TABLE context AS SELECT $1::BIGINT AS base_ns, $2::VARCHAR AS step_pattern", [base_ns, step_pattern]
    )
    evaluate(con, "dump", ["raw", "raw_memory", "context"])
    return con


def analyzed(
    *dumps: pa.Table,
    rank: int = 0,
    device: str | None = None,
    phases: Sequence[tuple[str, str]] = (),
    memory: pa.Table | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection with every rank-level relation of one rank's dumps, recorded on that device.

    Args:
        phases: Names and patterns, as [phases] of a run has them.
        memory: The rank's memory_events; None: the dumps have none.
    """
    con = connection()
    for n, table in enumerate(dumps):
        con.register(f"dump{n}", table)
    con.execute(
        "CREATE TABLE events AS "
        + " UNION ALL ".join(f"SELECT {n}::BIGINT AS dump_no, * FROM dump{n}" for n in range(len(dumps)))
    )
    con.register("allocated", allocations([]) if memory is None else memory)
    con.execute("CREATE TABLE memory_events AS FROM allocated")
    con.execute("CREATE TABLE context AS SELECT $1::INTEGER AS rank", [rank])
    con.execute(
        "CREATE TABLE dump_facts AS SELECT n::BIGINT AS dump_no, FALSE AS is_truncated, 0::BIGINT AS n_dropped,"
        " 'kineto' AS format FROM range($1) AS t (n)",
        [len(dumps)],
    )
    load_phases(con, phases)
    con.execute(
        "CREATE TABLE told_hardware AS SELECT $1::VARCHAR AS device, NULL::VARCHAR AS dtype,"
        " NULL::DOUBLE AS peak_flops, NULL::DOUBLE AS hbm_bytes_per_s, NULL::DOUBLE AS link_bytes_per_s",
        [device],
    )
    evaluate(con, "rank", ["events", "memory_events", "context", "dump_facts", "phase_patterns", "told_hardware"])
    return con


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return con.execute(sql).fetchall()


def dump_rows(*entries: Row) -> pa.Table:
    """Return a `dumps` table of entries; what an entry leaves out is that of a whole, readable dump."""
    whole: Row = {
        "format": "kineto", "schema": "1", "world_size": len(entries), "n_bytes": 1, "n_events": 1, "n_stored": 1,
        "n_skipped": 0, "n_dropped": 0, "n_salvaged": 0, "n_rounded": 0, "n_bad_times": 0, "is_truncated": False,
        "n_lost_bytes": 0, "notes": [], "verdict": "ok", "n_devices": 0, "first_ns": 0, "last_ns": 1,
    }  # fmt: skip
    filled = []
    for n, entry in enumerate(entries):
        row = {"dump": f"d{n}", "path": f"p/{n}.json", "file_name": f"{n}.json", "rank": n, **whole, **entry}
        filled.append({name: row.get(name) for name in DUMP_TABLE.names})
    return pa.Table.from_pylist(filled, schema=DUMP_TABLE)


def kernel(start: int, end: int, *, stream: int = 7, launch: int | None = None, name: str = "gemm", **more: Any) -> Row:
    """Return a kernel; its correlation is its launch's start, so `launch_call` of the same start launches it."""
    return {
        "category": "kernel", "name": name, "start_ns": start, "duration_ns": end - start, "device": 0,
        "stream": stream, "correlation_id": launch, **more,
    }  # fmt: skip


def copy(start: int, end: int, *, stream: int = 8, launch: int | None = None) -> Row:
    """Return a copy on the device."""
    return {**kernel(start, end, stream=stream, launch=launch, name="Memcpy DtoH"), "category": "memcpy"}


def launch_call(start: int, end: int, *, thread: int = 1, name: str = "cudaLaunchKernel") -> Row:
    """Return a runtime call; its correlation is its own start."""
    return {
        "category": "runtime", "name": name, "start_ns": start, "duration_ns": end - start, "thread": thread,
        "process": 1, "correlation_id": start,
    }  # fmt: skip


def annotation(name: str, start: int, end: int, *, thread: int = 1) -> Row:
    """Return a user's range on a host thread."""
    return {
        "category": "annotation", "name": name, "start_ns": start, "duration_ns": end - start, "thread": thread,
        "process": 1,
    }  # fmt: skip


def operator(name: str, start: int, end: int, *, thread: int = 1, **more: Any) -> Row:
    """Return an operator on a host thread."""
    return {**annotation(name, start, end, thread=thread), "category": "cpu_op", **more}


def step(number: int, start: int, end: int) -> Row:
    """Return the marker of a step."""
    return annotation(f"ProfilerStep#{number}", start, end)


def allocation(at: int, n_bytes: int, after: int | None, reserved: int | None = None, *, device: int | None = 0) -> Row:
    """Return an allocation, or with a negative size a release, and what is allocated and reserved after it."""
    return {
        "category": "memory", "name": "[memory]", "start_ns": at, "duration_ns": 0, "device": device, "process": 1,
        "thread": 1, "n_bytes": n_bytes, "allocated_bytes": after, "reserved_bytes": reserved,
    }  # fmt: skip


def raw_table(rows: Sequence[Row]) -> pa.Table:
    """Return raw rows of one dump as a table, numbered in their order, from 0."""
    plain = pa.schema([(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in RAW_SCHEMA])
    table = pa.Table.from_pylist([{n: row.get(n) for n in plain.names} for row in rows], schema=plain)
    return table.append_column("row_id", pa.array(range(len(rows)), pa.int64()))
