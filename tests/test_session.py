"""A session answers any SELECT over the views of a store, and can neither read nor write anything else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import polars as pl
import pytest
from fsspec.implementations.local import LocalFileSystem

from longpole import catalog
from longpole.errors import LongpoleError, StoreError, UsageError
from longpole.session import Session, describe, public_views
from longpole.store import DUMP_TABLE, DumpEntry, Manifest, PublishedFile, Store

Row = dict[str, Any]

ODD_NAME = "a.b_c+d=e@f-1"

PLACES = {
    "dump": "events/rank={rank:05d}/d.parquet",
    "rank": "facts/{table}/rank={rank:05d}.parquet",
    "clock": "marts/{table}/run.parquet",
    "steps": "marts/{table}/steps=000000-000049.parquet",
    "run": "marts/{table}/run.parquet",
}


def write(store: Store, run: str, table: str, rows: list[Row], *, rank: int = 0, without: str = "") -> PublishedFile:
    """Put rows into a file of the run, as the table's header says; what a row leaves out is NULL."""
    relation = catalog.relations()[table]
    columns = [c for c in relation.columns if c.name != without]
    con = duckdb.connect()
    con.execute("CREATE TABLE made (" + ", ".join(f'"{c.name}" {c.type}' for c in columns) + ")")
    for row in rows:
        names = ", ".join(f'"{name}"' for name in row)
        con.execute(f"INSERT INTO made ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
    path = PLACES[relation.scope].format(table=table, rank=rank)
    target = Path(store.path("runs", run, path))
    target.parent.mkdir(parents=True, exist_ok=True)
    con.execute(f"COPY made TO '{target}' (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2)")
    of_rank = rank if relation.scope in ("dump", "rank") else None
    return PublishedFile(table, path, "i", "d", target.stat().st_size, len(rows), of_rank)


def publish(store: Store, run: str, *, n_ranks: int = 2) -> None:
    """Publish a run whose ranks have events of 10, 20 and 30 ns, and kernels of 100 ns in step 3 and 200 in step 4."""
    files = []
    for rank in range(n_ranks):
        events: list[Row] = [
            {"category": "kernel", "name": f"k{n}", "step": 3, "start_ns": n, "duration_ns": 10 * n, "grid": [n, 1, 1]}
            for n in (1, 2, 3)
        ]
        kernels: list[Row] = [
            {"rank": rank, "step": n, "name": "k", "kind": "compute", "n_calls": 1, "total_ns": d}
            for n, d in ((3, 100), (4, 200))
        ]
        files += [
            write(store, run, "events", events, rank=rank),
            write(store, run, "kernels", kernels, rank=rank),
        ]
    files.append(write(store, run, "steps", [{"capture": 0, "step": 3, "duration_ns": 100, "verdict": "ok"}]))
    files.append(write(store, run, "runs", [{"n_ranks": n_ranks, "n_steps": 2, "verdict": "ok", "reasons": []}]))
    dumps = tuple(DumpEntry(f"h{r}", f"dumps/rank{r}.json", 7, rank=r, notes=("odd",)) for r in range(n_ranks))
    store.publish(Manifest(run, dumps=dumps, files=tuple(files)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store of three runs; tests leave it as it is."""
    store = Store(str(tmp_path_factory.mktemp("session") / "store"))
    publish(store, "one")
    publish(store, "two", n_ranks=3)
    publish(store, ODD_NAME, n_ranks=1)
    return store


@pytest.fixture(scope="module")
def session(made: Store) -> Iterator[Session]:
    with Session(made) as session:
        yield session


@pytest.fixture
def own(tmp_path: Path) -> Store:
    """Return a store that a test may break."""
    store = Store(str(tmp_path / "store"))
    publish(store, "one")
    return store


def rows(session: Session, sql: str, **parameters: Any) -> list[Any]:
    with session.explaining():
        return session.sql(sql, parameters).fetchall()


def tree_bytes(folder: str) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def columns_of(session: Session, view: str) -> list[tuple[str, str]]:
    return [(r[0], r[1]) for r in session.con.execute(f"DESCRIBE {view}").fetchall()]


# ---------------------------------------------------------------- views


def documented(view: str) -> list[tuple[str, str]]:
    """Return the columns that the view's header promises, `run` and, for what is of a dump, `rank` before them."""
    relation = describe(view)
    assert relation is not None
    columns = [(c.name, c.type) for c in relation.columns]
    if relation.scope == "fleet":
        return columns
    return [("run", "VARCHAR"), *([("rank", "INTEGER")] if relation.scope == "dump" else []), *columns]


@pytest.mark.parametrize("view", [v for v in public_views() if v != "dumps"])
def test_a_view_has_the_documented_columns_with_the_run_first(session: Session, view: str) -> None:
    assert columns_of(session, view) == documented(view)
    assert columns_of(session, view)[0] == ("host" if view == "fleet_hosts" else "run", "VARCHAR")


def test_dumps_has_the_columns_of_the_manifest_with_the_run_first(session: Session) -> None:
    assert [c for c, _ in columns_of(session, "dumps")] == ["run", *DUMP_TABLE.names]
    assert rows(session, "SELECT path, notes, error FROM dumps WHERE run = 'one' AND rank = 1") == [
        ("dumps/rank1.json", ["odd"], None)
    ]


def test_every_public_view_is_there_and_nothing_else_is_shown(session: Session) -> None:
    assert session.views() == list(public_views())
    assert {"runs", "ranks", "dumps", "events", "rank_steps", "rank_captures", "steps", "kernels"} <= set(
        public_views()
    )
    assert not [v for v in public_views() if v.startswith("_")]


def test_a_run_that_is_not_analyzed_has_every_view_empty_but_its_events(own: Store) -> None:
    files = tuple(f for f in own.manifest("one").files if f.table == "events")
    own.publish(Manifest("one", files=files))
    with Session(own) as session:
        for view in public_views():
            expected = [(6,)] if view == "events" else [(0,)]
            assert rows(session, f"SELECT count(*) FROM {view}") == expected
            if view != "dumps":
                assert columns_of(session, view) == documented(view)


def test_a_run_without_any_file_has_every_view_empty(own: Store) -> None:
    own.publish(Manifest("one"))
    with Session(own) as session:
        assert {v: rows(session, f"FROM {v}") for v in public_views()} == {v: [] for v in public_views()}


def test_a_column_that_an_earlier_version_did_not_write_is_null(own: Store) -> None:
    publish(own, "two")
    older = [
        write(own, "one", "kernels", [{"rank": r, "step": 3, "total_ns": 100}], rank=r, without="kind") for r in (0, 1)
    ]
    own.publish(Manifest("one", files=tuple(older)))
    with Session(own) as session:
        assert rows(session, "SELECT run, kind, count(*) FROM kernels GROUP BY ALL ORDER BY ALL") == [
            ("one", None, 2),
            ("two", "compute", 4),
        ]


def test_views_and_columns_say_what_they_mean(session: Session) -> None:
    views = "SELECT comment FROM duckdb_views() WHERE view_name = $name"
    steps = describe("steps")
    assert steps is not None
    assert rows(session, views, name="steps") == [(steps.grain,)]
    assert rows(session, views, name="dumps")[0][0].startswith("One row per dump file")
    unsaid = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
    assert {c for t, c in rows(session, unsaid) if t in public_views()} <= {"run", "rank"}


def test_only_public_views_are_described() -> None:
    assert describe("dumps") is None
    assert describe("_coverage") is None
    assert describe("dump_devices") is None
    assert describe("overview_run") is None
    assert describe("no_such_view") is None


# ---------------------------------------------------------------- runs


def test_rows_of_every_run_stand_side_by_side(session: Session) -> None:
    assert rows(session, "SELECT run, count(*), sum(duration_ns) FROM events GROUP BY run ORDER BY run") == [
        (ODD_NAME, 3, 60),
        ("one", 6, 120),
        ("two", 9, 180),
    ]
    assert rows(session, "SELECT run, rank, step FROM kernels WHERE rank = 2 ORDER BY ALL") == [
        ("two", 2, 3),
        ("two", 2, 4),
    ]
    assert rows(session, "SELECT run FROM fleet_runs ORDER BY run") == [(ODD_NAME,), ("one",), ("two",)]


def test_a_session_may_hold_some_runs_only(made: Store) -> None:
    with Session(made, ["two", ODD_NAME]) as session:
        assert rows(session, "SELECT DISTINCT run FROM events ORDER BY run") == [(ODD_NAME,), ("two",)]
        assert rows(session, "SELECT DISTINCT run FROM dumps ORDER BY run") == [(ODD_NAME,), ("two",)]


def test_a_run_that_is_named_twice_counts_once(made: Store) -> None:
    with Session(made, ["one", "one"]) as session:
        assert rows(session, "SELECT count(*) FROM events") == [(6,)]


def test_a_run_that_is_not_there_is_an_error(made: Store) -> None:
    with pytest.raises(StoreError, match="there is no run 'three'"):
        Session(made, ["one", "three"])


def test_a_store_without_runs_is_an_error_with_a_cure(tmp_path: Path) -> None:
    choices: list[list[str] | None] = [None, []]
    for runs in choices:
        with pytest.raises(LongpoleError, match="holds no runs") as caught:
            Session(Store(str(tmp_path)), runs)
        assert "longpole run DUMPS" in caught.value.cure


def test_parameters_are_values_and_never_sql(session: Session) -> None:
    assert rows(session, "SELECT count(*) FROM events WHERE run = $run", run="one") == [(6,)]
    assert rows(session, "SELECT count(*) FROM events WHERE run = $run", run="one' OR TRUE --") == [(0,)]


class CountingFileSystem(LocalFileSystem):  # type: ignore[misc]
    """The local file system, with a list of the files that were opened."""

    protocol = "counting"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self.opened.append(path)
        return super()._open(path, mode, **options)


@pytest.mark.parametrize(
    ("sql", "files"),
    [
        ("events WHERE run = 'two' AND rank = 1", ["two/events/rank=00001/d.parquet"]),
        (
            "events WHERE run = 'two' AND rank IN (0, 2)",
            ["two/events/rank=00000/d.parquet", "two/events/rank=00002/d.parquet"],
        ),
        ("kernels WHERE rank = 2", ["two/facts/kernels/rank=00002.parquet"]),
        ("steps WHERE run = 'one'", ["one/marts/steps/steps=000000-000049.parquet"]),
        ("events WHERE run = 'three'", []),
    ],
)
def test_a_filter_on_run_and_rank_opens_their_files_alone(
    made: Store, monkeypatch: pytest.MonkeyPatch, sql: str, files: list[str]
) -> None:
    store = Store(made.url)
    fs = CountingFileSystem()
    store.fs = fs
    monkeypatch.setattr(Store, "is_local", property(lambda self: False))
    with Session(store) as session:
        fs.opened.clear()
        rows(session, f"SELECT sum(COLUMNS('(duration|total)_ns')) FROM {sql}")
    assert sorted({p.removeprefix(f"{made.root}/runs/") for p in fs.opened}) == files


def test_a_store_need_not_be_a_local_folder(made: Store) -> None:
    fs = fsspec.filesystem("memory")
    try:
        fs.put(f"{made.root}/", "/a-session/", recursive=True)
        with Session(Store("memory://a-session")) as session:
            assert rows(session, "SELECT count(*), sum(duration_ns) FROM events WHERE run = 'two'") == [(9, 180)]
            assert rows(session, "SELECT grid FROM events WHERE run = 'one' AND rank = 0 AND start_ns = 2") == [
                ([2, 1, 1],)
            ]
    finally:
        fs.rm("/a-session", recursive=True)


# ---------------------------------------------------------------- read-only

WRITES = [
    "COPY (SELECT 1) TO '{target}'",
    "COPY steps TO '{target}' (FORMAT parquet)",
    "WITH c AS (COPY (SELECT 1) TO '{target}') SELECT 1",
    "WITH c AS MATERIALIZED (COPY (SELECT 1) TO '{target}') FROM c",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'",
    "EXPORT DATABASE '{target}'",
    "ATTACH '{target}' AS other",
    "CALL enable_logging(storage => 'file', storage_path => '{target}')",
    "CALL enable_profiling(save_location => '{target}')",
    "PRAGMA profiling_output = '{target}'",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "SET temp_directory = '{target}'",
    "SET secret_directory = '{target}'",
    "INSTALL httpfs",
    "UPDATE EXTENSIONS",
    "FORCE INSTALL httpfs FROM 'http://127.0.0.1:1'",
]

READS = [
    "FROM read_text('{secret}')",
    "FROM read_blob('{secret}')",
    "FROM read_csv('{secret}')",
    "FROM read_csv_auto('{secret}')",
    "FROM read_json('{secret}')",
    "FROM read_parquet('{file}')",
    "FROM parquet_scan('{file}')",
    "FROM parquet_metadata('{file}')",
    "FROM sniff_csv('{secret}')",
    "FROM glob('{folder}/*')",
    "FROM '{secret}'",
    "FROM '{file}'",
    'SELECT * FROM "{file}"',
    "SELECT count(*) FROM steps, read_text('{secret}')",
    "IMPORT DATABASE '{folder}'",
    "ATTACH '{secret}'",
    "LOAD '{secret}'",
    "LOAD httpfs",
    "FROM query('FROM read_text(''{secret}'')')",
    "FROM query_table('{secret}')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{secret}'')'))",
    "FROM read_ndjson_objects('{secret}')",
    "FROM read_duckdb('{file}')",
    "FROM parquet_kv_metadata('{file}')",
    "FROM sqlite_scan('{file}', 't')",
    "FROM read_xlsx('{file}')",
    "FROM 'file://{secret}'",
    "FROM read_csv('http://127.0.0.1:1/x.csv')",
    "FROM 'http://127.0.0.1:1/x.parquet'",
    "FROM 's3://a/b.parquet'",
    "FROM read_text('fsspec://{secret}')",
    "DESCRIBE '{secret}'",
    "SELECT * FROM (SUMMARIZE '{file}')",
    "FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "FROM duckdb_extensions()",
    "FROM duckdb_secrets()",
    "SELECT getenv('HOME')",
]

SETTINGS = [
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET memory_limit = '1TB'",
    "SET threads = 64",
    "SET SESSION threads = 64",
    "SET GLOBAL threads = 64",
    "RESET memory_limit",
    "PRAGMA memory_limit = '1TB'",
    "SET lock_configuration = false",
    "SET python_enable_replacements = true",
    "SET autoinstall_known_extensions = true",
]


@pytest.mark.parametrize("sql", [*WRITES, *READS, *SETTINGS])
def test_nothing_outside_the_views_is_reached_even_past_the_words(
    made: Store, session: Session, tmp_path: Path, sql: str
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    target = tmp_path / "target"
    file = made.path("runs", "one", "marts", "steps", "steps=000000-000049.parquet")
    before = tree_bytes(made.root)
    text = sql.format(target=target, secret=secret, file=file, folder=tmp_path)
    with pytest.raises(duckdb.Error):
        session.con.execute(text).fetchall()
    with pytest.raises(LongpoleError) as caught:
        rows(session, text)
    assert caught.value.cure
    assert rows(session, "SELECT count(*) FROM events") == [(18,)]
    assert tree_bytes(made.root) == before
    assert [p.name for p in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("path", ["{root}/x.csv", "{root}/runs/one/run.json", "{spill}/../x.csv", "{spill}x/x.csv"])
def test_no_path_leads_back_into_the_store(made: Store, session: Session, path: str) -> None:
    before = tree_bytes(made.root)
    spill = rows(session, "SELECT current_setting('temp_directory')")[0][0]
    target = path.format(root=made.root, spill=spill)
    for sql in (f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'", f"FROM read_text('{target}')"):
        with pytest.raises(LongpoleError, match="Permission Error") as caught:
            rows(session, sql)
        assert caught.value.cure == "A query reads the views and nothing else."
    assert tree_bytes(made.root) == before


@pytest.mark.parametrize(
    ("sql", "fact"),
    [
        ("CREATE TABLE t (a INTEGER)", "CREATE is not answered here: the store is read-only"),
        ("CREATE TEMP TABLE t AS FROM steps", "CREATE is not answered here: the store is read-only"),
        ("CREATE OR REPLACE MACRO aligned_ns(x) AS (x)", "CREATE is not answered here: the store is read-only"),
        ("DROP VIEW steps", "DROP is not answered here: the store is read-only"),
        ("INSERT INTO steps SELECT * FROM steps", "INSERT is not answered here: the store is read-only"),
        ("DELETE FROM steps", "DELETE is not answered here: the store is read-only"),
        ("UPDATE steps SET step = 0", "UPDATE is not answered here: the store is read-only"),
        ("COPY steps TO 'x.csv'", "COPY is not answered here: the store is read-only"),
        ("SET threads = 1", "SET is not answered here: the store is read-only"),
        ("BEGIN", "TRANSACTION is not answered here: the store is read-only"),
        ("SELECT 1; SELECT 2", "2 statements are given"),
        ("", "0 statements are given"),
        ("-- nothing", "0 statements are given"),
    ],
)
def test_what_is_no_select_is_refused_in_words(session: Session, sql: str, fact: str) -> None:
    with pytest.raises(UsageError) as caught:
        rows(session, sql)
    assert caught.value.fact == fact
    assert caught.value.cure == "Write one SELECT."
    assert rows(session, "SELECT count(*) FROM steps") == [(3,)]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH gone AS (DELETE FROM told_gates RETURNING *) FROM gone",
        "EXPLAIN ANALYZE DELETE FROM told_runs",
        "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
    ],
)
def test_a_select_that_writes_within_is_refused_and_the_session_goes_on(session: Session, sql: str) -> None:
    before = rows(session, "FROM told_runs")
    with pytest.raises(LongpoleError) as caught:
        rows(session, sql)
    assert "transaction is launched in read-only mode" in caught.value.fact
    assert caught.value.cure == "The session is read-only: write one SELECT."
    assert rows(session, "FROM told_runs") == before != []


@pytest.mark.parametrize(
    "sql",
    [
        "FROM steps",
        "TABLE steps",
        "VALUES (1)",
        "DESCRIBE steps",
        "SUMMARIZE steps",
        "SHOW TABLES",
        "EXPLAIN SELECT * FROM steps",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r",
        "PIVOT kernels ON step USING sum(total_ns) GROUP BY run",
        "UNPIVOT steps ON duration_ns, start_ns",
        "SELECT 1;",
    ],
)
def test_every_way_of_asking_is_answered(session: Session, sql: str) -> None:
    assert rows(session, sql)


def test_a_query_may_bring_an_instant_to_the_runs_clock(session: Session) -> None:
    assert rows(session, "SELECT aligned_ns(2000000000, 300, 1e3, 1000000000)") == [(1_999_998_700,)]


def test_a_variable_of_the_caller_is_no_table(session: Session) -> None:
    frame = pl.DataFrame({"a": [1]})
    assert frame.height == 1
    with pytest.raises(duckdb.CatalogException):
        session.con.sql("FROM frame")
    with pytest.raises(LongpoleError, match="Table with name frame does not exist"):
        rows(session, "FROM frame")


def test_what_is_wrong_with_a_query_is_said_with_a_cure(session: Session) -> None:
    for sql, fact, cure in (
        ("SELEC 1", "syntax error", ""),
        ("FROM stepz", "Table with name stepz does not exist", "Views: "),
        ("SELECT durations_ns FROM steps", "durations_ns", "`longpole views NAME` lists a view's columns."),
        ("SELECT error('\x1b[31mred')", "\ufffd[31mred", ""),
        ("FROM query('COPY steps TO ''x.csv''')", "Expected a single SELECT statement", ""),
    ):
        with pytest.raises(LongpoleError, match=re.escape(fact)) as caught:
            rows(session, sql)
        assert caught.value.cure.startswith(cure)
        assert "\x1b" not in caught.value.fact


def test_what_a_query_spills_is_gone_when_the_session_ends(made: Store) -> None:
    session = Session(made)
    spill = Path(rows(session, "SELECT current_setting('temp_directory')")[0][0])
    assert spill.is_absolute()
    assert spill.is_dir()
    session.close()
    assert not spill.exists()


def test_a_session_that_fails_to_open_leaves_no_spill_folder(
    own: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(own.path("runs", "one", "events"))
    spills = tmp_path / "spills"
    spills.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spills))
    with pytest.raises(StoreError):
        Session(own)
    assert list(spills.iterdir()) == []


# ---------------------------------------------------------------- what is gone, and what is too much


def test_a_table_whose_files_are_gone_is_an_error_when_the_store_is_opened(own: Store) -> None:
    shutil.rmtree(own.path("runs", "one", "facts"))
    with pytest.raises(StoreError) as caught:
        Session(own)
    assert "rank=00000.parquet is gone, though the manifest of run 'one' names it" in caught.value.fact
    assert "longpole analyze one" in caught.value.cure


def test_a_file_that_vanishes_is_an_error_when_it_is_asked_for(own: Store) -> None:
    with Session(own) as session:
        Path(own.path("runs", "one", "facts", "kernels", "rank=00001.parquet")).unlink()
        assert rows(session, "SELECT sum(total_ns) FROM kernels WHERE rank = 0") == [(300,)]
        with pytest.raises(LongpoleError, match=r"rank=00001\.parquet") as caught:
            rows(session, "SELECT sum(total_ns) FROM kernels")
        assert "gone or damaged" in caught.value.cure
        assert rows(session, "SELECT count(*) FROM events") == [(6,)]


def test_a_damaged_file_is_an_error_with_its_name(own: Store) -> None:
    for rank in (0, 1):
        path = Path(own.path("runs", "one", "facts", "kernels", f"rank={rank:05d}.parquet"))
        path.write_bytes(b"PAR1 and then nothing that a footer could be")
        with pytest.raises(LongpoleError, match=rf"rank=0000{rank}\.parquet"), Session(own) as session:
            rows(session, "SELECT sum(total_ns) FROM kernels")
        publish(own, "one")


def test_a_query_beyond_the_memory_spills_or_fails_with_a_cure_and_the_session_lives(made: Store) -> None:
    with Session(made, memory=64 << 20) as session:
        many = "SELECT n, hash(n) AS h FROM range(4_000_000) AS t (n)"
        assert rows(session, f"SELECT n FROM ({many}) ORDER BY h LIMIT 1 OFFSET 3_999_999") != []
        with pytest.raises(LongpoleError, match="Out of Memory") as caught:
            rows(session, f"SELECT len(list(h)) FROM ({many} UNION ALL {many} UNION ALL {many})")
        assert caught.value.cure == "Give it more with --memory, or ask for fewer rows."
        assert rows(session, "SELECT count(*) FROM events") == [(18,)]


@pytest.mark.parametrize("memory", [0, 1, 1000])
def test_too_little_memory_is_an_error_with_a_cure(made: Store, memory: int) -> None:
    with pytest.raises(LongpoleError) as caught, Session(made, memory=memory) as session:
        rows(session, "SELECT count(*) FROM events")
    assert caught.value.cure == "Give it more with --memory, or ask for fewer rows."


def test_more_memory_than_there_is_is_no_error(made: Store) -> None:
    with Session(made, memory=10**30) as session:
        assert rows(session, "SELECT count(*) FROM events") == [(18,)]
