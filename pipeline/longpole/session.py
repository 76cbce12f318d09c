"""A DuckDB connection with every view of a store: read-only, closed to the file system, its settings locked."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FSSpecHandler, PyFileSystem

from longpole import catalog
from longpole.analyze import DUMP_TABLE, dumps_table
from longpole.errors import LongpoleError
from longpole.store import Manifest, PublishedFile, Store

DEFAULT_SESSION_MEMORY = 2 << 30
"""Bytes that a query may hold before it spills."""


class Session:
    """Views over every run of a store, or over some; use as a context manager.

    `con` answers any SELECT over the views and nothing else: no file can be read or written through it.
    """

    def __init__(
        self, store: Store, runs: Sequence[str] | None = None, *, memory: int = DEFAULT_SESSION_MEMORY
    ) -> None:
        manifests = [store.manifest(r) for r in (runs if runs is not None else store.runs())]
        if not manifests:
            raise LongpoleError(
                f"{store.url} holds no runs", "Make one with `longpole run DUMPS`, or name another --store."
            )
        self._spill = tempfile.TemporaryDirectory(prefix="longpole-")
        self.con = duckdb.connect()
        self.con.execute("SET enable_progress_bar = false")
        self.con.execute("SET asof_loop_join_threshold = 0")
        self.con.execute(f"SET memory_limit = '{int(memory)}B'")
        self.con.execute("SET temp_directory = $1", [self._spill.name])
        filesystem = (
            PyFileSystem(FSSpecHandler(fsspec.filesystem(store.fs.protocol[0]))) if not store.is_local else None
        )
        for relation in _stored_relations():
            self._add_view(store, manifests, relation, filesystem)
        self._add_dumps(manifests)
        for relation in catalog.needed("fleet", _given()):
            self.con.execute(f"CREATE VIEW {relation.name} AS {relation.sql}")
            _comment(self.con, relation)
        self.con.execute("SET enable_external_access = false")
        self.con.execute("SET lock_configuration = true")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and drop what it spilled."""
        self.con.close()
        self._spill.cleanup()

    def views(self) -> list[str]:
        """Return the names of all views, sorted."""
        rows = self.con.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT starts_with(view_name, '_') ORDER BY view_name"
        ).fetchall()
        return [r[0] for r in rows]

    def _add_view(
        self, store: Store, manifests: Sequence[Manifest], relation: catalog.Relation, filesystem: Any
    ) -> None:
        files = [(m.run, f) for m in manifests for f in m.of(relation.name)]
        columns = [c.name for c in relation.columns if c.name != "rank" or relation.name != "events"]
        keys = ["run", *(["rank"] if relation.name == "events" else [])]
        listed = ", ".join(f'"{c}"' for c in (*keys, *columns))
        if files:
            self.con.register(f"_{relation.name}_files", _dataset(store, relation, files, filesystem))
            body = f"SELECT {listed} FROM _{relation.name}_files"
        else:
            types = {"run": "VARCHAR", "rank": "INTEGER", **{c.name: c.type for c in relation.columns}}
            body = "SELECT " + ", ".join(f'NULL::{types[c]} AS "{c}"' for c in (*keys, *columns)) + " WHERE FALSE"
        self.con.execute(f"CREATE VIEW {relation.name} AS {body}")
        _comment(self.con, relation)

    def _add_dumps(self, manifests: Sequence[Manifest]) -> None:
        tables = [
            dumps_table(m.dumps).add_column(0, "run", pa.array([m.run] * len(m.dumps), pa.string())) for m in manifests
        ]
        self.con.register("_dumps_table", pa.concat_tables(tables))
        self.con.execute("CREATE VIEW dumps AS SELECT * FROM _dumps_table")
        grain = "One row per dump file, rank: what the file says and how whole it is."
        self.con.execute(f"COMMENT ON VIEW dumps IS '{grain}'")


def describe(name: str) -> catalog.Relation | None:
    """Return the relation behind a public view; None for `dumps`, which is the manifest, and for unknown names."""
    known = catalog.relations().get(name)
    return known if known is not None and not known.is_private and known.scope in _PUBLIC else None


_PUBLIC: tuple[catalog.Scope, ...] = ("dump", "rank", "steps", "run", "fleet")


def public_views() -> list[str]:
    """Return the names of the views every session has, sorted."""
    return sorted([*(r.name for r in _stored_relations()), "dumps", *(r.name for r in catalog.ordered(["fleet"]))])


def _stored_relations() -> list[catalog.Relation]:
    chosen = [
        r for r in catalog.relations().values() if r.scope in ("dump", "rank", "steps", "run") and not r.is_private
    ]
    return [r for r in chosen if r.name != "dump_devices"]


def _given() -> set[str]:
    return {r.name for r in _stored_relations()} | {"dumps"}


def _dataset(
    store: Store, relation: catalog.Relation, files: Sequence[tuple[str, PublishedFile]], filesystem: Any
) -> ds.Dataset:
    """Return a dataset over exactly these files, with `run` (and `rank` of events) told by their place."""
    parquet = ds.ParquetFileFormat()
    fragments = []
    schema: pa.Schema | None = None
    for run, file in files:
        path = store.path("runs", run, file.path)
        where = ds.field("run") == run
        if file.rank is not None:
            where = where & (ds.field("rank") == pa.scalar(file.rank, pa.int32()))
        source: dict[str, Any] = {"filesystem": filesystem or pa.fs.LocalFileSystem()}
        fragment = parquet.make_fragment(path, partition_expression=where, **source)
        if schema is None:
            try:
                schema = fragment.physical_schema
            except FileNotFoundError as error:
                raise LongpoleError(
                    f"{path} is gone, though the manifest of run {run!r} names it",
                    f"Something deleted it. Make it again: longpole analyze {run}",
                ) from error
        fragments.append(fragment)
    assert schema is not None
    for name, type_ in (("rank", pa.int32()), ("run", pa.string())):
        if name not in schema.names and (name == "run" or relation.name == "events"):
            schema = schema.insert(0, pa.field(name, type_))
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem or pa.fs.LocalFileSystem())


def _comment(con: duckdb.DuckDBPyConnection, relation: catalog.Relation) -> None:
    con.execute(f"COMMENT ON VIEW {relation.name} IS {_text(relation.grain)}")
    for column in relation.columns:
        con.execute(f'COMMENT ON COLUMN {relation.name}."{column.name}" IS {_text(column.meaning)}')


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


DUMP_COLUMNS = tuple(DUMP_TABLE.names)
