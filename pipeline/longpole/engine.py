"""DuckDB as the analysis engine: one connection a task, memory bounded, rows in file order."""

from __future__ import annotations

from pathlib import Path

import duckdb


def connection(folder: Path, memory: int, threads: int = 1) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection for analysis: bounded memory, spilling to `folder`, rows in file order."""
    con = duckdb.connect()
    con.execute(f"SET threads = {int(threads)}")
    con.execute(f"SET memory_limit = '{int(memory)}B'")
    con.execute("SET temp_directory = $1", [str(folder / "spill")])
    con.execute("SET preserve_insertion_order = true")
    con.execute("SET asof_loop_join_threshold = 0")  # small left sides would loop: 2 s instead of 20 ms
    con.execute("SET enable_progress_bar = false")
    return con


def quoted(path: Path | str) -> str:
    """Return a path as an SQL string."""
    return "'" + str(path).replace("'", "''") + "'"
