"""MFU of hand-made steps: the numbers, and why there is none."""

from __future__ import annotations

import duckdb
import pytest

from evaluation import connection, create_empty, dump_rows, evaluate, insert, rows
from longpole import catalog
from longpole.config import parse

H100 = "NVIDIA H100 80GB HBM3"
LLAMA = '[model]\nname = "llama3-8b"\n'
ONE_UPDATE = "[steps]\nper_update = 1\n"


def judged(
    config: str,
    *durations_ns: int,
    device: str | None = H100,
    n_ranks: int = 1,
    world: int | None = None,
    updates: dict[int, int] | None = None,
    verdict: str = "ok",
    **windows: int,
) -> duckdb.DuckDBPyConnection:
    """Return the mfu scope of a run whose steps 1, 2, … last so long; each rank computes all the time if not told."""
    con = connection()
    con.register("dump_table", dump_rows(*({"rank": r, "world_size": world or n_ranks} for r in range(n_ranks))))
    con.execute("CREATE TABLE dumps AS FROM dump_table")
    figures = parse(config, "run.toml").figures()
    listed = ", ".join(f"${n + 1}::{kind} AS {name}" for n, (name, kind, _) in enumerate(figures))
    con.execute(f"CREATE TABLE run_config AS SELECT {listed}", [value for _, _, value in figures])
    given = ["rank_updates", "rank_work", "rank_steps", "rank_step_waits", "steps", "ranks"]
    for name in given:
        create_empty(con, name)
    job = range(world or n_ranks)
    con.executemany(
        "INSERT INTO ranks BY NAME SELECT $1::INTEGER AS rank, $2::VARCHAR AS device_name, $3::BOOLEAN AS is_recorded",
        [[r, device if r < n_ranks else None, r < n_ranks] for r in job],
    )
    for step, duration in enumerate(durations_ns, 1):
        insert(con, "steps", capture=0, step=step, duration_ns=duration, n_ranks=n_ranks, verdict=verdict)
        for rank in range(n_ranks):
            parts = {c.name: 0 for c in catalog.relations()["rank_steps"].columns if c.name.endswith("_ns")}
            parts |= {"duration_ns": duration, "compute_ns": duration} | windows
            insert(con, "rank_steps", **{**parts, "rank": rank, "capture": 0, "step": step, "verdict": verdict})
            zero = dict.fromkeys(("bubble_ns", "wait_ns", "transfer_ns"), 0)
            insert(con, "rank_step_waits", rank=rank, step=step, **zero, unsplit_ns=parts["exposed_comm_ns"])
    for step, n in (updates or {}).items():
        insert(con, "rank_updates", rank=0, step=step, n_updates=n)
    evaluate(con, "mfu", [*given, "dumps", "run_config"])
    return con


def reason(con: duckdb.DuckDBPyConnection) -> str:
    found = rows(con, "SELECT mfu_ratio, reason FROM step_mfu ORDER BY step LIMIT 1")
    assert found[0][0] is None
    return str(found[0][1])


@pytest.mark.parametrize(
    ("tokens", "duration_ns", "tokens_per_s", "scored_per_s"),
    [(8, 4_000_000, 2000, 500), (6, 3_000_000, 2000, 667)],
)
def test_processed_positions_and_scored_targets_are_two_throughputs(
    tokens: int, duration_ns: int, tokens_per_s: int, scored_per_s: int
) -> None:
    batch = f"[batch]\ntokens_per_step = {tokens}\nscored_targets_per_step = 2\n"
    con = judged(batch + ONE_UPDATE, duration_ns, device=None)

    found = rows(con, "SELECT tokens, scored_tokens, round(tokens_per_s), round(scored_per_s) FROM step_mfu")
    assert found == [(tokens, 2, tokens_per_s, scored_per_s)]
    assert rows(con, "SELECT mfu_ratio FROM step_mfu") == [(None,)]


@pytest.mark.parametrize(("tokens", "mfu"), [(5762, 0.3374), (6667, 0.3904)])
def test_torchtitan_s_convention(tokens: int, mfu: float) -> None:
    con = judged(LLAMA + f'[batch]\ntokens_per_step = {tokens}\n[hardware]\ndtype = "bf16"\n' + ONE_UPDATE, 10**9)

    assert rows(con, "SELECT token_flops FROM _told_model") == [(57_914_449_920.0,)]
    assert rows(con, "SELECT round(mfu_ratio, 4), reason FROM step_mfu") == [(mfu, None)]
    assert rows(con, "SELECT convention FROM step_mfu") == [
        (
            "6 x (8030261248 parameters - 525336576 of the embedding) + 6 x 32 layers x 32 heads x 256 x 8192"
            " positions, attention not halved",
        )
    ]


