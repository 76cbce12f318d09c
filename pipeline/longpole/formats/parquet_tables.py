"""Tables that stand in a folder of Parquet files, one each, as `nsys export --type parquetdir` writes them.

Rows stream batch by batch. Texts that are looked up by number go into a scratch database first, so that millions of
them need no memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longpole.errors import DumpError
from longpole.formats.parquet_file import DAMAGES, first_line, open_parquet
from longpole.formats.sqlite_file import RowLookup, SqliteFile
from longpole.formats.tables import BATCH_ROWS, LONGEST_TEXT, Kind, Table

_KEY = "id"
_AGAIN = "Export it again: nsys export --type parquetdir REPORT.nsys-rep"


class ParquetTables:
    """The tables of one folder: `Tables`."""

    holder = "Parquet"

    def __init__(self, paths: Mapping[str, Path], name: str, scratch: Path) -> None:
        """Open the files.

        Args:
            paths: Of each table, by its name.
            name: Of the folder, as a person knows it.
            scratch: An empty folder for texts that are looked up.

        Raises:
            DumpError: One is no Parquet, was cut off, or says that it has more rows than it can.
        """
        self.damage: list[str] = []
        self._name = name
        self._scratch = scratch
        self._lookups: dict[str, SqliteFile] = {}
        self._files: dict[str, pq.ParquetFile] = {}
        self._tables: dict[str, Table] = {}
        for table, path in sorted(paths.items()):
            self._files[table] = file = self._opened(table, path)
            columns = [n for n in file.schema_arrow.names if file.schema_arrow.get_field_index(n) >= 0]
            self._tables[table] = Table(table, frozenset(columns), _KEY if _KEY in columns else None)

    def _opened(self, table: str, path: Path) -> pq.ParquetFile:
        try:
            with pq.ParquetFile(path) as file:
                schema = file.schema_arrow
            return open_parquet(path, [f.name for f in schema if _is_text(f.type) or _is_bytes(f.type)])
        except DAMAGES as error:
            raise DumpError(
                f"{table}.parquet of {self._name} is no Parquet file that can be read: {first_line(error)}", _AGAIN
            ) from None

    def __enter__(self) -> ParquetTables:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for database in self._lookups.values():
            database.__exit__()
        for file in self._files.values():
            file.close()

    @property
    def tables(self) -> frozenset[str]:
        """The names of its tables."""
        return frozenset(self._tables)

    def table(self, name: str) -> Table | None:
        """Return the table of that name, None where there is none."""
        return self._tables.get(name)

    def batches(
        self, table: str, columns: Sequence[tuple[str, Kind]], only: tuple[str, int] | None = None
    ) -> Iterator[list[list[Any]]]:
        """Yield the rows of a table, as `Tables` says."""
        known = self._tables.get(table)
        if known is None or (only is not None and only[0] not in known.columns):
            return
        names = {name for name, _ in columns if name in known.columns} | ({only[0]} if only is not None else set())
        n_rows = 0
        try:
            for batch in self._files[table].iter_batches(BATCH_ROWS, columns=sorted(names)):
                n_rows += batch.num_rows
                if only is not None:
                    batch = batch.filter(pc.fill_null(pc.equal(_integers(batch.column(only[0])), only[1]), False))
                yield [
                    _values(batch.column(name), kind) if name in known.columns else [None] * batch.num_rows
                    for name, kind in columns
                ]
        except DAMAGES as error:
            self.damage.append(f"{table} ends early, after {n_rows:,} rows: {first_line(error)}")

    def lookup(self, table: str, columns: Sequence[tuple[str, Kind]]) -> RowLookup | None:
        """Return a way to rows by their key, as `Tables` says."""
        known = self._tables.get(table)
        if known is None or known.key is None:
            return None
        if table not in self._lookups:
            path = self._scratch / f"{len(self._lookups)}.sqlite"
            names = ", ".join(f'"{name}"' for name, _ in columns)
            marks = ", ".join("?" for _ in columns)
            try:
                with closing(sqlite3.connect(path, isolation_level=None)) as con:
                    con.execute("PRAGMA journal_mode = OFF")
                    con.execute("PRAGMA synchronous = OFF")
                    con.execute(f'CREATE TABLE "{table}" ({_KEY} INTEGER PRIMARY KEY, {names})')
                    con.execute("BEGIN")
                    for keys, *values in self.batches(table, [(_KEY, "integer"), *columns]):
                        rows = (row for row in zip(keys, *values, strict=True) if row[0] is not None)
                        con.executemany(f'INSERT OR IGNORE INTO "{table}" VALUES (?, {marks})', rows)
                    con.execute("COMMIT")
            except sqlite3.Error as error:
                raise DumpError(
                    f"the texts of {self._name} cannot be written to the disk for temporary files: {error}",
                    "Set TMPDIR to a folder with more room.",
                ) from None
            self._lookups[table] = SqliteFile(path, self._name)
        return self._lookups[table].lookup(table, columns)


def _values(column: pa.Array, kind: Kind) -> list[Any]:
    """Return the values of a column, None for those of another kind."""
    if kind == "integer":
        return list(_integers(column).to_pylist())
    if kind == "real":
        return list(column.to_pylist()) if pa.types.is_floating(column.type) else [None] * len(column)
    stored = column.type.value_type if pa.types.is_dictionary(column.type) else None
    if stored is None or not (_is_text(stored) or (kind == "bytes" and _is_bytes(stored))):
        return [None] * len(column)
    column.validate()  # places beyond the words
    places = pc.unique(column.indices).drop_null()
    words = column.dictionary.cast(pa.large_binary()).take(places).to_pylist()
    known = {place: _cut(word, kind) for place, word in zip(places.to_pylist(), words, strict=True)}
    return [known.get(place) for place in column.indices.to_pylist()]


def _cut(word: bytes | None, kind: Kind) -> bytes | str | None:
    """Return what is kept of a value."""
    if word is None or kind == "bytes":
        return word and word[:LONGEST_TEXT]
    return word[: 4 * LONGEST_TEXT].decode("utf-8", "replace")[:LONGEST_TEXT]


def _integers(column: pa.Array) -> pa.Array:
    """Return a column as int64, its bits as they are: what has no sign there may have one here, as in SQLite."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary.take(column.indices) if pa.types.is_integer(column.type.value_type) else column
    if pa.types.is_uint64(column.type):
        return column.view(pa.int64())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    return pa.nulls(len(column), pa.int64())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
