"""Who is slow, why, when and by how much: truth.json says it, and the run without it is the same run at size 0."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from longpole.errors import UsageError
from longpole.session import Session
from longpole.store import Store
from longpole.synth import SCENARIOS, stragglers, write
from longpole.synth.truth import RankTruth, run_steps
from pipeline_inline import make_run

Json = dict[str, Any]
Answer = dict[str, Any]
CASES: tuple[stragglers.Case, ...] = get_args(stragglers.Case)
SLOW = [case for case in CASES if case != "healthy"]
NAMES = ["healthy", *(f"straggler-{case}" for case in SLOW if case != "clock")]
"""What the pipeline reads: clock has the dumps of compute."""
RANKS = {"straggler-link": 8, "straggler-stage": 8}
"""Of the runs that the pipeline reads, where not two."""


def _answers(
    case: stragglers.Case, *, ranks: int = 8, steps: int = 6, seed: int = 0, size: float = 0.1
) -> list[Answer]:
    return list(stragglers.make(case, ranks, steps, seed=seed, size=size).lists["stragglers"]())


def _durations(case: stragglers.Case, steps: int = 6, seed: int = 0, size: float = 0.1) -> list[int]:
    """Return the step times of the run's rows, as truth.json works them out."""
    made = stragglers.make(case, 8, steps, seed=seed, size=size)
    truths = [RankTruth(facts) for facts in made.facts]
    for rank, table in made.chunks(range(8)):
        truths[rank].add(table)
    found = run_steps(made.aligned(pa.concat_tables([truth.steps() for truth in truths])))
    durations: list[int] = found["duration_ns"].to_pylist()
    return durations


