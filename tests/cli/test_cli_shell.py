"""`longpole shell` hands DuckDB's client every view on a copy, and no way out of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from longpole import catalog, cli
from longpole.session import Session, public_views
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[2] / "fixtures"

CLIENT = """#!/bin/sh
printf '%s\\n' "$@" > "$SEEN/arguments"
for last; do :; done
cp "$last" "$SEEN/copy.duckdb"
exit ${CODE:-0}
"""
"""Stands in for DuckDB's client: it writes down what it is given."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(str(tmp_path_factory.mktemp("shell") / "store"))
    for run in ("worked", "worked-contended"):
        make_run(made, run, [FIXTURES / run])
    return made


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the client leaves what it was given."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "duckdb").write_text(CLIENT)
    (tmp_path / "bin" / "duckdb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SEEN", str(tmp_path))
    return tmp_path


def test_the_client_gets_every_view_but_events(store: Store, seen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["shell", "--store", store.url]) == 0

    assert "`SHOW TABLES` lists the views" in capsys.readouterr().err
    with duckdb.connect(str(seen / "copy.duckdb"), read_only=True) as con:
        shown = {name for (name,) in con.sql("SHOW TABLES").fetchall()}
        assert set(public_views()) - shown == {"events", "memory_events"}
        steps = con.sql("SELECT run, step, duration_ns FROM steps ORDER BY run, step").fetchall()
        changes = con.sql("SELECT change_ns FROM run_changes WHERE dimension = 'step' ORDER BY change_ns").fetchall()
        assert con.sql("SELECT aligned_ns(1000, 300, NULL, NULL)").fetchall() == [(700,)]
        comments = con.sql("SELECT comment FROM duckdb_tables() WHERE table_name = 'steps'").fetchall()
    assert steps[:1] + steps[4:5] == [("worked", 10, 750_000_000), ("worked-contended", 10, 780_000_000)]
    assert changes == [(-30_000_000,), (30_000_000,)]
    assert comments == [(catalog.relations()["steps"].grain,)]


def test_events_of_the_steps_that_are_named_come_along(store: Store, seen: Path) -> None:
    assert cli.main(["shell", "--store", store.url, "--run", "worked", "--steps", "11:12"]) == 0

    asked = "SELECT step, kind, count(*) FROM events WHERE kind IS NOT NULL GROUP BY ALL ORDER BY ALL"
    with duckdb.connect(str(seen / "copy.duckdb"), read_only=True) as con:
        assert con.sql(asked).fetchall() == [(s, k, n) for s in (11, 12) for k, n in (("comm", 8), ("compute", 32))]
        assert con.sql("SELECT DISTINCT run FROM events").fetchall() == [("worked",)]


def test_the_copy_has_the_columns_of_the_session(store: Store, seen: Path) -> None:
    assert cli.main(["shell", "--store", store.url, "--steps", "11"]) == 0

    asked = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    with duckdb.connect(str(seen / "copy.duckdb"), read_only=True) as con, Session(store) as session:
        expected = [row for row in session.con.sql(asked).fetchall() if row[0] in public_views()]
        assert [row for row in con.sql(asked).fetchall() if row[0] in public_views()] == expected


def test_the_client_can_write_nothing_and_the_copy_is_gone_after(store: Store, seen: Path) -> None:
    before = {p: p.read_bytes() for p in Path(store.url).rglob("*") if p.is_file()}
    assert cli.main(["shell", "--store", store.url]) == 0

    *guards, copy = (seen / "arguments").read_text().splitlines()
    assert guards == ["-readonly", "-cmd", ".safe_mode"]
    assert not Path(copy).exists()
    assert {p: p.read_bytes() for p in Path(store.url).rglob("*") if p.is_file()} == before


def test_a_client_that_fails_is_a_failure(store: Store, seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "3")
    assert cli.main(["shell", "--store", store.url]) == 1


def test_without_the_client_the_error_says_how_to_get_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["shell", "--store", store.url]) == 1

    err = capsys.readouterr().err
    assert "pip install duckdb-cli" in err
    assert "`longpole query` answers the same" in err


@pytest.mark.skipif(shutil.which("duckdb") is None, reason="DuckDB's client is not installed")
def test_the_real_client_answers_and_cannot_leave(store: Store, tmp_path: Path) -> None:
    asked = "SELECT count(*) AS n FROM steps;\nCOPY steps TO 'out.csv';\n.shell touch ran\n.output file\n"
    environment = {**os.environ, "LONGPOLE_STORE": store.url}
    done = subprocess.run(
        [sys.executable, "-m", "longpole", "shell"],
        input=asked,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "8" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", public_views())
def test_the_example_of_a_view_runs(name: str, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["views", name]) == 0
    example = capsys.readouterr().out.partition("\nExample: longpole ")[2]
    if example.startswith("query"):
        sql = example.split('"')[1]
    else:
        sql = example.partition("\n\n")[2].partition("\n\nOther recipes")[0]
    with Session(store, ["worked"]) as session:
        assert session.sql(sql).columns
