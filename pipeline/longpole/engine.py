"""DuckDB as the analysis engine: one connection a task, memory bounded, rows in file order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from longpole import catalog


def connection(folder: Path, memory: int, threads: int = 1, *, is_ordered: bool = True) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection for analysis: bounded memory, spilling to `folder`, rows in file order, macros.

    Args:
        is_ordered: Joins keep the order of their rows as well. Not for a replay: each of its rounds would hand on
            vectors that are nearly empty, and take ten times as long.
    """
    con = duckdb.connect()
    con.execute(f"SET threads = {int(threads)}")
    con.execute(f"SET memory_limit = '{int(memory)}B'")
    con.execute("SET temp_directory = $1", [str(folder / "spill")])
    con.execute("SET preserve_insertion_order = true")
    con.execute("SET parquet_metadata_cache = true")  # a rank's file is opened by each relation that reads it
    if is_ordered:
        with contextlib.suppress(duckdb.CatalogException):
            # Joins gather a few rows until they fill a vector, and let whole vectors pass them: rows lose their order,
            # and what is written in it must be sorted. Undocumented, so a DuckDB without it sorts.
            con.execute("SET enable_caching_operators = false")
    con.execute("SET asof_loop_join_threshold = 0")  # small left sides would loop: 2 s instead of 20 ms
    con.execute("SET enable_progress_bar = false")
    catalog.load_macros(con)
    return con


@contextlib.contextmanager
def gathering(con: duckdb.DuckDBPyConnection, is_recursive: bool) -> Iterator[None]:
    """Let joins gather rows within, where a relation is recursive.

    Rounds of a recursion hand on a few rows each; in vectors of their own they cost 24 times as much at 8,000 rounds.
    """
    if is_recursive:
        with contextlib.suppress(duckdb.CatalogException):
            con.execute("SET enable_caching_operators = true")
    yield
    if is_recursive:
        with contextlib.suppress(duckdb.CatalogException):
            con.execute("SET enable_caching_operators = false")


def load_phases(con: duckdb.DuckDBPyConnection, phases: Sequence[tuple[str, str]]) -> None:
    """Make the table of a run's [phases], names and patterns in the order of the file."""
    con.execute("CREATE TABLE phase_patterns (phase VARCHAR, pattern VARCHAR)")
    for phase in phases:
        con.execute("INSERT INTO phase_patterns VALUES ($1, $2)", list(phase))


def load_dump_facts(con: duckdb.DuckDBPyConnection, facts: Sequence[tuple[bool, int, str]]) -> None:
    """Make the table of what a rank's dumps are, in order: whether it lost its end, events lost, format."""
    con.execute("CREATE TABLE dump_facts (dump_no BIGINT, is_truncated BOOLEAN, n_dropped BIGINT, format VARCHAR)")
    for n, told in enumerate(facts):
        con.execute("INSERT INTO dump_facts VALUES ($1, $2, $3, $4)", [n, *told])


def quoted(path: Path | str) -> str:
    """Return a path as an SQL string."""
    return "'" + str(path).replace("'", "''") + "'"


def reading(name: str, paths: Sequence[Path], where: str = "") -> str:
    """Return the SELECT that reads a relation from its files; without files it has the relation's columns and no row.

    A rank's events come in order of time, each dump's rows in file order, with the dump's number before them.
    """
    files = [quoted(p) for p in paths]
    if name == "events":
        return " UNION ALL ".join(
            f"SELECT {n}::BIGINT AS dump_no, * FROM read_parquet({q})" for n, q in enumerate(files)
        )
    if not files:
        columns = ", ".join(f'NULL::{c.type} AS "{c.name}"' for c in catalog.relations()[name].columns)
        return f"SELECT {columns} WHERE FALSE"
    return f"SELECT * FROM read_parquet([{', '.join(files)}]){where}"


def write_ordered(
    con: duckdb.DuckDBPyConnection,
    select: str,
    order: str,
    path: Path,
    *,
    is_sorted: bool = False,
    group_rows: int | None = None,
) -> int:
    """Write the rows of a SELECT to a Parquet file, in `order`, and return how many there are.

    Args:
        order: Columns that put the rows in a total order, or ALL.
        is_sorted: They nearly always come in that order: then they are sorted only where the file shows that they did
            not. A sort takes as long as writing the file.
        group_rows: Rows of a row group; None leaves it to DuckDB.
    """
    if is_sorted:
        attempt = path.with_name(f"as-it-comes.{path.name}")  # never the same name for other bytes: footers are cached
        n_rows = _copy(con, f"FROM (\n{select}\n)", attempt, group_rows)
        if _is_in_order(con, order, attempt):
            attempt.replace(path)
            return n_rows
        attempt.unlink()
    return _copy(con, f"FROM (\n{select}\n) ORDER BY {order}", path, group_rows)


def _copy(con: duckdb.DuckDBPyConnection, query: str, path: Path, group_rows: int | None) -> int:
    groups = "" if group_rows is None else f", ROW_GROUP_SIZE {group_rows}"
    row = con.execute(
        f"COPY ({query}) TO {quoted(path)}"
        f" (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, PARQUET_VERSION v2{groups})"
    ).fetchone()
    return int(row[0]) if row else 0


def _is_in_order(con: duckdb.DuckDBPyConnection, order: str, path: Path) -> bool:
    """Return whether no row of a file comes before one that it follows; ROW, as ORDER BY, has NULL last."""
    row = con.execute(
        f"SELECT bool_and(before IS NULL OR before <= this) FROM (SELECT row({order}) AS this,"
        f" lag(row({order})) OVER () AS before FROM read_parquet({quoted(path)}))"
    ).fetchone()
    return row is None or row[0] is not False
