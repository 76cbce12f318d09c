"""An SQLite file from elsewhere, read without trusting it: real tables, whole numbers and texts, in bounded memory.

Nothing that the file brings along runs: no view, trigger, virtual table, generated column or indexed expression. Every
statement is this module's own, and an authorizer refuses whatever else preparing it would need.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from longpole import scratch
from longpole.errors import DumpError
from longpole.formats.bytestream import ByteStream
from longpole.formats.tables import BATCH_ROWS, LONGEST_TEXT, Kind, Table

MAGIC = b"SQLite format 3\0"

_HEADER_BYTES = 100
_SMALLEST_ROW = 5  # bytes: the cell's pointer, the sizes of row, key and header, and one column's type
_LARGEST_CELL = 16 << 20
_STEPS = 100_000  # of SQLite's machine, between two looks at how many there were
_MOST_LOOKS = 2_000  # before a row must have come
_SPARE_BYTES = 1 << 30  # that a copy leaves free on the disk
_MOST_TEXTS = 100_000  # held at once
_MOST_TABLES = 4_096
_COPY_AGAIN = "Copy or export it again."

_DAMAGES = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises; the latter where SQLite's own message quotes bytes of it."""

_Row = tuple[Any, ...]


@contextmanager
def on_disk(file: BinaryIO, name: str, inside: str | None) -> Iterator[Path]:
    """Give a local file with the bytes of `file`, decompressed: itself where it is one, else a copy that goes away.

    Args:
        file: The opened dump, at its beginning.
        name: As a person knows it.
        inside: Folder for the copy; None: the system's own.

    Raises:
        DumpError: The copy does not fit on the disk, or its gzip stream ends early.
    """
    head = file.read(len(MAGIC))
    file.seek(0)
    local = _local_path(file)
    if local is not None and head == MAGIC:
        yield local
        return
    with scratch.folder(inside) as folder:
        target = Path(folder) / "copy.sqlite"
        stream = ByteStream(file)
        room = shutil.disk_usage(folder).free - _SPARE_BYTES
        with target.open("wb") as out:
            for piece in stream:
                room -= len(piece)
                if room < 0:
                    raise DumpError(
                        f"{name} does not fit, decompressed, on the disk for temporary files",
                        "Set TMPDIR to a folder with more room.",
                    )
                out.write(piece)
        if stream.problem:
            raise DumpError(f"{name} is not whole: {stream.problem}", "Copy it again.")
        yield target


def _local_path(file: BinaryIO) -> Path | None:
    """Return where the opened file lies, None where it is none of this machine's."""
    name = getattr(file, "name", None)
    try:
        if isinstance(name, str) and os.path.samestat(os.fstat(file.fileno()), os.stat(name)):  # noqa: PTH116
            return Path(name).absolute()
    except (OSError, ValueError):
        pass
    return None


class SqliteFile:
    """One database, opened to be read: `Tables`."""

    holder = "SQLite"

    def __init__(self, path: Path, name: str) -> None:
        """Open the file.

        Args:
            path: Where it lies.
            name: As a person knows it.

        Raises:
            DumpError: It is damaged, cut off, locked, or its writer has not finished.
        """
        self._name = name
        self.damage: list[str] = []
        self.n_bytes = path.stat().st_size
        _check_whole(path, name)
        _check_unlocked(path, name)
        try:
            self._con = _connect(f"{path.as_uri()}?mode=ro&immutable=1")
            self._con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_CELL)
            self._con.text_factory = _text
            for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
                self._con.execute(f"PRAGMA {pragma}")
            self._tables = _tables(self._con)
        except _DAMAGES as error:
            raise DumpError(f"{name} is an SQLite database that cannot be read: {error}", _COPY_AGAIN) from None
        self._n_looks = 0
        self._con.set_progress_handler(self._look, _STEPS)
        self._con.set_authorizer(_authorize)

    def __enter__(self) -> SqliteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()

    @property
    def tables(self) -> frozenset[str]:
        """The names of its real tables."""
        return frozenset(self._tables)

    def table(self, name: str) -> Table | None:
        """Return the table of that name, None where there is none."""
        return self._tables.get(name)

    def batches(
        self, table: str, columns: Sequence[tuple[str, Kind]], only: tuple[str, int] | None = None
    ) -> Iterator[list[list[Any]]]:
        """Yield the rows of a table, as `Tables` says.

        Raises:
            DumpError: There are more rows than the file's size can hold.
        """
        known = self._tables.get(table)
        if known is None or (only is not None and only[0] not in known.columns):
            return
        where = f" WHERE {_quoted(only[0])} = {int(only[1])}" if only is not None else ""
        chosen = ", ".join(_value(column, kind) if column in known.columns else "NULL" for column, kind in columns)
        n_rows, most = 0, self.n_bytes // _SMALLEST_ROW
        try:
            # An index may hold expressions, which would be computed; the rows themselves hold none.
            with closing(self._con.execute(f"SELECT {chosen} FROM {_quoted(table)} NOT INDEXED{where}")) as cursor:
                while rows := self._fetched(cursor):
                    n_rows += len(rows)
                    if n_rows > most:
                        raise DumpError(
                            f"{self._name} says that {table} has more rows than fit into its {self.n_bytes:,} bytes",
                            _COPY_AGAIN,
                        )
                    yield [list(column) for column in zip(*rows, strict=True)]
        except _DAMAGES as error:
            self.damage.append(f"{table} ends early, after {n_rows:,} rows: {error}"[:200])

    def _fetched(self, cursor: sqlite3.Cursor) -> list[_Row]:
        self._n_looks = 0
        return cursor.fetchmany(BATCH_ROWS)

    def _look(self) -> int:
        self._n_looks += 1
        return self._n_looks > _MOST_LOOKS

    def lookup(self, table: str, columns: Sequence[tuple[str, Kind]]) -> RowLookup | None:
        """Return a way to rows by their key, as `Tables` says."""
        known = self._tables.get(table)
        if known is None or known.key is None:
            return None
        chosen = ", ".join(_value(column, kind) if column in known.columns else "NULL" for column, kind in columns)
        return RowLookup(self, f"SELECT {chosen} FROM {_quoted(table)} NOT INDEXED WHERE {_quoted(known.key)} = ?")

    def one(self, statement: str, key: int) -> _Row | None:
        """Return the row of a look-up, None where there is none, or where the file is damaged there."""
        self._n_looks = 0
        try:
            row: _Row | None = self._con.execute(statement, (key,)).fetchone()
        except _DAMAGES as error:
            if len(self.damage) < 10:
                self.damage.append(f"a row cannot be looked up: {error}"[:200])
            return None
        return row


