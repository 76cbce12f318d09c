"""Real flight recorders' dumps of gloo, three jobs with known ends, in both forms."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run


@pytest.fixture(scope="module", params=["pickle", "JSON"])
def session(request: pytest.FixtureRequest, traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("flights")
    store = Store(str(folder / "store"))
    for case in ("ok", "missing", "mismatch"):
        if request.param == "JSON":
            (folder / case).mkdir()
            for path in sorted((traces / "flight-recorder" / case).glob("*.json")):
                shutil.copy(path, folder / case)
            make_run(store, case, [folder / case])
        else:  # the folder has both, and each rank is read once
            make_run(store, case, [traces / "flight-recorder" / case])
    with Session(store) as opened:
        yield opened


def test_each_job_ends_as_it_was_made_to(session: Session) -> None:
    found = session.con.execute("SELECT run, kind, group_id, seq, ranks, n_waiting, verdict FROM hangs ORDER BY run")
    assert found.fetchall() == [
        (
            *("mismatch", "op", "0", 7, [1], 4),
            "rank 1 enqueued all_gather where the others enqueued all_reduce, collective 7 of group 0 (default_pg)",
        ),
        (
            *("missing", "missing", "0", 7, [2], 3),
            "rank 2 never enqueued all_reduce, collective 7 of group 0 (default_pg)",
        ),
    ]


def test_the_last_call_of_who_never_came_is_the_barrier(session: Session) -> None:
    found = session.con.execute("SELECT rank, last_seq FROM hang_ranks WHERE run = 'missing' AND is_culprit").fetchall()
    assert found == [(2, 6)]
    last = "SELECT op, seq, is_complete FROM flight_records WHERE run = 'missing' AND rank = 2 ORDER BY record_id DESC"
    assert session.con.execute(last).fetchone() == ("barrier", 6, True)


def test_each_rank_is_read_once_with_all_its_records(session: Session) -> None:
    found = session.con.execute("SELECT run, rank, n_events FROM dumps WHERE run = 'missing' ORDER BY rank").fetchall()
    assert found == [("missing", 0, 12), ("missing", 1, 12), ("missing", 2, 11), ("missing", 3, 12)]
    groups = (
        "SELECT list(DISTINCT group_id ORDER BY group_id), count(*) FROM flight_records WHERE run = 'ok' AND rank = 3"
    )
    assert session.con.execute(groups).fetchone() == (["0", "2"], 11)
