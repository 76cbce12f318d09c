"""`longpole query`: ad-hoc SQL over every run of a store."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Literal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from longpole.cli.options import StoreOption, open_store
from longpole.errors import LongpoleError, UsageError
from longpole.session import Session
from longpole.text import printable
from longpole.units import parse_bytes

Format = Literal["table", "csv", "json", "parquet"]


def query(
    sql: Annotated[str, Parameter(help="One SELECT; - reads it from standard input.")],
    /,
    *,
    run: Annotated[list[str] | None, Parameter(help="Only these runs; else every run of the store.")] = None,
    format: Annotated[Format, Parameter(help="How rows are printed.")] = "table",
    limit: Annotated[int, Parameter(help="Rows that a table shows; other formats give all.")] = 100,
    store: StoreOption = None,
    memory: Annotated[str, Parameter(help="What the query may hold before it spills to disk.")] = "2GiB",
) -> None:
    """Answer a question in SQL over the views. `longpole views` lists them.

    Example: longpole query "SELECT step, duration_ns / 1e6 AS ms FROM steps ORDER BY step" --run nightly-2117
    """
    text = sys.stdin.read() if sql == "-" else sql
    with Session(open_store(store), run, memory=parse_bytes(memory)) as session:
        _refuse_all_but_select(session.con, text)
        try:
            _print(session.con.execute(text), format, limit)
        except duckdb.Error as error:
            raise LongpoleError(f"the query failed: {printable(str(error))}", _help_for(session, error)) from error


def _refuse_all_but_select(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """The session cannot write anyway; this says so in words before anything runs."""
    try:
        statements = con.extract_statements(text)
    except duckdb.Error as error:
        raise LongpoleError(f"the query does not parse: {printable(str(error))}") from error
    if len(statements) != 1:
        raise UsageError(f"{len(statements)} statements are given", "Write one SELECT.")
    allowed = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if statements[0].type not in allowed:
        raise UsageError(f"{statements[0].type.name} is not answered here: the store is read-only", "Write one SELECT.")


def _print(answer: duckdb.DuckDBPyConnection, form: Format, limit: int) -> None:
    if form == "table":
        _print_table(answer, limit)
        return
    if form == "parquet":
        if sys.stdout.isatty():
            raise UsageError("Parquet is not for a terminal", "Redirect it: ... --format parquet > rows.parquet")
        reader = _batches(answer)
        with pq.ParquetWriter(sys.stdout.buffer, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
        return
    is_first = True
    if form == "json":
        sys.stdout.write("[")
    for batch in _batches(answer):
        frame = pl.DataFrame(pl.from_arrow(batch))
        if form == "csv":
            nested = [c for c, t in frame.schema.items() if t.is_nested()]
            flat = frame.with_columns(pl.col(c).map_elements(_json, return_dtype=pl.String) for c in nested)
            sys.stdout.write(flat.write_csv(include_header=is_first))
        else:
            lines = frame.write_ndjson().splitlines()
            sys.stdout.write(("\n" if is_first else ",\n") + ",\n".join(lines))
        is_first = False
    if form == "json":
        sys.stdout.write("\n]\n")
    elif is_first:
        sys.stdout.write(",".join(d[0] for d in answer.description or []) + "\n")


def _batches(answer: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the copy it warns of is one batch at a time
        return answer.to_arrow_reader(100_000)


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value.to_list() if isinstance(value, pl.Series) else value).decode()


def _print_table(answer: duckdb.DuckDBPyConnection, limit: int) -> None:
    rows = answer.fetchmany(limit + 1)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, kind, *_ in answer.description or []:
        table.add_column(printable(name), justify="right" if str(kind) in _NUMERIC else "left", overflow="fold")
    for row in rows[:limit]:
        table.add_row(*("" if v is None else printable(str(v)) for v in row))
    is_terminal = sys.stdout.isatty()
    # Piped, a row stays one line however long a kernel's name is.
    console = Console(markup=False, highlight=False, emoji=False, width=None if is_terminal else 100_000)
    if is_terminal:
        console.print(table)
    else:
        with console.capture() as capture:
            console.print(table)
        sys.stdout.write("\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n")
    if len(rows) > limit:
        Console(stderr=True).print(f"(the first {limit} rows; --limit N shows more)")


_NUMERIC = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UINTEGER", "FLOAT", "DOUBLE", "NUMBER"}


def _help_for(session: Session, error: duckdb.Error) -> str:
    if isinstance(error, duckdb.CatalogException):
        return f"Views: {', '.join(session.views())}."
    if isinstance(error, duckdb.BinderException):
        return "`longpole views NAME` lists a view's columns."
    if isinstance(error, duckdb.OutOfMemoryException):
        return "Give it more with --memory, or ask for fewer rows."
    if isinstance(error, duckdb.PermissionException):
        return "A query reads the views and nothing else."
    return ""