def test_plain_6_n_stands_beside_the_convention() -> None:
    con = judged(LLAMA + '[batch]\ntokens_per_step = 5762\n[hardware]\ndtype = "bf16"\n' + ONE_UPDATE, 10**9)
    assert rows(con, "SELECT round(plain_mfu_ratio, 4) FROM step_mfu") == [(0.2807,)]


def test_a_tied_embedding_stays_in_the_count() -> None:
    model = "[model]\nparams = 100\nembedding_params = 40\nlayers = 1\nheads = 2\nhead_dim = 3\nseq_len = 5\n"
    assert rows(judged(model), "SELECT token_flops FROM _told_model") == [(6 * 60 + 6 * 1 * 2 * 6 * 5,)]
    assert rows(judged(model + "tied = true\n"), "SELECT token_flops FROM _told_model") == [(600 + 360,)]
    assert rows(judged(model + "d_qk = 4\nd_v = 1\n"), "SELECT token_flops FROM _told_model") == [(360 + 300,)]


def test_of_experts_those_that_a_token_passes_through_count() -> None:
    con = judged('[model]\nname = "Mixtral 8x7B"\nseq_len = 4096\n')
    expected = 6 * (12_879_925_248 - 131_072_000) + 12 * 32 * 32 * 128 * 4096
    assert rows(con, "SELECT token_flops FROM _told_model") == [(float(expected),)]


def test_accumulation_and_data_parallelism_multiply_the_batch() -> None:
    batch = "[model]\nseq_len = 2048\n[batch]\nsequences_per_microbatch = 2\naccumulation = 8\n[parallel]\ndp = 4\n"
    con = judged(batch + ONE_UPDATE, 10**9, n_ranks=4)
    assert rows(con, "SELECT tokens FROM step_mfu") == [(131_072,)]
    con = judged(batch + "[steps]\nper_update = 8\n", 10**9, n_ranks=4)
    assert rows(con, "SELECT tokens, updates FROM step_mfu") == [(16_384, 0.125)]


def test_a_batch_without_its_accumulation_is_no_batch() -> None:
    con = judged("[model]\nseq_len = 2048\n[batch]\nsequences_per_microbatch = 2\n" + ONE_UPDATE, 10**9, n_ranks=4)
    assert rows(con, "SELECT tokens FROM step_mfu") == [(None,)]
    assert (
        "lacks [batch] accumulation (1 without), [parallel] dp: sequences_per_microbatch alone is no batch"
        in reason(con)
    )


def test_two_batches_that_differ_are_none() -> None:
    batch = "tokens_per_step = 524288\nsequences_per_microbatch = 2\naccumulation = 8\n"
    con = judged(f"[model]\nseq_len = 2048\n[batch]\n{batch}[parallel]\ndp = 4\n" + ONE_UPDATE, 10**9, n_ranks=4)
    assert "tokens_per_step is 524288, but 2 sequences x 8 microbatches x 4 dp x 2048 positions are 131072" in reason(
        con
    )


WHOLE = LLAMA + "[batch]\ntokens_per_step = 5762\n"
BF16 = '[hardware]\ndtype = "bf16"\n'


def test_without_a_config_the_reason_says_what_to_write() -> None:
    assert reason(judged("", 10**9)) == (
        "no run.toml says what was trained: write [model] name or sizes, [batch] tokens_per_step, [hardware] dtype and"
        " [steps] per_update"
    )


@pytest.mark.parametrize(
    ("config", "device", "words"),
    [
        (
            WHOLE + BF16,
            "NVIDIA A100-PG509-200",
            "device NVIDIA A100-PG509-200 is not one whose peak is known (nearest: A100 ",
        ),
        (WHOLE + BF16, None, "no dump names the device: write [hardware] device, or peak_flops"),
        (WHOLE + BF16, "Tesla V100-SXM2-32GB", "no bf16 peak of V100 SXM2 32GB is known, only fp16, fp32"),
        (WHOLE, H100, "run.toml lacks [hardware] dtype: of H100 SXM are known bf16, fp16, fp8, tf32, fp32"),
        (
            WHOLE + BF16 + "peak_flops = 1979e12\n",
            H100,
            "peak_flops is the peak with sparsity: without, H100 SXM has 9.89e+14 in bf16",
        ),
        ("[batch]\ntokens_per_step = 1\n" + BF16, H100, "lacks [model] params, embedding_params, layers, heads"),
        (
            '[model]\nname = "llama-3-9b"\n[batch]\ntokens_per_step = 1\n' + BF16,
            H100,
            "model llama-3-9b is not a published one known here (nearest: Llama 3 8B)",
        ),
        ("[model]\nname = \"Llama 3 8B\"\n" + BF16, H100, "run.toml lacks [batch] tokens_per_step"),
        (WHOLE + BF16 + "[parallel]\ndp = 4\ntp = 2\n", H100, "dp x tp x pp x cp is 8, the job has 1 ranks"),
    ],
)  # fmt: skip
def test_what_is_not_known_gives_no_mfu_and_the_reason(config: str, device: str | None, words: str) -> None:
    con = judged(config + ONE_UPDATE, 10**9, device=device)
    assert words in reason(con)
    assert rows(con, "SELECT part FROM step_ledger WHERE place <= 3") == [("compute",)]


