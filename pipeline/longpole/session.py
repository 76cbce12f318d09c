"""A DuckDB connection with every view of a store: read-only, closed to the file system, its settings locked."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem

from longpole import catalog, config, scratch
from longpole.errors import LongpoleError, StoreError, UsageError
from longpole.remote import LeanHandler
from longpole.store import DUMP_GRAIN, DUMP_TABLE, EVENT_TABLES, Manifest, PublishedFile, Store, dumps_table, gone
from longpole.text import printable

DEFAULT_SESSION_MEMORY = 2 << 30
"""Bytes that a query may hold before it spills."""

_MORE_MEMORY = "Give it more with --memory, or ask for fewer rows."

_MOST_MEMORY = 1 << 50
"""Beyond this DuckDB takes no number; no machine has it."""

_ANSWERED = ("SELECT", "EXPLAIN", "MULTI")
"""MULTI is a PIVOT, which DuckDB runs as several statements."""


_WHATIF_SCOPES: frozenset[catalog.Scope] = frozenset({"elements", "medians", "graph", "predict", "replay"})
_STORED_SCOPES = frozenset({*catalog.LEVELS["rank"], *catalog.LEVELS["run"]}) - _WHATIF_SCOPES
"""Scopes whose public relations a run may have in its store: of a what-if that stands for any changes, none."""

_PREDICTED = ("step_replays", "run_opportunities")
"""What is stored of a what-if: of the changes that `analyze` asks for."""


class Session:
    """Views over every run of a store, or over some; use as a context manager.

    `con` reads the views and no file: whatever is asked through it, nothing outside its own memory and its own spill
    folder is read or written. `sql` answers one SELECT and refuses all else in words.
    """

    def __init__(
        self,
        store: Store,
        runs: Sequence[str] | None = None,
        *,
        memory: int = DEFAULT_SESSION_MEMORY,
        baseline: str | None = None,
        views: Sequence[str] | None = None,
    ) -> None:
        """Open the store.

        Args:
            runs: Only these; else every run.
            baseline: The run that all others are compared with, in place of the good ones before each.
            views: Only these and what they read: of many runs with many files, opening all takes seconds.

        Raises:
            LongpoleError: There is no run, or the baseline is none.
        """
        names = store.runs() if runs is None else list(dict.fromkeys(runs))
        manifests = [store.manifest(r) for r in names]
        if not manifests:
            raise LongpoleError(
                f"{store.url} holds no runs", "Make one with `longpole run DUMPS`, or name another --store."
            )
        if baseline is not None and baseline not in names:
            raise LongpoleError(f"there is no run {baseline!r} in {store.url}", "`longpole runs` lists them.")
        self._baseline = baseline
        self._views = views
        self._spill = scratch.folder()
        self.con = duckdb.connect()
        try:
            self._open(store, manifests, memory)
        except BaseException as error:
            self.close()
            if isinstance(error, duckdb.OutOfMemoryException):
                raise LongpoleError(f"{memory} bytes are too few to answer a query", _MORE_MEMORY) from error
            raise

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
            "SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT starts_with(view_name, '_')"
            " ORDER BY view_name"
        ).fetchall()
        return [name for (name,) in rows if name in public_views()]

    def sql(self, text: str, parameters: dict[str, Any] | None = None) -> duckdb.DuckDBPyRelation:
        """Return the rows of one SELECT, not yet read; read them within `explaining` too.

        Raises:
            UsageError: The text is not one SELECT.
            LongpoleError: It does not parse, or asks for what is not there.
        """
        with self.explaining():
            statements = self.con.extract_statements(text)
            if len(statements) != 1:
                raise UsageError(f"{len(statements)} statements are given", "Write one SELECT.")
            kind = _kind(statements[0])
            if kind not in _ANSWERED:
                raise UsageError(f"{kind} is not answered here: the store is read-only", "Write one SELECT.")
            self._begin()
            relation = self.con.sql(text, params=parameters or {})
        assert relation is not None
        return relation

    def copy_to(self, path: Path, steps: tuple[int | None, int | None] | None) -> None:
        """Write every view into a new DuckDB file that any client of DuckDB 1.0 or later reads.

        Args:
            path: Where; nothing may be there.
            steps: First and last step whose events come along, None for an open end; None leaves their views out.
        """
        with self.explaining(), duckdb.connect() as con:
            con.execute(f"ATTACH {_text(str(path))} AS longpole (STORAGE_VERSION 'v1.0.0')")
            con.execute("USE longpole")
            catalog.load_macros(con)
            tables = self.con.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_name").fetchall()
            stored = [*(r.name for r in _stored_relations()), "dumps"]
            for name in [*stored, *(t for (t,) in tables)]:
                if name in EVENT_TABLES and steps is None:
                    continue
                rows = self.con.sql(f"FROM {name}")
                for bound, sign in zip(steps or (), (">=", "<="), strict=False):
                    if name in EVENT_TABLES and bound is not None:
                        rows = rows.filter(f"step {sign} {bound}")
                con.register("_rows", rows.to_arrow_reader(100_000))
                con.execute(f"CREATE TABLE {name} AS FROM _rows")
                con.unregister("_rows")
                if name in stored:
                    _comment(con, name, *_meanings(name), kind="TABLE")
            for relation in catalog.leading_to([r.name for r in catalog.ordered(["fleet"])], _given()):
                con.execute(f"CREATE VIEW {relation.name} AS {relation.sql}")
                _comment(con, relation.name, *_meanings(relation.name))
            con.execute("USE memory")
            con.execute("DETACH longpole")

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Turn what DuckDB says of a query into an error with a cure.

        Raises:
            LongpoleError: The query failed.
        """
        try:
            yield
        except duckdb.Error as error:
            self._begin()
            raise LongpoleError(f"the query failed: {printable(str(error))}", self._cure(error)) from error

    def _cure(self, error: duckdb.Error) -> str:
        if isinstance(error, duckdb.CatalogException):
            return f"Views: {', '.join(self.views())}."
        if isinstance(error, duckdb.BinderException):
            return "`longpole views NAME` lists a view's columns."
        if isinstance(error, duckdb.OutOfMemoryException):
            return _MORE_MEMORY
        if isinstance(error, duckdb.TransactionException):
            return "The session is read-only: write one SELECT."
        if isinstance(error, duckdb.PermissionException) or "file system operations are disabled" in str(error):
            return "A query reads the views and nothing else."
        if "reading the stream registered" in str(error):  # DuckDB's words for a file that pyarrow could not read
            return (
                "A file that the manifest names is gone or damaged. Make it again: longpole analyze RUN; events come"
                " back by ingesting their dumps."
            )
        return ""

    def _open(self, store: Store, manifests: Sequence[Manifest], memory: int) -> None:
        self.con.execute("SET python_enable_replacements = false")  # a caller's variables are no tables
        self.con.execute("SET enable_progress_bar = false")
        self.con.execute("SET asof_loop_join_threshold = 0")
        self.con.execute("SET temp_directory = $1", [self._spill.name])
        catalog.load_macros(self.con)
        filesystem = LocalFileSystem() if store.is_local else PyFileSystem(LeanHandler(store.fs))
        fleet = [r.name for r in catalog.ordered(["fleet"])]
        made = catalog.leading_to(fleet if self._views is None else self._views, _given())
        read = {name for relation in made for name in relation.reads}
        for relation in _stored_relations():
            if self._views is None or relation.name in {*read, *self._views}:
                self._add_view(store, manifests, relation, filesystem)
        self._add_dumps(manifests)
        self._add_told(manifests)
        catalog.load_data_of(self.con, made)
        for relation in made:
            self.con.execute(f"CREATE VIEW {relation.name} AS {relation.sql}")
            _comment(self.con, relation.name, *_meanings(relation.name))
        self.con.execute(f"SET memory_limit = '{min(int(memory), _MOST_MEMORY)}B'")
        self.con.execute("SET enable_external_access = false")
        self.con.execute("SET lock_configuration = true")
        self._begin()

    def _begin(self) -> None:
        """Begin a transaction that cannot write: a SELECT may hold a DELETE. An error ends the one before for good."""
        with contextlib.suppress(duckdb.TransactionException):  # there is none yet
            self.con.execute("ROLLBACK")
        self.con.execute("BEGIN TRANSACTION READ ONLY")

    def _add_view(
        self, store: Store, manifests: Sequence[Manifest], relation: catalog.Relation, filesystem: FileSystem
    ) -> None:
        columns = {"run": "VARCHAR", **({"rank": "INTEGER"} if relation.scope == "dump" else {})}
        columns |= {c.name: c.type for c in relation.columns}
        empty = "SELECT " + ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in columns.items()) + " WHERE FALSE"
        files = [(m.run, f) for m in manifests for f in m.of(relation.name)]
        body = empty
        if files:
            # The header's columns, not a file's: what an earlier version did not write is NULL.
            schema = self.con.sql(empty).to_arrow_table().schema
            self.con.register(f"_{relation.name}_files", _dataset(store, files, schema, filesystem))
            listed = ", ".join(f'"{name}"' for name in columns)
            body = f"SELECT {listed} FROM _{relation.name}_files"
        self.con.execute(f"CREATE VIEW {relation.name} AS {body}")
        _comment(self.con, relation.name, *_meanings(relation.name))

    def _add_told(self, manifests: Sequence[Manifest]) -> None:
        """Make the tables of what each run.toml says of comparing and of gates."""
        self.con.execute("CREATE TABLE told_runs (run VARCHAR, job VARCHAR, workload VARCHAR, baseline VARCHAR)")
        self.con.execute("CREATE TABLE told_gates (run VARCHAR, gate VARCHAR, threshold DOUBLE)")
        for manifest in manifests:
            told = config.RunConfig()
            with contextlib.suppress(LongpoleError):  # of an earlier version: its numbers can be read all the same
                told = config.parse(manifest.config, "config.toml")
            named = self._baseline if self._baseline != manifest.run else None
            self.con.execute("INSERT INTO told_runs VALUES ($1, $2, $3, $4)", [manifest.run, *told.comparable(), named])
            for gate, threshold in told.thresholds().items():
                self.con.execute("INSERT INTO told_gates VALUES ($1, $2, $3)", [manifest.run, gate, threshold])

    def _add_dumps(self, manifests: Sequence[Manifest]) -> None:
        tables = [
            dumps_table(m.dumps).add_column(0, "run", pa.array([m.run] * len(m.dumps), pa.string())) for m in manifests
        ]
        self.con.register("_dumps_table", pa.concat_tables(tables))
        self.con.execute("CREATE VIEW dumps AS SELECT * FROM _dumps_table")
        _comment(self.con, "dumps", *_meanings("dumps"))


