"""Every saved question has an answer, and its header says what the answer's columns are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longpole import catalog, cli, synth
from longpole.catalog import parse_recipe
from longpole.session import Session, public_views
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[1] / "fixtures"
MS = 1_000_000

START = 1_795_958_103_100 * MS
"""Start of the window of idle-causes, on its rank's clock."""

FORWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"
BACKWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32"
EXCHANGE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
UPDATE = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
    "at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>>"
)

RECIPES = catalog.recipes()
EVERY = pytest.mark.parametrize("name", sorted(RECIPES))

EMPTY_HERE = {"doubtful_dumps", "opportunities", "peak_memory"}
"""Questions that no run here has rows for: its dumps are whole, without allocations, and no replay was asked for."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store of the worked example and its variants, and of two made trainings."""
    folder = tmp_path_factory.mktemp("recipes")
    made = Store(str(folder / "store"))
    for name in ("worked", "worked-contended", "worked-late-input", "idle-causes"):
        make_run(made, name, [FIXTURES / name])
    for name, ranks, steps in (("training", 4, 5), ("mesh", 8, 2)):
        synth.write(name, folder / name, ranks=ranks, steps=steps)
        make_run(made, name, [folder / name])
    return made


@pytest.fixture(scope="module")
def session(store: Store) -> Iterator[Session]:
    with Session(store) as opened:
        yield opened


def values(name: str, **told: Any) -> dict[str, Any]:
    """Return the recipe's parameters: their defaults, but for what is told."""
    found = {}
    for parameter in RECIPES[name].parameters:
        ((default,),) = duckdb.execute(f"SELECT $1::{parameter.type}", [parameter.default]).fetchall()
        found[parameter.name] = told.pop(parameter.name, default)
    assert not told
    return found


def ask(store: Store, name: str, *runs: str, **told: Any) -> list[dict[str, Any]]:
    with Session(store, runs) as opened:
        answer = opened.sql(RECIPES[name].sql, values(name, **told))
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def only(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in rows]


def test_there_are_thirty_questions_or_more() -> None:
    assert len(RECIPES) >= 30
    assert len({r.question for r in RECIPES.values()}) == len(RECIPES)


@EVERY
def test_a_header_lists_the_columns_of_the_answer(name: str, session: Session) -> None:
    answer = session.sql(RECIPES[name].sql, values(name))
    assert [(c.name, c.type) for c in RECIPES[name].columns] == list(
        zip(answer.columns, map(str, answer.types), strict=True)
    )


@EVERY
def test_a_question_has_rows_or_says_when_there_are_none(name: str, session: Session) -> None:
    told = {"slowdown": 1.0} if name == "slow_links" else {}
    rows = session.sql(RECIPES[name].sql, values(name, **told)).fetchall()
    assert (not rows) == (name in EMPTY_HERE)
    assert rows or RECIPES[name].when_empty


@EVERY
def test_an_answer_is_bounded_and_in_one_order(name: str, session: Session) -> None:
    rows = session.sql(RECIPES[name].sql, values(name)).fetchall()
    assert session.sql(RECIPES[name].sql, values(name)).fetchall() == rows
    assert session.sql(RECIPES[name].sql, values(name, rows=1)).fetchall() == rows[:1]
    assert re.search(r"\nORDER BY [^\n]+\nLIMIT \$rows$", RECIPES[name].sql)


@EVERY
def test_a_question_reads_public_views_alone_and_every_parameter(name: str) -> None:
    recipe = RECIPES[name]
    (statement,) = duckdb.extract_statements(recipe.sql)
    assert recipe.reads <= set(public_views())
    assert statement.type == duckdb.StatementType.SELECT
    assert set(statement.named_parameters) == {p.name for p in recipe.parameters}
    assert all(c.meaning.endswith(".") for c in recipe.columns)
    assert all(p.meaning.endswith(".") for p in recipe.parameters)