@pytest.mark.parametrize(
    ("per_update", "updates", "words"),
    [
        (1, {1: 1, 3: 1}, "per_update is 1, but an optimizer ran in 2 of 4 profiler steps"),
        (8, {1: 1, 2: 1, 3: 1, 4: 1}, "per_update is 8, but an optimizer ran in 4 of 4 profiler steps"),
        (2, {1: 1, 4: 1}, "per_update is 2, but an optimizer ran in 2 of 4 profiler steps"),
        (None, {}, "the dumps name no Optimizer.step#: write [steps] per_update"),
        (None, {1: 1, 2: 1, 4: 1}, "an optimizer ran in 3 of 4 profiler steps, in no rhythm"),
        (None, {1: 2, 2: 2, 3: 2, 4: 2}, "an optimizer ran 2 times in one profiler step"),
    ],
)
def test_updates_that_disagree_or_are_not_known_give_no_mfu(
    per_update: int | None, updates: dict[int, int], words: str
) -> None:
    told = f"[steps]\nper_update = {per_update}\n" if per_update else ""
    assert words in reason(judged(WHOLE + BF16 + told, *[10**9] * 4, updates=updates))


@pytest.mark.parametrize(
    ("per_update", "updates", "tokens"),
    [
        (None, {1: 1, 2: 1, 3: 1, 4: 1}, 5762),
        (None, {2: 1, 4: 1}, 2881),
        (2, {2: 1, 4: 1}, 2881),
        (1, {1: 2, 2: 2, 3: 2, 4: 2}, 5762),
        (2, {}, 2881),
    ],
)
def test_a_profiler_step_is_the_part_of_an_update_that_it_is(
    per_update: int | None, updates: dict[int, int], tokens: int
) -> None:
    told = f"[steps]\nper_update = {per_update}\n" if per_update else ""
    con = judged(WHOLE + BF16 + told, *[10**9] * 4, updates=updates)
    assert rows(con, "SELECT DISTINCT tokens, reason FROM step_mfu") == [(tokens, None)]


def test_an_mfu_above_one_is_refused_with_the_likely_mistakes() -> None:
    con = judged(LLAMA + "[batch]\ntokens_per_step = 46096\n" + BF16 + ONE_UPDATE, 10**9, 10**9, 10**10)
    assert rows(con, "SELECT mfu_ratio IS NULL, step FROM step_mfu ORDER BY step") == [
        (True, 1),
        (True, 2),
        (False, 3),  # a longer step, and all together, are below the peak
    ]
    assert reason(con).startswith("MFU would be 270 %: 46096 tokens in 1000.000 ms on 1 devices of 9.89e+14 FLOP/s")
    for mistake in ("each token once", "per_update", "dtype and peak_flops", "active_params", "ranks are missing"):
        assert mistake in reason(con)
    con = judged(LLAMA + "[batch]\ntokens_per_step = 46096\n" + BF16 + ONE_UPDATE, 10**9, 10**9)
    assert rows(con, "SELECT mfu_ratio, reason[:20] FROM run_mfu") == [(None, "MFU would be 270 %: ")]


@pytest.mark.parametrize("verdict", ["no step markers", "no device: host threads are the lanes"])
def test_what_is_no_step_of_a_device_has_no_mfu(verdict: str) -> None:
    assert reason(judged(WHOLE + BF16 + ONE_UPDATE, 10**9, verdict=verdict))


def test_the_job_s_devices_count_and_not_only_those_recorded() -> None:
    con = judged(WHOLE + BF16 + ONE_UPDATE, 10**9, n_ranks=1, world=8)
    assert rows(con, "SELECT n_devices, round(mfu_ratio, 4) FROM step_mfu") == [(8, 0.0422)]