def _kind(statement: duckdb.Statement) -> str:
    try:
        return statement.type.name
    except ValueError:  # a kind that DuckDB has no name for in Python, as UPDATE EXTENSIONS
        return "this statement"


def describe(name: str) -> catalog.Relation | None:
    """Return the relation behind a public view; None for `dumps`, which is the manifest, and for unknown names."""
    return catalog.relations().get(name) if name in public_views() else None


@functools.cache
def public_views() -> tuple[str, ...]:
    """Return the names of the views every session has, sorted."""
    fleet = (r.name for r in catalog.ordered(["fleet"]) if not r.is_private)
    return tuple(sorted([*(r.name for r in _stored_relations()), "dumps", *fleet]))


@functools.cache
def _stored_relations() -> tuple[catalog.Relation, ...]:
    return tuple(
        r
        for r in catalog.relations().values()
        if (r.scope in _STORED_SCOPES or r.name in _PREDICTED)
        and not r.is_private
        and r.table == r.name
        and r.name != "dump_devices"  # a step of reading a dump, as the manifest tells of it
    )


def _given() -> set[str]:
    return {r.name for r in _stored_relations()} | {"dumps", "told_runs", "told_gates"}


class _Dataset(ds.FileSystemDataset):  # type: ignore[misc]
    """A dataset that reads little ahead, and of a few steps a few row groups.

    What is read ahead lies beside DuckDB's memory limit. By Arrow's own defaults (16 batches of 131,072 rows from each
    of 4 files) a scan of 8 million events with all their columns holds 2.1 GB and takes 11.5 s, so 0.5 GB and 5.3 s.
    """

    def scanner(self, **options: Any) -> ds.Scanner:
        """Return a scanner; DuckDB gives it the columns and the filter of a query."""
        few = {"batch_size": 32_768, "batch_readahead": 4, "fragment_readahead": 2, **options}
        wanted = options.get("filter")
        if wanted is None or "step" not in str(wanted):
            return super().scanner(**few)
        return _of_steps(self, wanted).scanner(**few)


