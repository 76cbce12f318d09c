"""An op timeline becomes files of whole steps and tasks over them, and how it is cut changes no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longpole import timelines
from longpole.analyze import analyze_run
from longpole.errors import DumpError, LongpoleError
from longpole.formats import op_timeline
from longpole.session import Session
from longpole.store import Manifest, Store
from pipeline_inline import inline, make_run
from timeline_cases import pipeline, write_job
from timeline_reference import Op


def job(n_steps: int) -> list[Op]:
    """Return steps 10, 20, ... of three replicas of two stages; the second replica is slow in every other step."""
    steps: list[Op] = []

    def takes(op: Op) -> int:
        return 1000 + 100 * op.seq_id + 70 * (op.step % 20) * (op.dp_rank == 1)

    for step in range(10, 10 * n_steps + 1, 10):
        steps += pipeline(3, 2, 3, takes, step=step)
    return steps


def answers(store: Store, view: str) -> list[tuple[Any, ...]]:
    with Session(store) as session:
        return session.con.execute(f"SELECT * EXCLUDE (run) FROM {view} ORDER BY ALL").fetchall()


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Store, Manifest]:
    store = Store(str(tmp_path / "whole"))
    return store, make_run(store, "job", [write_job(tmp_path / "dumps" / "trace-job.parquet", job(5))])


def test_how_a_job_is_cut_into_shards_changes_no_answer(
    tmp_path: Path, whole: tuple[Store, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "OPS_PER_SHARD", 200)
    store = Store(str(tmp_path / "cut"))
    manifest = make_run(store, "job", [tmp_path / "dumps"])
    assert [(f.first_step, f.last_step) for f in whole[1].of("timeline_ops")] == [(10, 50)]
    assert [(f.first_step, f.last_step) for f in manifest.of("timeline_ops")] == [(10, 20), (30, 40), (50, 50)]
    for view in ("run_whatif", "timeline_replays", "timeline_workers", "timeline_retimed", "timeline_ops"):
        found = answers(store, view)
        assert found == answers(whole[0], view)
        assert len(found) > 4


def test_the_slow_replica_is_found_by_its_slowest_worker(whole: tuple[Store, Manifest]) -> None:
    with Session(whole[0]) as session:
        rows = session.con.execute("SELECT rank, dp_rank FROM timeline_workers WHERE is_slowest").fetchall()
        ((m_w,),) = session.con.execute("SELECT value_ratio FROM run_whatif WHERE measure = 'M_W'").fetchall()
    assert rows in ([(2, 1)], [(3, 1)])
    assert 0.2 < m_w < 1


@pytest.mark.parametrize(
    ("counts", "ranges"),
    [
        ([(1, 10)], [(1, 1)]),
        ([(1, 60_000), (2, 60_000)], [(1, 1), (2, 2)]),
        ([(1, 30_000), (2, 30_000), (7, 30_000), (9, 30_000)], [(1, 2), (7, 9)]),
        ([(1, 200_000), (2, 1)], [(1, 1), (2, 2)]),
        ([(1, 1), (2, 200_000)], [(1, 1), (2, 2)]),
    ],
)
def test_shards_are_whole_steps_of_like_size(counts: list[tuple[int, int]], ranges: list[tuple[int, int]]) -> None:
    assert timelines._ranges(counts) == ranges


def test_what_is_published_is_not_computed_again(whole: tuple[Store, Manifest]) -> None:
    store, manifest = whole
    known: dict[str, list[Any]] = {}
    for file in manifest.files:
        known.setdefault(file.inputs, []).append(file)

    def refuse(task: Any, tasks: list[Any]) -> list[Any]:
        raise AssertionError("a task ran")

    files = timelines.answers(store, manifest, known, refuse, 1 << 30)
    assert {f.table for f in files} == {
        *("run_whatif", "timeline_ideals", "timeline_replays", "timeline_retimed", "timeline_scenarios"),
        *("timeline_workers", "pipeline_stages"),
    }
    assert set(files) <= set(manifest.files)


def test_a_run_of_profiler_dumps_has_no_such_answers(tmp_path: Path) -> None:
    assert timelines.answers(Store(str(tmp_path)), Manifest(run="job"), {}, inline, 1 << 30) == []


def test_ops_that_are_gone_are_said_with_the_cure(whole: tuple[Store, Manifest]) -> None:
    store, manifest = whole
    (file,) = manifest.of("timeline_ops")
    Path(store.path("runs", "job", file.path)).unlink()
    with pytest.raises(LongpoleError, match="gone or damaged") as caught:
        analyze_run(store, "job", run_tasks=inline)
    assert "longpole ingest" in caught.value.cure


def test_more_dependencies_than_a_task_can_replay_are_refused(
    whole: tuple[Store, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MOST_EDGES", 1_000)
    with pytest.raises(LongpoleError, match=r"have [\d,]+ dependencies to replay at once, more than 1,000"):
        timelines.answers(whole[0], whole[1], {}, inline, 1 << 30)


def test_more_ops_than_a_timeline_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_timeline, "MOST_OPS", 100)
    dump = write_job(tmp_path / "trace-job.parquet", job(1))
    with dump.open("rb") as file, pytest.raises(DumpError, match="one timeline has 100 at most"):
        op_timeline.read_ops(file, str(dump), lambda table: None)


def test_steps_that_some_replica_did_not_record_are_answered_from_the_others(tmp_path: Path) -> None:
    ops = [op for op in job(2) if (op.step, op.dp_rank) != (20, 2)]
    store = Store(str(tmp_path / "store"))
    make_run(store, "job", [write_job(tmp_path / "trace-job.parquet", ops)])
    with Session(store) as session:
        rows = session.con.execute(
            "SELECT step, group_key FROM timeline_replays WHERE dimension = 'dp_rank' AND duration_ns IS NOT NULL"
            " ORDER BY ALL"
        ).fetchall()
    assert rows == [(10, "0"), (10, "1"), (10, "2"), (20, "0"), (20, "1"), (20, "2")]