class RowLookup:
    """Rows of one table by their key, the latest kept."""

    def __init__(self, file: SqliteFile, statement: str) -> None:
        self._file = file
        self._statement = statement
        self._held: dict[int, _Row | None] = {}

    def row(self, key: int | None) -> _Row | None:
        """Return the columns of the row with that key."""
        if key is None:
            return None
        if key not in self._held:
            if len(self._held) >= _MOST_TEXTS:
                self._held.clear()
            self._held[key] = self._file.one(self._statement, key)
        return self._held[key]

    def first(self, keys: Iterable[int | None]) -> list[Any]:
        """Return the first column of each key's row, None where there is none."""
        rows = map(self.row, keys)
        return [None if row is None else row[0] for row in rows]


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=16
    )


def _check_whole(path: Path, name: str) -> None:
    """Refuse a file that is shorter than its header says."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        raise DumpError(f"{name} is an SQLite database that was cut off in its header", _COPY_AGAIN)
    page = int.from_bytes(header[16:18], "big")
    n_pages = int.from_bytes(header[28:32], "big")
    expected = n_pages * (65_536 if page == 1 else page)
    is_counted = header[24:28] == header[92:96]  # else an old writer left the count as it was
    if is_counted and path.stat().st_size < expected:
        raise DumpError(
            f"{name} is an SQLite database that was cut off: {path.stat().st_size:,} of its {expected:,} bytes are"
            " there",
            "Copy or export it again: without its end a database cannot be read.",
        )


def _check_unlocked(path: Path, name: str) -> None:
    """Refuse a file that another program writes, or whose last changes are not in it yet."""
    log = Path(f"{path}-wal")
    if log.is_file() and log.stat().st_size > 0:
        raise DumpError(
            f"{name} is not finished: changes to it are still in {log.name}",
            f"Let its writer end, or fold them in: sqlite3 {path.name} 'PRAGMA wal_checkpoint(TRUNCATE)'",
        )
    with path.open("rb") as file:
        if file.read(20)[18:20] != b"\x01\x01":  # with a write-ahead log, asking would write beside it
            return
    try:
        with closing(_connect(f"{path.as_uri()}?mode=ro")) as con:
            con.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise DumpError(f"{name} is locked: another program is writing it", "Wait until it has ended.") from None
        if Path(f"{path}-journal").is_file():
            raise DumpError(
                f"{name} was being written when its writer ended: {path.name}-journal lies beside it",
                f"Roll it back: sqlite3 {path.name} 'SELECT 1 FROM sqlite_master'",
            ) from None
    except _DAMAGES:
        pass  # damaged, which reading says better


def _tables(con: sqlite3.Connection) -> dict[str, Table]:
    """Return the real tables: neither views nor what a module makes up, and of their columns the stored ones."""
    found = {}
    # A virtual table has no page of its own.
    for (name,) in con.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND typeof(name) = 'text'"
        f" ORDER BY name LIMIT {_MOST_TABLES}"
    ).fetchall():
        if not re.fullmatch(r"\w{1,128}", name, re.ASCII):
            continue
        info = con.execute("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
        keys = [(column, kind) for column, kind, pk, _ in info if pk]
        key = keys[0][0] if len(keys) == 1 and keys[0][1].upper() == "INTEGER" else None
        found[name] = Table(name, frozenset(column for column, _, _, hidden in info if hidden == 0), key)
    return found


def _authorize(action: int, first: str | None, _second: str | None, _db: str | None, inner: str | None) -> int:
    """Allow reading of tables and the functions that `_value` uses; `inner` names a view or a trigger."""
    if inner is None and action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}:
        return sqlite3.SQLITE_OK
    if inner is None and action == sqlite3.SQLITE_FUNCTION and _second in {"typeof", "substr"}:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _value(column: str, kind: Kind) -> str:
    """Return the expression for a value of that kind: SQLite lets any column hold anything."""
    name = _quoted(column)
    if kind == "bytes":  # some writers store them as text that is none
        return f"CASE WHEN typeof({name}) IN ('blob', 'text') THEN substr(CAST({name} AS BLOB), 1, {LONGEST_TEXT}) END"
    told = f"substr({name}, 1, {LONGEST_TEXT})" if kind == "text" else name
    return f"CASE WHEN typeof({name}) = '{kind}' THEN {told} END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