def _of_steps(dataset: ds.FileSystemDataset, wanted: ds.Expression) -> ds.FileSystemDataset:
    """Return the dataset without row groups of other steps than those wanted.

    Arrow itself leaves no row group out whose column has a NULL, and among events of a step are always some of none.
    So it is asked twice: may a row with a step of the group's be wanted, and one with none?
    """
    fragments = list(dataset.get_fragments(filter=wanted))
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        list(pool.map(lambda f: f.ensure_complete_metadata(), fragments))
    asked = []
    for n, fragment in enumerate(fragments):
        for group in fragment.row_groups:
            step = (group.statistics or {}).get("step")
            cases = [ds.field("step").is_null()]
            cases += [(ds.field("step") >= step["min"]) & (ds.field("step") <= step["max"])] if step else []
            asked += [
                dataset.format.make_fragment(
                    f"{n}/{group.id}",
                    filesystem=dataset.filesystem,
                    partition_expression=fragment.partition_expression & case,
                )
                for case in cases
            ]
    questions = ds.FileSystemDataset(asked, dataset.schema, dataset.format, dataset.filesystem)
    kept: dict[int, set[int]] = {}
    for answer in questions.get_fragments(filter=wanted):
        n, _, group = answer.path.partition("/")
        kept.setdefault(int(n), set()).add(int(group))
    some = [fragments[n].subset(row_group_ids=sorted(groups)) for n, groups in sorted(kept.items())]
    return ds.FileSystemDataset(some, dataset.schema, dataset.format, dataset.filesystem)