@EVERY
def test_a_question_answers_for_one_run_as_among_others(name: str, store: Store, session: Session) -> None:
    """No row mixes runs: what is said of a run does not change with the others that are open."""
    if any(p.name == "baseline" for p in RECIPES[name].parameters):
        pytest.skip("it compares runs")
    among = session.sql(RECIPES[name].sql, values(name, rows=100_000)).fetchall()
    alone = ask(store, name, "training", rows=100_000)
    assert [row for row in among if row[0] == "training"] == [tuple(row.values()) for row in alone]


def test_a_step_of_the_worked_example_is_compute_and_the_tail_of_its_exchange(store: Store) -> None:
    rows = ask(store, "path_names", "worked", step=12)
    assert only(rows, "step", "kind", "name", "duration_ns") == [
        (12, "compute", BACKWARD, 400 * MS),
        (12, "compute", FORWARD, 200 * MS),
        (12, "compute", UPDATE, 100 * MS),
        (12, "comm", EXCHANGE, 50 * MS),
    ]
    assert [r["path_ratio"] for r in rows] == [400 / 750, 200 / 750, 100 / 750, 50 / 750]


def test_of_all_steps_path_kinds_say_the_same(store: Store) -> None:
    rows = ask(store, "path_kinds", "worked")
    assert only(rows, "kind", "duration_ns", "n_steps", "top_rank") == [
        ("compute", 2800 * MS, 4, 0),
        ("comm", 200 * MS, 4, 0),
    ]


def test_of_350_ms_of_exchange_50_are_exposed(store: Store) -> None:
    assert ask(store, "overlap", "worked")[0] == {
        **{"run": "worked", "rank": 0, "comm_ns": 1400 * MS, "overlapped_comm_ns": 1200 * MS},
        **{"exposed_comm_ns": 200 * MS, "hidden_ratio": 300 / 350, "exposed_ratio": 50 / 750},
    }
    (group,) = ask(store, "exposed_comm_by_group", "worked")
    assert (group["n_instances"], group["exposed_ns"], group["wait_ns"]) == (16, 400 * MS, 0)
    assert group["exposed_ratio"] == 50 / 750


def test_phases_share_the_step_as_worked_by_hand(store: Store) -> None:
    rows = ask(store, "phase_shares", "worked")
    assert only(rows, "phase", "gpu_ns", "device_ratio") == [
        ("backward", 3200 * MS, 400 / 750),
        ("forward", 1600 * MS, 200 / 750),
        ("optimizer", 800 * MS, 100 / 750),
        ("sync", 400 * MS, 50 / 750),
    ]


def test_the_ledger_says_what_was_not_the_model(store: Store) -> None:
    rows = ask(store, "ledger", "worked")
    assert only(rows, "part", "device_ns")[:2] == [("compute", 5600 * MS), ("transfer", 400 * MS)]
    assert sum(row["device_ns"] for row in rows) == 2 * 4 * 750 * MS


def test_step_times_of_equal_steps(store: Store) -> None:
    assert ask(store, "step_times", "worked-contended") == [
        {
            **{"run": "worked-contended", "n_steps": 4, "shortest_ns": 780 * MS, "median_ns": 780 * MS},
            **{"p95_ns": 780 * MS, "longest_ns": 780 * MS, "longest_step": 10, "spread_ratio": 0.0},
        }
    ]
    assert ask(store, "slow_steps", "worked-contended") == []


def test_a_late_batch_is_idle_input(store: Store) -> None:
    """Of 80 ms the loader has 79.9, the host 0.08 and the launch 0.02, on two ranks."""
    rows = ask(store, "idle_by_step", "worked-late-input")
    columns = ("step", "idle_ns", "input_ns", "host_ns", "launch_ns")
    assert only(rows, *columns) == [(step, 160 * MS, 159_800_000, 160_000, 40_000) for step in (10, 11, 12, 13)]
    assert only(ask(store, "idle_by_step", "worked-late-input", rank=1), "idle_ns") == [(80 * MS,)] * 4
    assert ask(store, "rank_waits", "worked-late-input")[1]["idle_input_ns"] == 4 * 79_900_000


