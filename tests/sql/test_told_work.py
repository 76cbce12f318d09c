"""What run.toml says of the work, beside what was recorded: rhythm of updates, sizes, peaks, and MFU of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pytest

from evaluation import Row, answer
from longpole import catalog
from longpole.config import parse

MOST_RANKS = 2**20
"""A job is not believed to be larger."""


def told(name: str, config: str, select: str = "*", **given: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return the rows of a relation where run.toml has this text, and what it reads has these rows, else none."""
    figures = parse(config, "run.toml").figures()
    listed = ", ".join(f"?::{kind} AS {figure}" for figure, kind, _ in figures)
    con = duckdb.default_connection()
    run_config = con.sql(f"SELECT {listed}", params=[value for _, _, value in figures]).to_arrow_table()
    hardware = [c for c in run_config.column_names if c.startswith("hardware_")]
    told_hardware = run_config.select(hardware).rename_columns([c.removeprefix("hardware_") for c in hardware])
    tables = {"run_config": run_config, "told_hardware": told_hardware, "dumps": ()}
    return answer(name, select, **{t: r for t, r in tables.items() if t in catalog.relations()[name].reads} | given)


BATCH = "[batch]\ntokens_per_step = 8\n"


def rhythm(config: str, steps: Sequence[int], updates: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Return per_update and its reasons, where one rank recorded these steps and optimizers ran so often in some."""
    return told(
        "_told_tokens",
        BATCH + config,
        "per_update, reasons",
        rank_steps=[{"rank": 0, "step": step} for step in steps],
        rank_updates=[{"rank": 0, "step": step, "n_updates": n} for step, n in updates.items()],
        _told_model=[{"seq_len": 4}],
        _told_peak=[{"n_devices": 2}],
    )


def often(n: int, of: int) -> str:
    return f"an optimizer ran in {n} of {of} profiler steps"


@pytest.mark.parametrize(
    ("steps", "updates", "per_update"),
    [
        (range(1, 5), (1, 2, 3, 4), 1),
        (range(1, 5), (2, 4), 2),
        (range(1, 5), (1, 3), 2),
        (range(1, 8), (3, 6), 3),
        (range(1, 7), (3, 6), 3),
        (range(2, 8), (2, 5), 3),  # before the first step and after the last there may be one: 3 away at least
        ((*range(1, 5), *range(11, 15)), (2, 4, 12, 14), 2),  # two captures: nothing is said of what lies between
    ],
)
def test_updates_in_every_kth_step_say_how_many_steps_make_one(
    steps: Sequence[int], updates: Sequence[int], per_update: int
) -> None:
    assert rhythm("", steps, dict.fromkeys(updates, 1)) == [(per_update, [])]


@pytest.mark.parametrize(
    ("steps", "updates"),
    [
        (range(1, 6), (1, 3)),  # the next one is in step 6 at the earliest: 3 after step 3
        (range(1, 6), (3, 5)),  # likewise the one before
        (range(1, 7), (1, 3, 6)),
        (range(1, 5), (1, 2, 4)),
        (range(1, 3), (2,)),  # one alone has no distance to another
    ],
)
def test_updates_in_no_rhythm_are_not_guessed(steps: Sequence[int], updates: Sequence[int]) -> None:
    found = f"{often(len(updates), len(steps))}, in no rhythm: write [steps] per_update"
    assert rhythm("", steps, dict.fromkeys(updates, 1)) == [(None, [found])]


def test_several_updates_in_each_step_are_not_guessed() -> None:
    found = "an optimizer ran 2 times in one profiler step: write [steps] per_update, 1 if that is one update"
    assert rhythm("", (1, 2), {1: 1, 2: 2}) == [(None, [found])]
    assert rhythm("", (1, 2), {1: 2, 2: 2}) == [(None, [found])]


@pytest.mark.parametrize(
    ("told_per_update", "steps", "updates", "is_so"),
    [
        (1, range(1, 5), (1, 2, 3, 4), True),
        (1, range(1, 5), (), True),
        (2, range(1, 5), (), True),
        (2, range(1, 5), (2, 4), True),
        (3, range(1, 5), (1, 4), True),
        (8, range(1, 5), (3,), True),
        (1, range(1, 5), (1, 3, 4), False),
        (3, range(1, 5), (1, 3), False),  # closer than told
        (2, range(1, 5), (1, 4), False),  # farther apart than told
        (2, range(1, 6), (1, 3), False),  # the next one must have been in step 5
        (2, range(1, 5), (3,), False),  # and the one before in step 1
    ],
)
def test_told_steps_of_an_update_hold_unless_the_updates_seen_contradict(
    told_per_update: int, steps: Sequence[int], updates: Sequence[int], is_so: bool
) -> None:
    config = f"[steps]\nper_update = {told_per_update}\n"
    contradicted = f"[steps] per_update is {told_per_update}, but {often(len(updates), len(steps))}"
    found = rhythm(config, steps, dict.fromkeys(updates, 1))
    assert found == [(told_per_update, []) if is_so else (None, [contradicted])]


def test_the_rank_that_recorded_most_updates_of_a_step_counts() -> None:
    ranks = [{"rank": rank, "step": step} for rank in (0, 1) for step in (1, 2)]
    seen: Row = {"rank_steps": ranks, "_told_model": [{"seq_len": 4}], "_told_peak": [{"n_devices": 2}]}
    one = [{"rank": 1, "step": step, "n_updates": 1} for step in (1, 2)]
    assert told("_told_tokens", BATCH, "per_update", **seen, rank_updates=one) == [(1,)]
    more = [*one, {"rank": 0, "step": 2, "n_updates": 2}]
    assert told("_told_tokens", BATCH, "per_update", **seen, rank_updates=more) == [(None,)]


@pytest.mark.parametrize(
    ("batch", "tokens", "reasons"),
    [
        ("accumulation = 2\n[parallel]\nmicrobatches = 2\n", 8, []),
        (
            "accumulation = 2\n[parallel]\nmicrobatches = 4\n",
            None,
            ["[batch] accumulation is 2, but [parallel] microbatches 4"],
        ),
    ],
)
def test_accumulation_and_microbatches_are_one_number(batch: str, tokens: int | None, reasons: list[str]) -> None:
    given: Row = {
        "rank_steps": [{"rank": 0, "step": 1}],
        "_told_model": [{"seq_len": 4}],
        "_told_peak": [{"n_devices": 2}],
    }
    found = told("_told_tokens", BATCH + batch + "[steps]\nper_update = 1\n", "update_tokens, reasons", **given)
    assert found == [(tokens, reasons)]


H100 = "NVIDIA H100 80GB HBM3"
V100 = "Tesla V100-SXM2-32GB"
BF16 = '[hardware]\ndtype = "bf16"\n'


def ranks(*names: str | None) -> list[Row]:
    return [{"rank": n, "device_name": name, "is_recorded": True} for n, name in enumerate(names)]


@pytest.mark.parametrize(
    ("config", "recorded", "device", "peak", "reasons"),
    [
        (BF16, (H100, H100), "H100 SXM", 989e12, []),
        (
            BF16,
            (H100, V100),
            None,
            None,
            [
                "ranks ran on different devices (NVIDIA H100 80GB HBM3, Tesla V100-SXM2-32GB):"
                " write [hardware] device, or peak_flops"
            ],
        ),
        (BF16 + "peak_flops = 5e12\n", (H100, V100), None, 5e12, []),
        (BF16 + 'device = "H100 SXM"\n', (H100, V100), "H100 SXM", 989e12, []),
        (BF16, (None, None), None, None, ["no dump names the device: write [hardware] device, or peak_flops"]),
        (BF16 + "peak_flops = 5e12\n", (None,), None, 5e12, []),
        (
            BF16,
            ("H100 SXM9",),
            "H100 SXM9",
            None,
            [
                "device H100 SXM9 is not one whose peak is known (nearest: H100 SXM):"
                " write [hardware] device, or peak_flops"
            ],
        ),
        (BF16 + "peak_flops = 5e12\n", ("H100 SXM9",), "H100 SXM9", 5e12, []),
        (
            "",
            (V100,),
            "V100 SXM2 32GB",
            None,
            ["run.toml lacks [hardware] dtype: of V100 SXM2 32GB are known fp16, fp32"],
        ),
        (
            BF16,
            (V100,),
            "V100 SXM2 32GB",
            None,
            ["no bf16 peak of V100 SXM2 32GB is known, only fp16, fp32: write [hardware] peak_flops"],
        ),
        (BF16 + "peak_flops = 5e12\n", (V100,), "V100 SXM2 32GB", 5e12, []),
    ],
)
def test_a_peak_is_that_of_the_one_device_of_the_run_or_as_told(
    config: str, recorded: Sequence[str | None], device: str | None, peak: float | None, reasons: list[str]
) -> None:
    found = told("_told_peak", config, "device, peak_flops, reasons", ranks=ranks(*recorded))
    assert found == [(device, peak, reasons)]


@pytest.mark.parametrize(
    ("mesh", "world_sizes", "n_devices", "reasons"),
    [
        ("", (None, None), 2, []),
        ("", (8, 8), 8, []),
        ("", (4, 8), 8, []),
        ("", (MOST_RANKS, None), MOST_RANKS, []),
        ("", (MOST_RANKS + 1, None), 2, []),
        ("", (MOST_RANKS + 1, 8), 8, []),
        ("dp = 2\ntp = 4\n", (8, 8), 8, []),
        ("dp = 2\ntp = 2\n", (8, 8), 8, ["[parallel] dp x tp x pp x cp is 4, the job has 8 ranks"]),
        ("dp = 2\ntp = 4\n", (None, None), 8, []),  # no dump says it, so run.toml does
        (f"dp = {MOST_RANKS}\n", (None, None), MOST_RANKS, []),
    ],
)
def test_a_job_has_the_devices_that_its_dumps_say_else_its_mesh_else_those_recorded(
    mesh: str, world_sizes: Sequence[int | None], n_devices: int, reasons: list[str]
) -> None:
    found = told(
        "_told_peak",
        f"{BF16}[parallel]\n{mesh}",
        "n_devices, reasons",
        ranks=ranks(H100, H100),
        dumps=[{"rank": rank, "world_size": size} for rank, size in enumerate(world_sizes)],
    )
    assert found == [(n_devices, reasons)]


ROWS_OF = "layers = 1\nheads = 2\nhead_dim = 3\nseq_len = 5\n"


@pytest.mark.parametrize(
    ("model", "token_flops", "reasons"),
    [
        (f"params = 100\nembedding_params = 40\n{ROWS_OF}", 6 * (100 - 40) + 6 * 1 * 2 * (3 + 3) * 5, []),
        (f"params = 100\ntied = true\n{ROWS_OF}", 6 * 100 + 6 * 1 * 2 * (3 + 3) * 5, []),
        (f"params = 100\n{ROWS_OF}", None, ["run.toml lacks [model] embedding_params"]),
        (f"embedding_params = 40\n{ROWS_OF}", None, ["run.toml lacks [model] params"]),
        (f"embedding_params = 40\nexperts = 1\n{ROWS_OF}", None, ["run.toml lacks [model] params"]),
        (
            f"params = 100\nembedding_params = 40\nexperts = 8\n{ROWS_OF}",
            None,
            ["run.toml lacks [model] active_params"],
        ),
        (
            f"params = 100\nembedding_params = 40\nexperts = 8\nactive_params = 60\n{ROWS_OF}",
            6 * (60 - 40) + 6 * 1 * 2 * (3 + 3) * 5,
            [],
        ),
        # A model that is known, of another size: of its experts those are not known that a token passes through.
        ('name = "Mixtral 8x7B"\nparams = 100\n', None, ["run.toml lacks [model] active_params"]),
        (
            'name = "Mixtral 8x8B"\n',
            None,
            [
                "model Mixtral 8x8B is not a published one known here (nearest: Mixtral 8x7B): run.toml lacks [model]"
                " params, embedding_params, layers, heads, head_dim, seq_len"
            ],
        ),
    ],
)
def test_flops_of_a_token_follow_from_the_sizes_told_or_what_lacks_is_named(
    model: str, token_flops: float | None, reasons: list[str]
) -> None:
    assert told("_told_model", f"[model]\n{model}", "token_flops, reasons") == [(token_flops, reasons)]


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ("no step markers", "no step markers: the recording is not one step"),
        ("no device: host threads are the lanes", "no device was recorded"),
    ],
)
def test_a_step_that_one_rank_recorded_as_none_of_a_device_has_no_mfu(verdict: str, reason: str) -> None:
    found = told(
        "_mfu_terms",
        BATCH,
        "step, reasons",
        steps=[{"step": step, "duration_ns": 10} for step in (1, 2)],
        rank_steps=[
            {"rank": rank, "step": step, "verdict": verdict if (rank, step) == (1, 2) else "ok"}
            for rank in (0, 1)
            for step in (1, 2)
        ],
        _told_model=[{"reasons": []}],
        _told_tokens=[{"reasons": []}],
        _told_peak=[{"reasons": []}],
    )
    assert found == [(1, []), (2, [reason])]


def test_mfu_of_a_step_by_hand() -> None:
    """Four devices could have done 1,000 FLOPs; two recorded ranks did 50 of theirs once more, so all did 100."""
    term = {
        "n_ranks": 2,
        "n_devices": 4,
        "available_flops": 1000,
        "model_flops": 400,
        "plain_flops": 300,
        "reasons": [],
    }
    select = "step, mfu_ratio, plain_mfu_ratio, hfu_ratio, reason"
    terms = [{**term, "step": 1, "recomputed_flops": 50}, {**term, "step": 2}]
    assert told("step_mfu", "", select, _mfu_terms=terms) == [(1, 0.4, 0.3, 0.5, None), (2, 0.4, 0.3, None, None)]


def test_a_step_at_its_peak_has_an_mfu_of_one() -> None:
    term = {
        "step": 1,
        "n_ranks": 1,
        "n_devices": 1,
        "duration_ns": 10,
        "tokens": 8,
        "peak_flops": 1e12,
        "available_flops": 1000,
        "model_flops": 1000,
        "plain_flops": 1000,
        "reasons": [],
    }
    select = "mfu_ratio, plain_mfu_ratio, reason[:21]"
    assert told("step_mfu", "", select, _mfu_terms=[term]) == [(1.0, 1.0, None)]
    more = {**term, "model_flops": 1010, "plain_flops": 1001}
    assert told("step_mfu", "", select, _mfu_terms=[more]) == [(None, None, "MFU would be 101 %: 8")]


def test_recomputed_flops_are_known_where_every_rank_has_shapes_for_nine_tenths() -> None:
    work = [
        (1, 10, 0.9),
        (1, 20, 1.0),
        (2, 10, 0.89),
        (2, 20, 1.0),
        (3, 10, None),
        (3, 20, 1.0),
        (4, None, 1.0),
        (4, 20, 1.0),
        (5, 0, 1.0),
        (5, 0, 1.0),
        (None, 1, 1.0),  # launched in no step
    ]
    found = told(
        "_recomputed",
        "",
        rank_work=[{"step": step, "recomputed_flops": flops, "shaped_ratio": share} for step, flops, share in work],
    )
    assert found == [(1, 30.0), (5, 0.0)]


IDLE = ("idle_input", "idle_sync", "idle_host", "idle_launch", "idle_turnaround", "idle_other")
WAITS = ("bubble", "wait", "transfer", "unsplit")


@pytest.mark.parametrize(
    ("model_flops", "recomputed", "parts"),
    [
        (50, {7: 20.0}, [("model", 50), ("recompute", 20), ("kernel_inefficiency", 10)]),
        (60, {7: 20.0}, [("model", 60), ("recompute", 20), ("kernel_inefficiency", 0)]),
        (61, {7: 20.0}, [("compute", 80)]),  # 1 ns longer at peak than the devices computed
        (80, {}, [("model", 80), ("recompute", 0), ("kernel_inefficiency", 0)]),
        (81, {}, [("compute", 80)]),
        (80, {6: 20.0, 8: 20.0}, [("model", 80), ("recompute", 0), ("kernel_inefficiency", 0)]),  # of other steps
    ],
)
def test_compute_is_split_where_flops_at_peak_take_no_longer_than_it(
    model_flops: int, recomputed: Mapping[int, float], parts: list[tuple[str, int]]
) -> None:
    """One rank whose step took 100 ns, 80 of them computing, on a device of 1 FLOP in a ns."""
    found = told(
        "step_ledger",
        "",
        "place, part, device_ns",
        steps=[{"step": 7, "duration_ns": 100}],
        rank_steps=[
            {"rank": 0, "step": 7, "duration_ns": 100, "compute_ns": 80, "exposed_copy_ns": 0, "idle_ns": 20}
            | {f"{cause}_ns": 20 if cause == "idle_host" else 0 for cause in IDLE}
        ],
        rank_step_waits=[{"rank": 0, "step": 7, **{f"{part}_ns": 0 for part in WAITS}}],
        step_mfu=[{"step": 7, "model_flops": model_flops, "n_devices": 1, "peak_flops": 1e9}],
        _recomputed=[{"step": step, "recomputed_flops": flops} for step, flops in recomputed.items()],
    )
    assert [row[1:] for row in found if row[0] <= 3] == parts
    assert [row[1:] for row in found if row[0] > 3 and row[2]] == [("idle_host", 20)]


@pytest.mark.parametrize(
    ("dtype", "peak", "peaks"),
    [
        (None, None, {"fp16": 125e12, "fp32": 15.7e12}),
        ("fp16", 100e12, {"fp16": 100e12, "fp32": 15.7e12}),
        ("fp16", 250e12, {"fp16": 125e12, "fp32": 15.7e12}),  # twice the table's is that with sparsity
        ("bf16", 100e12, {"bf16": 100e12, "fp16": 125e12, "fp32": 15.7e12}),
    ],
)
def test_a_told_peak_is_that_of_its_element_type_alone(
    dtype: str | None, peak: float | None, peaks: dict[str, float]
) -> None:
    hardware = f'[hardware]\ndevice = "{V100}"\n'
    hardware += f'dtype = "{dtype}"\n' if dtype else ""
    hardware += f"peak_flops = {peak}\n" if peak else ""
    found = told("_hardware", hardware)
    assert found == [("V100 SXM2 32GB", dtype, peaks[dtype], 9e11, 1.5e11) for dtype in sorted(peaks)]