_FOOTERS_AT_ONCE = 16


def _dataset(
    store: Store, files: Sequence[tuple[str, PublishedFile]], schema: pa.Schema, filesystem: FileSystem
) -> ds.Dataset:
    """Return a dataset over exactly these files; a filter on run or rank leaves the others unopened."""
    options = ds.ParquetFragmentScanOptions(pre_buffer=not store.is_local, use_buffered_stream=store.is_local)
    parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
    fragments = []
    for run, file in files:
        where = ds.field("run") == run
        if file.rank is not None:
            where = where & (ds.field("rank") == pa.scalar(file.rank, pa.int32()))
        path = store.path("runs", run, file.path)
        fragments.append(parquet.make_fragment(path, filesystem=filesystem, partition_expression=where))
    _refuse_gone(fragments[0], files[0][0])
    return _Dataset(fragments, schema, parquet, filesystem)


def _refuse_gone(fragment: ds.ParquetFileFragment, run: str) -> None:
    """One file of each table is looked at: of many runs there are too many to look at each before it is needed."""
    try:
        _ = fragment.physical_schema
    except FileNotFoundError as error:
        raise gone(fragment.path, run) from error
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"{fragment.path} cannot be read: {str(error).splitlines()[0]}",
            f"Make it again: longpole analyze {run}; events come back by ingesting their dumps.",
        ) from error


def _meanings(view: str) -> tuple[str, dict[str, str]]:
    """Return what a row of the view is, and what its columns mean."""
    if view == "dumps":
        return DUMP_GRAIN, {f.name: f.metadata[b"meaning"].decode() for f in DUMP_TABLE}
    relation = catalog.relations()[view]
    return relation.grain, {c.name: c.meaning for c in relation.columns}


def _comment(
    con: duckdb.DuckDBPyConnection, view: str, grain: str, meanings: dict[str, str], kind: str = "VIEW"
) -> None:
    columns = [f'COMMENT ON COLUMN {view}."{column}" IS {_text(meaning)}' for column, meaning in meanings.items()]
    con.execute("; ".join([f"COMMENT ON {kind} {view} IS {_text(grain)}", *columns]))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
