"""Old events go and answers stay: which runs are old, what a pruned run still says, and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from longpole import cli, retention, synth
from longpole.analyze import is_analyzed
from longpole.cli import options
from longpole.errors import LongpoleError, StoreError
from longpole.session import Session, public_views
from longpole.store import DumpEntry, Manifest, PublishedFile, Store
from pipeline_inline import inline, make_run

DAY_S = 86_400


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return an empty store in an empty working folder where tasks run in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options.Work, "runner", lambda self, what: inline)
    monkeypatch.setenv("LONGPOLE_STORE", "store")
    return Store("store")


def kept(store: Store, run: str, *, last_ns: int = 0, job: str | None = None, written: float = 0) -> None:
    """Publish a run with one file of events, written then."""
    path = "events/rank=00000/0.parquet"
    file = Path(store.path("runs", run, path))
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    os.utime(file, (written, written))
    config = f'[run]\njob = "{job}"\n' if job else ""
    dump = DumpEntry("0", "rank0.json", 1, rank=0, last_ns=last_ns)
    store.publish(Manifest(run, config=config, dumps=(dump,), files=(PublishedFile("events", path, "", "", 4, 1, 0),)))


def old(store: Store, *, days: float | None = None, keep: int | None = None, now: float = 100 * DAY_S) -> list[str]:
    age_ns = None if days is None else int(days * DAY_S * 1e9)
    return retention.old_runs(store, store.manifests()[0], age_ns=age_ns, keep=keep, now=now)


def test_events_are_old_by_when_they_were_written(store: Store) -> None:
    kept(store, "a", written=60 * DAY_S)
    kept(store, "b", written=80 * DAY_S)

    assert old(store, days=30) == ["a"]
    assert old(store, days=40) == []
    assert old(store, days=0) == ["a", "b"]


def test_the_times_of_a_run_s_events_come_from_one_listing_and_the_youngest_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(store, "a", written=60 * DAY_S)
    young = Path(store.path("runs", "a", "events/rank=00001/1.parquet"))
    young.parent.mkdir()
    young.write_bytes(b"rows")
    os.utime(young, (75 * DAY_S, 75 * DAY_S))
    files = store.manifest("a").files
    store.publish(
        Manifest("a", files=(*files, PublishedFile("events", "events/rank=00001/1.parquet", "", "", 4, 1, 1)))
    )
    monkeypatch.delattr(type(store.fs), "modified")

    assert old(store, days=26) == []
    assert old(store, days=24) == ["a"]


def test_a_file_of_events_that_is_gone_is_named(store: Store) -> None:
    kept(store, "a", written=60 * DAY_S)
    Path(store.path("runs", "a", "events/rank=00000/0.parquet")).unlink()

    with pytest.raises(StoreError, match=r"0\.parquet is gone, though the manifest of run 'a' names it"):
        old(store, days=30)


def test_all_but_the_last_runs_of_each_job_are_old(store: Store) -> None:
    for run, last_ns, job in (("a", 3, "x"), ("b", 1, "x"), ("c", 2, "x"), ("d", 0, "y"), ("e", 5, None)):
        kept(store, run, last_ns=last_ns, job=job)

    assert old(store, keep=1) == ["b", "c"]
    assert old(store, keep=0) == ["a", "b", "c", "d", "e"]
    assert old(store, keep=3) == []


def test_given_both_rules_both_must_say_so(store: Store) -> None:
    kept(store, "a", last_ns=1, written=60 * DAY_S)
    kept(store, "b", last_ns=2, written=60 * DAY_S)

    assert old(store, days=30, keep=1) == ["a"]


def answers(store: Store) -> dict[str, list[tuple[object, ...]]]:
    with Session(store, ["r"]) as session:
        return {
            view: session.con.execute(f"SELECT * FROM {view} ORDER BY ALL").fetchall()
            for view in public_views()
            if view != "events"
        }


def test_a_pruned_run_answers_every_view_but_events(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    dumps = synth.write("training", Path("dumps"), ranks=2, steps=3)
    made = make_run(store, "r", dumps, has_what_ifs=True)
    before = answers(store)
    assert len(before["run_opportunities"]) > 0

    assert cli.main(["prune", "--keep", "0"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("r\t")
    assert "would delete" in told.err
    assert set(store.manifest("r").files) == set(made.files)
    assert cli.main(["prune", "--keep", "0", "--yes"]) == 0
    assert "deleted" in capsys.readouterr().err

    assert answers(store) == before
    with Session(store, ["r"]) as session:
        assert session.con.execute("SELECT count(*) FROM events").fetchall() == [(0,)]
    assert not list(Path("store").rglob("events/**/*.parquet"))
    assert cli.main(["check", "r"]) == 0
    assert cli.main(["explain", "r"]) == 0
    assert cli.main(["report", "r", "-o", "page.html"]) == 0
    capsys.readouterr()
    assert cli.main(["prune", "--keep", "0", "--yes"]) == 0
    assert capsys.readouterr().out == ""


def test_what_needs_events_says_that_they_were_pruned(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    dumps = synth.write("worked", Path("dumps"))
    make_run(store, "r", dumps)
    retention.prune_run(store, "r")

    for command in (["whatif", "r", "--scale", "comm=0.5"], ["export", "r"]):
        assert cli.main(command) == 1
        assert "the events of run 'r', and those of 2 of 2 dumps were pruned" in capsys.readouterr().err
    assert cli.main(["analyze", "r"]) == 0
    assert "longpole ingest" not in capsys.readouterr().err


def test_answers_that_are_not_this_version_s_need_the_events(store: Store) -> None:
    dumps = synth.write("worked", Path("dumps"))
    made = make_run(store, "r", dumps)
    retention.prune_run(store, "r")
    pruned = store.manifest("r")
    assert is_analyzed(pruned)
    store.publish(Manifest("r", dumps=made.dumps, files=pruned.files, analyzed="older"))

    with pytest.raises(LongpoleError, match="to make its answers anew needs the events of run 'r'") as error:
        make_run(store, "r", dumps[:0] or ["dumps/rank0.pt.trace.json"])

    assert "longpole ingest DUMPS --name r" in error.value.cure


def test_reading_the_dumps_again_brings_events_back(store: Store) -> None:
    dumps = synth.write("worked", Path("dumps"))
    made = make_run(store, "r", dumps)
    retention.prune_run(store, "r")

    assert set(make_run(store, "r", dumps).files) == set(made.files)


def test_a_run_that_is_not_analyzed_keeps_its_events(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    dumps = [str(d) for d in synth.write("worked", Path("dumps"))]
    assert cli.main(["ingest", *dumps, "--name", "r"]) == 0
    capsys.readouterr()

    assert cli.main(["prune", "--keep", "0", "--yes"]) == 0

    assert "r keeps its events: it is not analyzed by this version" in capsys.readouterr().err
    assert len(store.manifest("r").of("events")) == 2


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        ([], "neither --older-than nor --keep is given"),
        (["--keep", "-1"], "--keep -1 is no number of runs"),
        (["--older-than", "30"], "'30' is no duration"),
    ],
)
def test_prune_asks_what_is_old(argv: list[str], fact: str, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prune", *argv]) == 2
    assert fact in capsys.readouterr().err


def test_runs_says_how_big_events_facts_and_marts_are(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    made = make_run(store, "r", synth.write("worked", Path("dumps")))
    sizes = {level: sum(f.n_bytes for f in made.files if f.path.startswith(level)) for level in ("events", "facts")}
    capsys.readouterr()
    assert cli.main(["runs"]) == 0
    told = capsys.readouterr().out.splitlines()[0].split("\t")
    assert told[:3] == ["r", "2 ranks", "2 dumps"]
    assert [cell.split(" ")[0] for cell in told[3:]] == ["events", "facts", "marts", "total"]
    assert told[3] == f"events {sizes['events'] / 1024:.1f} KiB"
    assert told[4] == f"facts {sizes['facts'] / 1024:.1f} KiB"

    retention.prune_run(store, "r")
    Path("store/runs/z").mkdir()
    Path("store/runs/z/run.json").write_text('{"schema_version": 0}')
    assert cli.main(["prune", "--keep", "0"]) == 0
    assert "left as it is: run 'z' has schema version 0, " in capsys.readouterr().err
    assert cli.main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "\nz\trun 'z' has schema version 0, " in out
    assert "\tevents pruned\t" in out
    assert json.loads(Path("store/runs/r/run.json").read_text())["dumps"]
