"""From Python a store is read as from the command line, in frames and relations."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from longpole import api
from longpole.errors import LongpoleError, UsageError
from longpole.store import Store
from pipeline_inline import make_run

ROOT = Path(__file__).parents[1]
MS = 1_000_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = Store(str(tmp_path_factory.mktemp("api") / "longpole-store"))
    make_run(made, "worked", [ROOT / "fixtures" / "worked"])
    make_run(made, "idle-causes", [ROOT / "fixtures" / "idle-causes"])
    return made.url


@pytest.fixture
def store(url: str) -> Iterator[api.OpenStore]:
    with api.open_store(url) as opened:
        yield opened


def test_runs_are_a_frame_with_a_row_for_each(store: api.OpenStore) -> None:
    assert store.runs().select("run", "n_ranks", "n_steps").rows() == [("idle-causes", 1, 1), ("worked", 2, 4)]


def test_a_store_without_runs_has_none(tmp_path: Path) -> None:
    with api.open_store(str(tmp_path / "none")) as empty:
        assert empty.runs().rows() == []


def test_a_query_is_a_frame_of_the_runs_that_are_named(store: api.OpenStore) -> None:
    sql = "SELECT run, count(*) AS n FROM steps GROUP BY run ORDER BY run"
    assert store.query(sql).equals(pl.DataFrame({"run": ["idle-causes", "worked"], "n": [1, 4]}))
    assert store.query(sql, run="worked").rows() == [("worked", 4)]
    assert store.query(sql, run=["worked"]).rows() == [("worked", 4)]
    assert store.query("SELECT duration_ns FROM steps WHERE step = $step", "worked", {"step": 12}).item() == 750 * MS


def test_a_view_is_a_relation_to_go_on_with(store: api.OpenStore) -> None:
    longest = store.view("rank_steps", run="worked").filter("rank = 1").aggregate("max(exposed_comm_ns) AS ns")
    assert longest.fetchall() == [(50 * MS,)]


def test_a_step_is_explained_in_words(store: api.OpenStore) -> None:
    told = store.explain("worked", step=12)
    assert told.startswith("worked: step 12 (the slowest of 4, 10 to 13) took 750.0 ms and ended on rank 0, ")


def test_what_is_not_there_is_an_error_with_a_cure(store: api.OpenStore) -> None:
    with pytest.raises(UsageError, match="there is no view 'stepz'"):
        store.view("stepz")
    with pytest.raises(LongpoleError, match="nowhere"):
        store.query("FROM steps", run="nowhere")
    with pytest.raises(LongpoleError, match="the store is read-only"):
        store.query("CREATE TABLE a AS SELECT 1 AS a")
    with pytest.raises(LongpoleError, match="the query failed"):
        store.query("SELECT no_such_column FROM steps")


def test_the_default_store_is_that_of_the_command_line(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGPOLE_STORE", url)
    with api.open_store() as opened:
        assert opened.runs().height == 2


def test_importing_it_loads_no_engine() -> None:
    script = "import sys, longpole.api; print(sorted({'duckdb', 'polars', 'pyarrow', 'dask'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_example_in_the_readme_runs_as_typed(url: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(from longpole import api\n.+?)```", readme, re.S)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=Path(url).parent, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "step 12" in done.stdout
