"""A vLLM run on one MI300 recorded by ROCm's RPD, HIP graphs in it: longpole's numbers beside plain SQL on the file."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run


@pytest.fixture(scope="module")
def profile(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over the run."""
    store = Store(str(tmp_path_factory.mktemp("rpd") / "store"))
    make_run(store, "mytrace", [traces / "rocpd" / "mytrace.rpd.gz"])
    with Session(store) as session:
        yield session


@pytest.fixture(scope="module")
def plain(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Return the file itself, opened by sqlite3."""
    path = tmp_path_factory.mktemp("plain") / "mytrace.rpd"
    path.write_bytes(gzip.decompress((traces / "rocpd" / "mytrace.rpd.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as con:
        yield con


def _rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    return session.con.execute(sql).fetchall()


def test_every_row_of_the_file_is_an_event(profile: Session, plain: sqlite3.Connection) -> None:
    found = _rows(profile, "SELECT rank, format, n_events, n_stored, n_skipped, n_dropped, verdict FROM dumps")
    ((n_ops,),) = plain.execute("SELECT count(*) FROM rocpd_op").fetchall()
    ((n_calls,),) = plain.execute("SELECT count(*) FROM rocpd_api").fetchall()

    assert (n_ops, n_calls) == (10_124, 14_736)
    assert found == [(0, "rpd", 24_860, 24_860, 0, 0, "ok")]


def test_kinds_and_summed_time_are_those_of_plain_sql(profile: Session, plain: sqlite3.Connection) -> None:
    found = _rows(
        profile,
        "SELECT kind, count(*), sum(duration_ns)::BIGINT FROM events WHERE kind IS NOT NULL GROUP BY kind"
        " ORDER BY kind",
    )
    expected = plain.execute(
        "SELECT CASE WHEN k.string LIKE 'Copy%' THEN 'copy' ELSE 'compute' END AS kind, count(*), sum(end - start)"
        " FROM rocpd_op JOIN rocpd_string AS k ON k.id = opType_id GROUP BY kind ORDER BY kind"
    ).fetchall()

    assert expected == [("compute", 8_948, 407_137_675), ("copy", 1_176, 9_487_406)]
    assert found == expected


def test_busy_time_is_the_union_of_the_operations(profile: Session) -> None:
    found = _rows(
        profile,
        "SELECT compute_ns, comm_ns, compute_ns + exposed_comm_ns + exposed_copy_ns, n_activities, n_unlinked"
        " FROM rank_captures",
    )

    # Unions by a loop over the file's rows in order of start.
    assert found == [(407_137_122, 0, 416_623_418, 10_124, 0)]


def test_a_graph_is_one_call_with_all_its_operations(profile: Session) -> None:
    found = _rows(
        profile,
        "SELECT launch_ns, count(*), sum(duration_ns)::BIGINT FROM events WHERE kind IS NOT NULL GROUP BY launch_ns"
        " HAVING count(*) > 1 ORDER BY launch_ns",
    )

    assert len(found) == 20
    assert found[:2] == [(3_489_389_521_499_280, 418, 4_724_134), (3_489_389_528_876_871, 418, 4_690_652)]


def test_copies_have_their_bytes_and_markers_their_text(profile: Session) -> None:
    copied = _rows(profile, "SELECT count(n_bytes), sum(n_bytes)::BIGINT FROM events WHERE category = 'memcpy'")
    markers = _rows(
        profile, "SELECT name, count(*) FROM events WHERE category = 'annotation' GROUP BY name ORDER BY name"
    )

    assert copied == [(536, 4_295_697_056)]
    assert markers == [
        ("Sampler Foward", 22), ("_run_engine", 1), ("_sample", 22), ("execute_model", 22), ("generate", 1),
        ("run_to_completion", 1),
    ]  # fmt: skip