def test_gaps_are_those_of_the_table_by_hand(store: Store) -> None:
    rows = ask(store, "device_gaps", "idle-causes")
    assert only(rows, "gap_ns", "start_ns", "after", "launch_late_ns") == [
        (10_010_000, START + 10_000_000, "Memcpy HtoD (Pinned -> Device)", 10_000_000),
        (6_010_000, START + 31_010_000, "after_sync", 6_000_000),
        (6_010_000, START + 59_030_000, "after_host", 6_000_000),
        (3_000_000, START + 75_040_000, "after_launch", 0),
        (2_010_000, START + 47_020_000, "after_malloc", 2_000_000),
        (2_000_000, START + 98_044_000, "after_other", None),
        (4_000, START + 88_040_000, "after_turnaround", 0),
    ]
    assert sum(row["gap_ns"] for row in rows) == 29_044_000


def test_the_host_was_in_the_loader_then_in_a_synchronise(store: Store) -> None:
    rows = ask(store, "host_before_gaps", "idle-causes", gaps=2)
    longest = {row["after"]: (row["category"], row["name"], row["inside_ns"]) for row in reversed(rows)}
    assert longest == {
        "Memcpy HtoD (Pinned -> Device)": (
            *("annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
            10_010_000,
        ),
        "after_sync": ("cpu_op", "aten::item", 6_000_000),
    }
    assert ("runtime", "cudaStreamSynchronize", 6_000_000) in only(rows, "category", "name", "inside_ns")


def test_two_runs_differ_by_30_ms_and_by_the_backward_kernel(store: Store) -> None:
    runs = ("worked-contended", "worked")
    (change,) = ask(store, "step_time_change", *runs, baseline="worked")
    assert change == {
        **{"run": "worked-contended", "baseline": "worked", "baseline_ns": 750 * MS, "value_ns": 780 * MS},
        **{"change_ns": 30 * MS, "change_ratio": 0.04, "noise_ns": 15_600_000, "verdict": "grew"},
    }
    (kernel,) = ask(store, "kernels_that_grew", *runs, baseline="worked")
    assert (kernel["kernel"], kernel["change_ns"]) == (BACKWARD, 80 * MS)
    changes = only(ask(store, "what_changed", *runs, baseline="worked"), "dimension", "item", "change_ns")
    assert ("time", "compute", 80 * MS) in changes
    assert ("time", "exposed comm", -50 * MS) in changes


def test_contention_is_80_ms_of_each_step_and_rank(store: Store) -> None:
    (kernel,) = ask(store, "contention", "worked-contended")
    assert (kernel["name"], kernel["contention_ns"]) == (BACKWARD, 2 * 4 * 80 * MS)
    assert only(ask(store, "contention", "worked"), "contention_ns") == [(0,)]


def test_bandwidth_of_two_ranks_is_bytes_over_time(store: Store) -> None:
    rows = ask(store, "bandwidth_by_size", "worked")
    columns = ("op", "n_ranks", "n_bytes", "n_instances", "transfer_ns", "busbw_bytes_per_s")
    assert only(rows, *columns) == [
        ("all_reduce", 2, 13_107_200, 4, 50 * MS, 262_144_000.0),
        ("all_reduce", 2, 26_214_400, 12, 100 * MS, 262_144_000.0),
    ]


def test_the_kernels_of_backward_take_most(store: Store) -> None:
    rows = ask(store, "top_kernels", "worked", kind="compute")
    assert only(rows, "name", "n_calls", "total_ns", "mean_ns")[:2] == [
        (BACKWARD, 64, 3200 * MS, 50 * MS),
        (FORWARD, 32, 1600 * MS, 50 * MS),
    ]


def test_the_slow_rank_of_a_made_training_comes_last_and_computes_longest(store: Store) -> None:
    """Its truth: rank 2 computes 10 % slower, and one batch of rank 3 is late in one step."""
    assert ask(store, "last_ranks", "training")[0]["rank"] == 2
    assert {row["rank"] for row in ask(store, "kernels_by_rank", "training")} == {2}
    assert all(1.09 < row["slower_ratio"] < 1.11 for row in ask(store, "kernels_by_rank", "training"))
    (first, *_) = ask(store, "stragglers", "training")
    assert (first["rank"], first["cause"], first["n_straggler"]) == (2, "compute", 4)
    assert only(ask(store, "slow_step_ranks", "training"), "rank", "cause", "is_straggler") == [(3, "input", True)]


def test_ranks_that_come_together_are_nobodys_last(store: Store) -> None:
    assert only(ask(store, "last_ranks", "worked"), "rank", "n_last", "waited_ns") == [(0, 0, 0), (1, 0, 0)]


def test_two_stages_of_two_microbatches_must_wait_a_third(store: Store) -> None:
    rows = ask(store, "pipeline_bubbles", "mesh")
    assert only(rows, "stage", "n_ranks", "schedule_ratio") == [(0, 4, 1 / 3), (1, 4, 1 / 3)]
    assert all(row["beyond_ratio"] == row["bubble_ratio"] - 1 / 3 for row in rows)


def test_the_step_of_the_late_batch_is_beyond_all_others(store: Store) -> None:
    (step,) = ask(store, "slow_steps", "training")
    assert (step["straggler_rank"], step["straggler_cause"], step["path_kind"]) == (3, "input", "input")


def test_what_is_missing_is_one_launch(store: Store) -> None:
    assert only(ask(store, "missing", "idle-causes"), "check", "expected", "found")[0] == (
        *("activities with their launch", 11),
        10,
    )
    assert only(ask(store, "doubtful_steps", "idle-causes"), "step", "n_ranks", "verdict") == [
        (10, 1, "1 launches missing")
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT 1 AS a", "the first line must be a question"),
        ("-- One row per x.\nSELECT 1 AS a", "the first line must be a question"),
        ("-- What?\n-- a is 1\nSELECT 1 AS a", "not a header line: -- a is 1"),
        ("-- What?\n-- a  BIGINT  A.\nSELECT 1 AS a;", "must hold one SELECT and no semicolon"),
    ],
)
def test_a_wrong_recipe_is_refused(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        parse_recipe("odd", text, duckdb.connect())


def _call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_lists_every_question(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _call(capsys, "recipes")
    assert code == 0
    assert [tuple(re.split(r"\s{2,}", line)) for line in out.splitlines()] == [
        (r.name, r.question) for r in RECIPES.values()
    ]


def test_the_command_answers_as_query_does(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--run", "worked-contended", "--store", store.url)
    assert _call(capsys, "recipes", "step_times", *asked, "--format", "csv")[:2] == (
        0,
        "run,n_steps,shortest_ns,median_ns,p95_ns,longest_ns,longest_step,spread_ratio\n"
        "worked-contended,4,780000000,780000000,780000000,780000000,10,0.0\n",
    )
    code, out, err = _call(capsys, "recipes", "idle_by_step", *asked, "--set", "rows=2", "--set", "rank=1")
    assert (code, len(out.splitlines())) == (0, 3)
    assert err == "(2 rows; --set rows=N shows more)\n"
    code, out, err = _call(capsys, "recipes", "doubtful_dumps", *asked, "--format", "json")
    assert (code, out, err) == (0, "[\n]\n", "No rows. There are none where every dump is whole.\n")


def test_a_recipe_can_be_read_and_changed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _call(capsys, "recipes", "step_times", "--sql")
    assert code == 0
    assert out.startswith("-- How long do steps take, and how much do they differ?\n")
    assert out.endswith("\nLIMIT $rows\n")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["step_time"], "Nearest: step_times, "),
        (["step_times", "--set", "step=3"], "Give NAME=VALUE of: rows (Rows at most)."),
        (["step_times", "--set", "rows"], "Give NAME=VALUE of: rows (Rows at most)."),
        (["step_times", "--set", "rows=many"], "--set rows=many is no BIGINT"),
        (["step_times", "--set", "rows=0"], "--set rows=0 shows nothing"),
        (["step_times", "--set", "rows=1; DROP TABLE x"], "is no BIGINT"),
    ],
)
def test_a_wrong_request_says_what_there_is(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _call(capsys, "recipes", *argv)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split("\n"))
