"""`longpole query`: ad-hoc SQL over every run of a store."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Literal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from cyclopts import Parameter
from rich.table import Table

from longpole.cli.options import StoreOption, print_table, stderr
from longpole.errors import LongpoleError, UsageError
from longpole.session import Session
from longpole.store import store_at
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
    if limit < 1:
        raise UsageError(f"--limit {limit} shows nothing", "Give a number of rows from 1.")
    text = sys.stdin.read() if sql == "-" else sql
    with Session(store_at(store), run, memory=parse_bytes(memory)) as session:
        if print_answer(session, session.sql(text), format, limit=limit) > limit and format == "table":
            stderr().print(f"(the first {limit} rows; --limit N shows more)")


def print_answer(session: Session, answer: duckdb.DuckDBPyRelation, form: Format, *, limit: int) -> int:
    """Print an answer of this session and return its number of rows; a table shows `limit`, and counts one beyond.

    Raises:
        LongpoleError: A column or value has no form in the format, or the query failed.
    """
    _refuse_unprintable(answer, form)
    with session.explaining(), _explaining_values():
        return _print(answer, form, limit)


_UNPRINTABLE: dict[Format, tuple[str, ...]] = {
    "table": (),
    "csv": ("INTERVAL", "UNION", "BLOB", "BIT", "BIGNUM", "VARINT", "MAP"),
    "json": ("INTERVAL", "UNION", "BLOB", "BIT", "BIGNUM", "VARINT", "MAP"),
    "parquet": ("INTERVAL", "UNION"),
}
"""Types that a format has no form for, by the words their names contain."""


def _refuse_unprintable(answer: duckdb.DuckDBPyRelation, form: Format) -> None:
    for name, kind in zip(answer.columns, answer.types, strict=True):
        if any(word in str(kind) for word in _UNPRINTABLE[form]):
            raise UsageError(
                f"column {printable(name)!r} is {kind}, which {form} has no form for", "Cast it: ...::VARCHAR."
            )
    twice = [n for n in answer.columns if answer.columns.count(n) > 1]
    if form != "table" and twice:
        raise UsageError(f"two columns are named {printable(twice[0])!r}", "Name them apart with AS.")


@contextlib.contextmanager
def _explaining_values() -> Iterator[None]:
    """Turn a value that no format can hold, as an infinite timestamp, into an error with a cure."""
    try:
        yield
    except BaseException as error:  # polars panics with an exception that is no Exception
        if isinstance(error, pl.exceptions.PolarsError | pa.ArrowException) or type(error).__name__ == "PanicException":
            raise LongpoleError(
                f"a value has no form here: {printable(str(error))}", "Cast its column to VARCHAR, or print a table."
            ) from error
        raise


def _print(answer: duckdb.DuckDBPyRelation, form: Format, limit: int) -> int:
    if form == "table":
        return _print_table(answer, limit)
    n_rows = 0
    if form == "parquet":
        if sys.stdout.isatty():
            raise UsageError("Parquet is not for a terminal", "Redirect it: ... --format parquet > rows.parquet")
        reader = answer.to_arrow_reader(100_000)
        with pq.ParquetWriter(sys.stdout.buffer, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                n_rows += len(batch)
        return n_rows
    is_first = True
    if form == "json":
        sys.stdout.write("[")
    for batch in answer.to_arrow_reader(100_000):
        frame = pl.DataFrame(pl.from_arrow(batch))
        if form == "csv":
            _write_csv(frame, has_header=is_first)
        else:
            lines = frame.write_ndjson().removesuffix("\n").split("\n")  # a text may hold other ends of lines
            text = ("\n" if is_first else ",\n") + ",\n".join(lines)
            sys.stdout.write(_escaped(text) if sys.stdout.isatty() else text)
        is_first = False
        n_rows += len(frame)
    if form == "json":
        sys.stdout.write("\n]\n")
    elif is_first:
        _write_csv(pl.DataFrame({name: [] for name in answer.columns}), has_header=True)
    return n_rows


_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
_SIGNED_NUMBER = r"^[+-][0-9.]+(?:[eE][+-]?[0-9]+)?$"


def _write_csv(frame: pl.DataFrame, *, has_header: bool) -> None:
    """Write rows that a spreadsheet shows and does not run: a text it would take for a formula has a ' before it."""
    nested = [c for c, t in frame.schema.items() if t.is_nested()]
    flat = frame.with_columns(pl.col(c).map_elements(_json, return_dtype=pl.String) for c in nested)
    texts = pl.col(pl.String)
    is_formula = texts.str.contains(_FORMULA) & ~texts.str.contains(_SIGNED_NUMBER)
    safe = flat.with_columns(pl.when(is_formula).then(pl.lit("'") + texts).otherwise(texts).name.keep())
    named = {name: f"'{name}" for name in safe.columns if re.match(_FORMULA, name)}
    text = safe.rename(named).write_csv(include_header=has_header)
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def _escaped(text: str) -> str:
    """Return JSON that says the same and that a terminal only shows."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value.to_list() if isinstance(value, pl.Series) else value).decode()


def _print_table(answer: duckdb.DuckDBPyRelation, limit: int) -> int:
    rows = answer.limit(limit + 1).fetchall()
    table = Table(box=None, pad_edge=False)
    for name, kind in zip(answer.columns, answer.types, strict=True):
        table.add_column(printable(name), justify="right" if str(kind) in _NUMERIC else "left", overflow="fold")
    for row in rows[:limit]:
        table.add_row(*("" if v is None else printable(str(v)) for v in row))
    print_table(table, width=100_000)  # piped, a row stays one line however long a kernel's name is
    return len(rows)


_NUMERIC = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UINTEGER", "FLOAT", "DOUBLE"}