def _lengths(case: stragglers.Case, pattern: str, size: float = 0.1) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return how long each row takes whose category and name match, by rank, step and place in the step."""
    made = stragglers.make(case, 8, 6, size=size)
    found: dict[int, list[int]] = defaultdict(list)
    for rank, table in made.chunks(range(8)):
        for row in table.select(["category", "name", "duration_ns", "correlation_id", "external_id"]).to_pylist():
            if re.search(pattern, f"{row['category']} {row['name']}"):
                # Of one category the ids count launches, which streams do not reorder.
                found[rank].append((row["correlation_id"] or row["external_id"]) << 32 | row["duration_ns"])
    return np.array([[of_one & 0xFFFFFFFF for of_one in sorted(found[rank])] for rank in range(8)]).reshape(8, 6, -1)


def test_seed_0_names_a_rank_of_its_own_and_the_step_time_that_it_costs() -> None:
    found = {
        case: [
            (answer["ranks"], answer["cause"], answer["is_persistent"], answer["steps"], answer["ns_per_step"])
            for answer in _answers(case)
        ]
        for case in CASES
    }

    assert found == {
        "healthy": [],
        "compute": [([5], "compute", True, "all", 1_364_217)],
        "clock": [([5], "clock", True, "all", 1_364_217)],
        "host": [([5], "host", True, "all", 1_435_456)],
        "input": [([5], "input", True, "all", 1_445_584)],
        "link": [([2, 3], "link", True, "all", 1_383_894)],
        "gc": [([3], "host", False, [102, 103], 1_345_368)],
        "stage": [([6, 7], "stage", True, "all", 2_453_669)],
        "sequence": [
            ([0], "sequence", False, [102, 103], 1_604_385),
            ([3], "sequence", False, [101, 105], 1_327_556),
            ([5], "sequence", False, [104], 1_313_424),
            ([6], "sequence", False, [100], 1_516_942),
        ],
    }


def test_healthy_has_no_straggler_and_neither_has_a_run_of_size_0() -> None:
    assert _answers("healthy") == []
    assert [_answers(case, size=size) for case in CASES for size in (0, 1e-9)] == [[]] * 18


@pytest.mark.parametrize("case", ["compute", "host", "input", "link", "stage"])
def test_what_one_straggler_costs_is_the_run_beside_the_same_run_without_it(case: stragglers.Case) -> None:
    (answer,) = _answers(case)

    saved = np.subtract(_durations(case), _durations(case, size=0))

    # Four times of clocks, each to a nanosecond.
    assert np.abs(saved - answer["saved_ns"]).max() <= 4
    assert answer["ns_per_step"] == sum(answer["saved_ns"]) // 6


@pytest.mark.parametrize("case", ["gc", "sequence"])
def test_what_many_stragglers_cost_is_each_in_its_own_steps(case: stragglers.Case) -> None:
    answers = _answers(case, steps=24)

    saved = np.subtract(_durations(case, steps=24), _durations(case, steps=24, size=0))

    expected = np.zeros(24)
    for answer in answers:
        expected[np.array(answer["steps"]) - 100] += answer["saved_ns"]
        assert answer["ns_per_step"] == sum(answer["saved_ns"]) // len(answer["steps"])
    assert len({answer["ranks"][0] for answer in answers}) == len(answers) > 3
    assert sum(len(answer["steps"]) for answer in answers) == (expected > 0).sum()
    # A step begins where its ranks ended the one before, so another's straggler moves it by microseconds.
    assert np.abs(saved - expected).max() < 20_000


@pytest.mark.parametrize("case", SLOW)
@pytest.mark.parametrize("size", [0.05, 0.3])
def test_a_step_is_longer_by_the_size_where_a_straggler_is_at_work(case: stragglers.Case, size: float) -> None:
    whole = float(np.mean(_durations(case, size=0)))

    answers = [answer for seed in range(8) for answer in _answers(case, seed=seed, size=size)]

    saved = [ns for answer in answers for ns in answer["saved_ns"]]
    # What is put in first makes up for the rank that was last without it.
    assert np.mean(saved) / whole == pytest.approx(size, rel=0.06, abs=0.008)


def test_seeds_differ_in_rank_jitter_and_clock_and_agree_with_themselves() -> None:
    ranks = [_answers("compute", steps=1, seed=seed)[0]["ranks"][0] for seed in range(24)]
    durations = {tuple(_durations("compute", steps=2, seed=seed)) for seed in range(3)}
    runs = [stragglers.make("link", 8, 2, seed=seed) for seed in (1, 1, 2)]
    once, again, other = ([table for _, table in run.chunks(range(8))] for run in runs)
    clocks = [tuple(clock["offset_ns"] for clock in run.lists["clocks"]()) for run in runs]

    assert set(ranks) == set(range(8))
    assert len(durations) == 3
    assert all(a.equals(b) for a, b in zip(once, again, strict=True))
    assert not any(a.equals(b) for a, b in zip(once, other, strict=True))
    assert clocks[0] == clocks[1] != clocks[2]
    assert list(runs[0].lists["stragglers"]()) == list(runs[1].lists["stragglers"]())


def test_a_slow_clock_makes_every_compute_kernel_of_its_rank_as_much_longer() -> None:
    before, after = (_lengths("compute", "^kernel (?!nccl)", size) for size in (0, 0.1))

    (rank,) = _answers("compute")[0]["ranks"]
    ratio = after / before
    assert before.shape == (8, 6, 60)
    assert ratio[rank].min() > 1.11
    assert np.ptp(ratio[rank]) < 0.001
    assert np.abs(np.delete(after - before, rank, axis=0)).max() <= 1


def test_a_slow_host_launches_later_and_its_device_is_no_slower() -> None:
    before, after = (_lengths("host", "^cpu_op aten::(addmm|mm)", size) for size in (0, 0.1))
    kernels = _lengths("host", "^kernel (?!nccl)") - _lengths("host", "^kernel (?!nccl)", 0)

    (rank,) = _answers("host")[0]["ranks"]
    assert before[rank].min() > 40_000
    assert (after / before)[rank].min() > 1.9
    assert np.abs(np.delete(after - before, rank, axis=0)).max() <= 1
    assert np.abs(kernels).max() <= 1


def test_late_batches_are_longer_in_the_data_loader_and_nothing_else_is() -> None:
    before, after = (_lengths("input", "^annotation enumerate", size) for size in (0, 0.1))
    others = "^(kernel (?!nccl)|cpu_op aten::(?!item))"

    (rank,) = _answers("input")[0]["ranks"]
    late = (after - before)[rank]
    assert late.shape == (6, 1)
    assert late.min() > 1_000_000
    assert np.ptp(late) > 100_000
    assert np.abs(np.delete(after - before, rank, axis=0)).max() <= 1
    assert np.abs(_lengths("input", others) - _lengths("input", others, 0)).max() <= 1


def test_longer_sequences_make_attention_longer_on_one_rank_a_step() -> None:
    flash, rest = "^kernel .*flash", "^kernel (?!nccl|.*flash)"
    ratio = (_lengths("sequence", flash) / _lengths("sequence", flash, 0)).min(axis=2)

    at_work = {(answer["ranks"][0], step) for answer in _answers("sequence") for step in answer["steps"]}
    slow = {(int(rank), 100 + int(step)) for rank, step in zip(*np.nonzero(ratio > 1.2), strict=True)}
    assert slow == at_work
    assert len(at_work) == 6
    assert len(np.unique(ratio.max(axis=0).round(3))) == 6
    assert np.abs(_lengths("sequence", rest) - _lengths("sequence", rest, 0)).max() <= 1


def test_a_pause_is_host_time_without_an_event_before_a_launch() -> None:
    anything = "^(kernel (?!nccl)|cpu_op aten::(?!item)|annotation enumerate)"
    made = stragglers.make("gc", 8, 6)
    largest: dict[tuple[int, int], int] = {}
    for rank, table in made.chunks(range(8)):
        host = table.filter(pc.equal(table["category"].cast(pa.string()), "cpu_op"))
        start, length = host["start_ns"].to_numpy(), host["duration_ns"].to_numpy()
        reach = np.maximum.accumulate(start + length)
        is_item = host["name"].cast(pa.string()).to_numpy(zero_copy_only=False) == "aten::item"
        step = np.cumsum(is_item) - is_item
        for number in range(6):
            gaps = (start[1:] - reach[:-1])[(step[1:] == number) & (step[:-1] == number)]
            largest[rank, 100 + number] = int(gaps.max())

    answers = _answers("gc")
    paused = {(answer["ranks"][0], step) for answer in answers for step in answer["steps"]}
    assert {place for place, gap in largest.items() if gap > 1_000_000} == paused
    assert max(gap for place, gap in largest.items() if place not in paused) < 200_000
    assert np.abs(_lengths("gc", anything) - _lengths("gc", anything, 0)).max() <= 1


def test_a_slow_link_makes_no_kernel_longer_that_computes() -> None:
    kernels = "^kernel (?!nccl)"

    assert np.abs(_lengths("link", kernels) - _lengths("link", kernels, 0)).max() <= 1


def test_the_last_stage_has_more_to_compute_on_all_its_ranks() -> None:
    kernels = "^kernel (?!nccl)"
    made = stragglers.make("stage", 8, 6)
    of_rank: dict[str, dict[int, int]] = {"after": defaultdict(int), "before": defaultdict(int)}
    for name, run in (("after", made), ("before", stragglers.make("stage", 8, 6, size=0))):
        for rank, table in run.chunks(range(8)):
            for row in table.select(["category", "name", "duration_ns"]).to_pylist():
                if re.search(kernels, f"{row['category']} {row['name']}"):
                    of_rank[name][rank] += row["duration_ns"]

    (answer,) = made.lists["stragglers"]()
    more = {rank: round(of_rank["after"][rank] / of_rank["before"][rank], 1) for rank in range(8)}
    assert (answer["ranks"], answer["stage"]) == ([6, 7], 3)
    assert more == {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 1.2, 7: 1.2}
    before = list(of_rank["before"].values())
    assert max(before) < 1.03 * min(before)


def test_hosts_have_clocks_of_their_own_and_the_first_is_the_runs() -> None:
    made = stragglers.make("healthy", 8, 1)
    clocks = list(made.lists["clocks"]())

    assert [facts.host for facts in made.facts] == [f"node{rank // 2}" for rank in range(8)]
    assert [clock["host"] for clock in clocks] == [facts.host for facts in made.facts]
    assert [len(facts.devices) for facts in made.facts] == [2] * 8
    assert (clocks[0]["offset_ns"], clocks[0]["drift_ppb"]) == (0, 0)
    assert len({clock["offset_ns"] for clock in clocks}) == 4
    assert {facts.host for facts in stragglers.make("healthy", 64, 1).facts} == {f"node{host}" for host in range(8)}


def test_a_host_runs_ahead_of_its_device_unless_it_is_the_slow_one() -> None:
    made = stragglers.make("host", 8, 6)
    (rank,) = _answers("host")[0]["ranks"]
    truths = [RankTruth(facts) for facts in made.facts]
    for number, table in made.chunks(range(8)):
        truths[number].add(table)
    idle = [sum(truth.steps()["idle_host_ns"].to_pylist()) / 6 for truth in truths]

    assert idle.pop(rank) > 1_000_000
    assert max(idle) < 200_000


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Path]:
    """Return a session over a run of two steps of each scenario, and the folder of their dumps."""
    folder = tmp_path_factory.mktemp("stragglers")
    store = Store(str(folder / "store"))
    for name in NAMES:
        form = "events" if name == "healthy" else "kineto"
        write(name, folder / name, form=form, ranks=RANKS.get(name, 2), steps=2, seed=7)  # type: ignore[arg-type]
        make_run(store, name, [folder / name])
    return Session(store), folder


@pytest.mark.parametrize("name", NAMES)
def test_the_pipeline_finds_the_step_times_of_the_truth(analyzed: tuple[Session, Path], name: str) -> None:
    session, folder = analyzed
    truth = json.loads((folder / name / "truth.json").read_text())
    columns = list(truth["rank_steps"][0])

    rank_steps = session.con.execute(
        f"SELECT {', '.join(columns)} FROM rank_steps WHERE run = $1 ORDER BY rank, step", [name]
    ).fetchall()
    steps = session.con.execute(
        "SELECT step, duration_ns, verdict FROM steps WHERE run = $1 ORDER BY step", [name]
    ).fetchall()

    expected = sorted(truth["rank_steps"], key=lambda row: (row["rank"], row["step"]))
    assert [dict(zip(columns, row, strict=True)) for row in rank_steps] == expected
    assert [(step, verdict) for step, _, verdict in steps] == [(step, "ok") for step in (100, 101)]
    # Clocks are put right to a microsecond.
    assert [ns for _, ns, _ in steps] == pytest.approx([step["duration_ns"] for step in truth["steps"]], abs=2_000)


@pytest.mark.parametrize("name", NAMES)
def test_every_collective_of_a_made_run_is_matched(analyzed: tuple[Session, Path], name: str) -> None:
    found = (
        analyzed[0]
        .con.execute(
            "SELECT op, n_ranks, count(*), bool_and(is_complete) FROM collective_instances WHERE run = $1"
            " GROUP BY op, n_ranks ORDER BY op, n_ranks",
            [name],
        )
        .fetchall()
    )

    all_reduces = {
        "straggler-link": [("all_reduce", 2, 2 * 4 * 4, True), ("all_reduce", 8, 2, True)],
        "straggler-stage": [("all_reduce", 2, 2 * 4, True), ("all_reduce", 8, 2, True)],
    }
    expected = all_reduces.get(name, [("all_reduce", 2, 2 * 4, True)])
    # Four batches there and back between four stages, on each of two chains.
    pairs = [("send_recv", 2, 2 * 4 * 2 * 3 * 2, True)] if name == "straggler-stage" else []
    assert found == [*expected, *pairs]


def test_a_slow_link_makes_what_crosses_it_longer_and_none_late_to_it(analyzed: tuple[Session, Path]) -> None:
    con, folder = analyzed[0].con, analyzed[1]
    truth = json.loads((folder / "straggler-link" / "truth.json").read_text())
    (answer,) = truth["stragglers"]
    hosts = {clock["rank"]: clock["host"] for clock in truth["clocks"]}

    slow = con.execute(
        "SELECT list(g.rank ORDER BY g.rank) FROM group_transfers AS t JOIN groups AS g USING (run, group_id)"
        " WHERE run = 'straggler-link' AND t.verdict = 'slow link' GROUP BY group_id ORDER BY ALL"
    ).fetchall()
    others = con.execute(
        "SELECT verdict, slowdown_ratio BETWEEN 0.9 AND 1.1, count(*) FROM group_transfers"
        " WHERE run = 'straggler-link' AND n_ranks = 2 AND verdict <> 'slow link' GROUP BY ALL"
    ).fetchall()
    apart = con.execute(
        "SELECT t.verdict = 'slow link', median(i.skew_ns)::BIGINT FROM collective_instances AS i"
        " JOIN group_transfers AS t USING (run, group_id) WHERE run = 'straggler-link' AND i.n_ranks = 2"
        " GROUP BY ALL ORDER BY ALL"
    ).fetchall()

    assert [{hosts[rank] for rank in ranks} for (ranks,) in slow] == [set(answer["hosts"])]
    assert sorted(rank for (ranks,) in slow for rank in ranks) == answer["ranks"]
    assert others == [("ok", True, 3)]
    # Both of its ends are held up alike: they come no further apart than those of other links do by jitter.
    assert [ns < 100_000 for _, ns in apart] == [True, True]


def test_the_place_of_a_rank_in_the_pipeline_is_known(analyzed: tuple[Session, Path]) -> None:
    found = (
        analyzed[0].con.execute("SELECT rank, pp, dp FROM ranks WHERE run = 'straggler-stage' ORDER BY rank").fetchall()
    )

    assert found == [(rank, rank // 2, rank % 2) for rank in range(8)]


def test_a_seed_is_for_scenarios_that_have_one(tmp_path: Path) -> None:
    for seed in (None, 0, 1):
        write("straggler-compute", tmp_path / str(seed), form="events", ranks=2, steps=1, seed=seed)
    texts = [(tmp_path / str(seed) / "truth.json").read_text() for seed in (None, 0, 1)]

    with pytest.raises(UsageError, match="nothing in scenario worked follows from a seed"):
        write("worked", tmp_path / "worked", seed=1)
    assert texts[0] == texts[1] != texts[2]
    assert json.loads(texts[2])["seed"] == 1
    assert sorted(name for name, scenario in SCENARIOS.items() if scenario.is_seeded) == sorted(
        [*NAMES, "straggler-clock", "slow-exchange"]
    )


@pytest.mark.parametrize(
    ("case", "ranks", "options", "fact"),
    [
        ("compute", 1, {}, "a rank alone has no others to be slower than"),
        ("link", 12, {}, "12 ranks do not fill the hosts and stages of this scenario"),
        ("stage", 4, {}, "4 ranks do not fill the hosts and stages of this scenario"),
        ("host", 8, {"size": 1.5}, "a straggler of size 1.5 is none"),
        ("host", 8, {"seed": -1}, "-1 is no seed"),
    ],
)
def test_a_job_that_cannot_have_such_a_straggler_says_why(
    case: stragglers.Case, ranks: int, options: Json, fact: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(fact)):
        stragglers.make(case, ranks, 2, **options)


def test_a_slower_network_makes_every_transfer_longer_and_nothing_else() -> None:
    lengths = []
    for slower_ppm in (0, 80_000):
        made = stragglers.make("healthy", 4, 2, slower_ppm=slower_ppm)
        rows = [row for _, table in made.chunks([0]) for row in table.to_pylist()]
        kernels = [(row["name"].startswith("nccl"), row["duration_ns"]) for row in rows if row["category"] == "kernel"]
        lengths.append([[duration for is_comm, duration in kernels if is_comm == which] for which in (False, True)])

    assert lengths[0][0] == lengths[1][0]
    # A rank's time in an all-reduce holds its wait for the last, which is as long in both.
    assert all(usual < slow <= 1.08 * usual + 1 for usual, slow in zip(lengths[0][1], lengths[1][1], strict=True))
    assert sum(lengths[1][1]) > 1.05 * sum(lengths[0][1])
