"""Critical paths of made runs, held to answers worked out by hand; fixtures/README.md walks them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from longpole import catalog, synth
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[1] / "fixtures"
SCENARIOS = ("worked", "worked-contended", "worked-late-input", "idle-causes", "cpu")
WITH_PATHS = ("worked", "worked-contended", "worked-late-input", "idle-causes")
MS = 1_000_000
US = 1_000

FORWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"
BACKWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("paths")
    store = Store(str(folder / "store"))
    for name in SCENARIOS:
        make_run(store, name, [FIXTURES / name])
    synth.write("training", folder / "training", ranks=3, steps=5)
    make_run(store, "training", [folder / "training"])
    return Session(store)


def test_every_path_of_every_made_run_is_its_step_to_the_nanosecond(session: Session) -> None:
    paths = session.con.execute(
        "SELECT run, count(DISTINCT step) FROM step_critical_path GROUP BY run ORDER BY run"
    ).fetchall()

    assert paths == [
        ("cpu", 3), ("idle-causes", 1), ("training", 5), ("worked", 4), ("worked-contended", 4),
        ("worked-late-input", 4),
    ]  # fmt: skip
    assert session.con.execute(catalog.relations()["paths_add_up"].sql).fetchall() == []


@pytest.mark.parametrize("run", WITH_PATHS)
def test_a_path_is_made_of_what_the_truth_says(session: Session, run: str) -> None:
    truth = json.loads((FIXTURES / run / "truth.json").read_text())

    found = session.con.execute(
        "SELECT step, rank, kind, duration_ns FROM step_path_kinds WHERE run = $1 ORDER BY ALL", [run]
    ).fetchall()

    assert found == sorted((row["step"], row["rank"], row["kind"], row["duration_ns"]) for row in truth["path"])


def _phases(session: Session, run: str, step: int) -> Counter[str]:
    """Return the milliseconds of each phase of a worked step, all else by its kind."""
    phases: Counter[str] = Counter()
    for kind, name, duration_ns in session.con.execute(
        "SELECT kind, name, duration_ns FROM step_critical_path WHERE run = $1 AND step = $2", [run, step]
    ).fetchall():
        names = {FORWARD: "forward", BACKWARD: "backward", REDUCE: "exchange"}
        phases[kind if kind not in ("compute", "comm") else names.get(name, "optimizer")] += duration_ns
    return Counter({phase: ns / MS for phase, ns in phases.items()})


@pytest.mark.parametrize("step", [10, 11, 12, 13])
def test_the_worked_step_is_forward_200_backward_400_the_last_bucket_50_and_optimizer_100(
    session: Session, step: int
) -> None:
    assert _phases(session, "worked", step) == {"forward": 200, "backward": 400, "exchange": 50, "optimizer": 100}


def test_the_contended_step_has_no_exchange_on_its_path_although_it_is_30_longer(session: Session) -> None:
    assert _phases(session, "worked-contended", 11) == {"forward": 200, "backward": 480, "optimizer": 100}


def test_the_late_step_waits_80_for_its_input_first(session: Session) -> None:
    assert _phases(session, "worked-late-input", 12) == {
        "input": 79.9, "host": 0.08, "launch": 0.02, "forward": 200, "backward": 400, "exchange": 50, "optimizer": 100,
    }  # fmt: skip


def test_the_path_of_the_idle_step_is_what_each_gap_waited_for(session: Session) -> None:
    found = session.con.execute(
        "WITH kinds AS (SELECT p.start_ns - s.start_ns AS start_ns, p.duration_ns, kind,"
        " count(*) FILTER (kind <> before) OVER (ORDER BY seq) AS stretch FROM (SELECT *,"
        " lag(kind) OVER (ORDER BY seq) AS before FROM step_critical_path WHERE run = 'idle-causes') AS p"
        " JOIN steps AS s USING (run, step))"
        " SELECT kind, min(start_ns) // 1000, sum(duration_ns)::BIGINT // 1000 FROM kinds GROUP BY stretch, kind"
        " ORDER BY stretch"
    ).fetchall()

    assert found == [
        ("host", 0, 5_000),
        ("input", 5_000, 15_000),
        ("launch", 20_000, 10),
        ("copy", 20_010, 1_000),
        ("compute", 21_010, 10_000),
        ("sync", 31_010, 6_000),
        ("host", 37_010, 28_020),
        ("launch", 65_030, 10),
        ("compute", 65_040, 10_000),
        ("unknown", 75_040, 3_000),
        ("compute", 78_040, 10_000),
        ("turnaround", 88_040, 4),
        ("compute", 88_044, 10_000),
        ("unknown", 98_044, 2_000),
        ("compute", 100_044, 19_956),
    ]


def test_without_a_device_the_path_goes_to_the_late_rank_at_the_exchange_that_it_came_to_last(
    session: Session,
) -> None:
    found = session.con.execute(
        "SELECT step, rank, kind, duration_ns // 1000000 FROM step_path_kinds WHERE run = 'cpu' ORDER BY ALL"
    ).fetchall()

    # The odd rank's loader, forward and backward; 10 of the exchange, and from its end the even one's own.
    expected = [(0, "comm", 10), (0, "compute", 15), (0, "host", 10), (1, "compute", 50), (1, "input", 15)]
    assert found == [(step, *row) for step in (3, 4, 5) for row in expected]


def test_the_path_of_training_lies_on_the_slow_rank_and_where_a_batch_is_late_on_that_ones_first(
    session: Session,
) -> None:
    ranks = session.con.execute(
        "SELECT step, list(DISTINCT rank ORDER BY rank) FROM step_path_kinds WHERE run = 'training' GROUP BY step"
        " ORDER BY step"
    ).fetchall()
    late = session.con.execute(
        "SELECT rank, duration_ns // 1000000 FROM step_path_kinds"
        " WHERE run = 'training' AND step = 102 AND kind = 'input'"
    ).fetchall()
    order = session.con.execute(
        "SELECT rank FROM (SELECT seq, rank, lag(rank) OVER (ORDER BY seq) AS before FROM step_critical_path"
        " WHERE run = 'training' AND step = 102) WHERE rank IS DISTINCT FROM before ORDER BY seq"
    ).fetchall()

    # Rank 1 is the slow one; rank 2 has its batch 8 ms late in step 102.
    assert ranks == [(100, [1]), (101, [1]), (102, [1, 2]), (103, [1]), (104, [1])]
    assert late == [(2, 8)]
    assert order == [(2,), (1,)]
