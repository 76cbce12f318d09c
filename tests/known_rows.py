"""The rows that every relation has for a run, kept as a count and a sum of hashes: which of them a change of SQL moves.

`python tests/known_rows.py [RUN ...]` writes them anew, for every run or those named; what then differs in
tests/known is what the change did.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb

from known_runs import ASKED_ONLY, RUNS
from longpole import catalog
from longpole.catalog import Relation
from longpole.session import Session
from longpole.store import Store

KNOWN = Path(__file__).parent / "known"

Told = Callable[[duckdb.DuckDBPyConnection, Relation, str], None]
"""Takes a connection, a relation that is evaluated there, and the SELECT that has its rows."""

Rows = dict[str, str]
"""Of each relation, how many rows it has and the sum of their hashes."""


class _Watched:
    """A connection that tells of each relation that a query evaluates, while what it reads is there."""

    def __init__(self, con: duckdb.DuckDBPyConnection, told: Told) -> None:
        self._con = con
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *raised: object) -> None:
        self._con.close()

    def execute(self, query: str, *arguments: Any) -> Any:
        evaluated = [r for r in catalog.relations().values() if r.sql in query and r.folder != "pages"]
        if len(evaluated) == 1 and query == f"CREATE TEMP TABLE {evaluated[0].name} AS {evaluated[0].sql}":
            self._con.execute(query, *arguments)
            self._told(self._con, evaluated[0], f"FROM {evaluated[0].name}")
            return self
        for relation in evaluated:
            self._told(self._con, relation, relation.sql)
        return self._con.execute(query, *arguments)


@contextlib.contextmanager
def watching(told: Told) -> Iterator[None]:
    """Call `told` at each evaluation of a relation, on its connection: what it reads is there."""
    connect = duckdb.connect
    catalog.relations()  # parsed on connections of their own, which are none of a run's
    with mock.patch.object(duckdb, "connect", lambda *args, **more: _Watched(connect(*args, **more), told)):
        yield


def summary_of(con: duckdb.DuckDBPyConnection, sql: str, relation: Relation) -> tuple[int, int]:
    """Return how many rows a SELECT has, and the sum of their hashes; doubles count to nine digits."""
    shown = [
        f"format('{{:.9g}}', \"{c.name}\")" if c.type == "DOUBLE" else f'"{c.name}"::VARCHAR' for c in relation.columns
    ]
    row = con.execute(
        f"SELECT count(*), coalesce(sum(md5_number_lower([{', '.join(shown)}]::VARCHAR)), 0) FROM (\n{sql}\n)"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def rows_of(name: str) -> Rows:
    """Return the rows of each relation that is evaluated as the runs of a store are made and asked for."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def told(con: duckdb.DuckDBPyConnection, relation: Relation, select: str) -> None:
        n, hashes = summary_of(con, select, relation)
        n_before, hashes_before = found[relation.name]
        found[relation.name] = n_before + n, (hashes_before + hashes) % 2**64

    evaluate(name, told)
    return {relation: f"{n} {hashes:016x}" for relation, (n, hashes) in sorted(found.items())}


def evaluate(name: str, told: Told) -> None:
    """Make the runs of a store, then ask for the relations of a session and the rules of `check`."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(str(Path(folder) / "store"))
        with contextlib.nullcontext() if name in ASKED_ONLY else watching(told):
            RUNS[name](store, Path(folder))
        with watching(told), Session(store) as session:
            for rule in catalog.ordered(["check"]):
                session.con.execute(rule.sql).fetchall()


def difference(name: str, rows: Rows) -> str:
    """Return the relations whose rows are not those that are known, each after what it reads; nothing where none is."""
    known: Rows = json.loads((KNOWN / f"{name}.json").read_text())
    order = {r.name: n for n, r in enumerate(catalog.leading_to(catalog.relations(), ()))}
    moved = sorted({n for n in {*known, *rows} if known.get(n) != rows.get(n)}, key=lambda n: (order.get(n, 0), n))
    return "\n".join(f"{n}: {known.get(n)} -> {rows.get(n)}" for n in moved)


if __name__ == "__main__":
    KNOWN.mkdir(exist_ok=True)
    for name in sys.argv[1:] or RUNS:
        (KNOWN / f"{name}.json").write_text(json.dumps(rows_of(name), indent=0) + "\n")
        print(name, flush=True)