def test_a_ledger_by_hand() -> None:
    """Two ranks, 1 s: of the compute 0.6 s each, the model's FLOPs at peak are 0.3374 s each."""
    con = judged(
        LLAMA + "[batch]\ntokens_per_step = 11524\n" + BF16 + ONE_UPDATE,
        10**9,
        n_ranks=2,
        duration_ns=990_000_000,
        compute_ns=600_000_000,
        exposed_comm_ns=200_000_000,
        exposed_copy_ns=50_000_000,
        idle_ns=140_000_000,
        idle_host_ns=100_000_000,
        idle_launch_ns=40_000_000,
    )
    parts = rows(con, "SELECT part, device_ns FROM step_ledger WHERE device_ns <> 0 ORDER BY place")
    model = 674_829_243  # 11,524 x 57,914,449,920 / 989e12 s, in whole ns
    assert parts == [
        ("model", model),
        ("kernel_inefficiency", 1_200_000_000 - model),
        ("unsplit_comm", 400_000_000),
        ("copies", 100_000_000),
        ("idle_host", 200_000_000),
        ("idle_launch", 80_000_000),
        ("skew", 20_000_000),
    ]
    assert sum(ns for _, ns in parts) == 2 * 10**9
    assert rows(con, "SELECT round(sum(share_ratio), 9) FROM step_ledger") == [(1.0,)]
    assert rows(con, "SELECT reason FROM step_ledger WHERE part = 'recompute'") == [
        ("recomputed FLOPs are not known: what there is lies in kernel_inefficiency",)
    ]


def test_flops_that_exceed_the_time_computing_are_not_split() -> None:
    con = judged(
        WHOLE + BF16 + ONE_UPDATE, 10**9, compute_ns=300_000_000, idle_ns=700_000_000, idle_host_ns=700_000_000
    )
    assert rows(con, "SELECT part, device_ns, reason[:28] FROM step_ledger WHERE place <= 3") == [
        ("compute", 300_000_000, "the FLOPs counted would take")
    ]
    assert rows(con, "SELECT sum(device_ns) FROM step_ledger") == [(10**9,)]


@pytest.mark.parametrize(
    ("durations", "trend"),
    [
        ((10, 10, 10, 10, 10, 10), "steady"),
        ((10, 10, 10, 10, 12, 12), "falling"),
        ((12, 12, 10, 10, 10, 10), "rising"),
        ((10, 90, 10, 10, 10, 10, 10, 10, 10), "steady"),  # one slow step is no trend
        ((10, 10, 10, 12, 12), "too few steps"),
    ],
)
def test_a_trend_is_the_last_third_against_the_first(durations: tuple[int, ...], trend: str) -> None:
    con = judged(WHOLE + BF16 + ONE_UPDATE, *(d * 10**8 for d in durations))
    assert rows(con, "SELECT trend FROM run_mfu") == [(trend,)]


def test_the_thirds_of_a_run_are_compared_from_six_steps_on() -> None:
    ratios = "SELECT round(first_third_ratio / mfu_ratio, 4), round(last_third_ratio / mfu_ratio, 4) FROM run_mfu"
    con = judged(WHOLE + BF16 + ONE_UPDATE, *(d * 10**8 for d in (10, 10, 20, 20, 40, 40)))
    # All of it takes 140 for what a step of the first third does in 10: 6 steps' work by 140.
    assert rows(con, ratios) == [(round(140 / 60, 4), round(140 / 240, 4))]
    con = judged(WHOLE + BF16 + ONE_UPDATE, *(d * 10**8 for d in (10, 10, 20, 20, 40)))
    assert rows(con, ratios) == [(None, None)]
    assert rows(con, "SELECT trend FROM run_mfu") == [("too few steps",)]


def test_a_run_s_mfu_is_all_its_flops_over_all_its_time() -> None:
    con = judged(WHOLE + BF16 + ONE_UPDATE, 10**9, 3 * 10**9)
    assert rows(con, "SELECT n_steps, tokens, tokens_per_s, round(mfu_ratio, 4), hfu_ratio FROM run_mfu") == [
        (2, 11_524, 2881.0, 0.1687, None)
    ]


def test_the_largest_figures_that_run_toml_takes_are_refused_and_not_an_overflow() -> None:
    most = 2**63 - 1
    sizes = "".join(f"{key} = {most}\n" for key in ("params", "layers", "heads", "head_dim", "seq_len"))
    model = f"[model]\n{sizes}embedding_params = 1\n"
    batch = f"[batch]\nsequences_per_microbatch = {most}\naccumulation = {most}\n[parallel]\ndp = 1048576\n"
    con = judged(model + batch + BF16 + ONE_UPDATE, 10**9, 10**9)
    assert "[parallel] dp x tp x pp x cp is" in reason(con)
    con = judged(model + f"[batch]\ntokens_per_step = {most}\n" + BF16 + ONE_UPDATE, 10**9, 10**9)
    assert reason(con).startswith("MFU would be")
    assert rows(con, "SELECT part FROM step_ledger WHERE step = 1 AND place <= 3") == [("compute",)]
