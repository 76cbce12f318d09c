"""MFU and its ledger of other people's runs, given what their dumps and their code say of the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

NANOGPT = """
[model]  # products of matrices as the dump's shapes have them: 11 x 2 x 768 x 3,072 + 10 x 4 x 768 x 768 + 50,304 x 768
params = 152764416
embedding_params = 38633472
layers = 10
heads = 6
head_dim = 128
seq_len = 2048
[batch]  # 16,384 rows in every product, on each of 8 ranks
tokens_per_step = 131072
[hardware]
dtype = "bf16"
"""

ANY = """
[model]
params = 1000000
embedding_params = 1000
layers = 1
heads = 1
head_dim = 64
seq_len = 128
[batch]
tokens_per_step = 1024
[hardware]
dtype = "fp16"
[steps]
per_update = 1
"""

KERNEL_SETS = ("nanogpt-8x-h100", "torchrec-4x-v100", "megatron-tp8-a100", "dlrm-8x-v100", "rccl_mi300_rank0_of_8")


@pytest.fixture(scope="module")
def rated(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over the kernel sets, each with a config."""
    store = Store(str(tmp_path_factory.mktemp("rated") / "store"))
    for name in KERNEL_SETS:
        dumps = traces / name if (traces / name).is_dir() else traces / "single" / f"{name}.json.gz"
        make_run(store, name, [dumps], config=NANOGPT if name.startswith("nanogpt") else ANY)
    with Session(store) as session:
        yield session


@pytest.mark.parametrize("run", KERNEL_SETS)
def test_the_ledger_adds_up_to_one_and_to_the_nanosecond(rated: Session, run: str) -> None:
    found = rated.sql(
        "SELECT sum(l.share_ratio), sum(l.device_ns) - any_value(s.n_ranks * s.duration_ns), count(*),"
        " min(l.device_ns) FILTER (part <> 'skew')"
        " FROM step_ledger AS l JOIN steps AS s USING (run, step) WHERE run = $run GROUP BY step",
        {"run": run},
    ).fetchall()
    assert found
    for share, difference, n_parts, least in found:
        assert abs(share - 1) < 1e-9
        assert (difference, n_parts) == (0, 15)  # 15: with the model's part, so given a config
        assert least >= 0


def test_nanogpt_s_mfu_is_that_of_its_matrix_shapes(rated: Session) -> None:
    # 6 x 114,130,944 + 6 x 10 x 6 x 256 x 2,048 = 873,529,344 FLOPs a token, x 131,072 tokens, over 8 x 989e12 x T.
    found = rated.sql(
        "SELECT step, tokens, model_flops, round(mfu_ratio, 4), updates FROM step_mfu"
        " WHERE run = 'nanogpt-8x-h100' ORDER BY step"
    ).fetchall()
    assert found == [
        (10, 131072, 114495238176768.0, 0.3985, 1.0),
        (11, 131072, 114495238176768.0, 0.3008, 1.0),
        (12, 131072, 114495238176768.0, 0.3381, 1.0),
        (13, 131072, 114495238176768.0, 0.3518, 1.0),
    ]


def test_nanogpt_s_step_11_lost_most_to_waiting_for_rank_1(rated: Session) -> None:
    parts = dict(
        rated.sql(
            "SELECT part, round(share_ratio, 3) FROM step_ledger WHERE run = 'nanogpt-8x-h100' AND step = 11"
        ).fetchall()
    )
    assert parts["model"] == 0.301
    assert parts["kernel_inefficiency"] == 0.317
    assert parts["wait"] == 0.216
    assert parts["transfer"] == 0.073


def test_of_one_rank_of_eight_waits_are_not_told_from_transfers(rated: Session) -> None:
    found = rated.sql(
        "SELECT part, device_ns FROM step_ledger WHERE run = 'rccl_mi300_rank0_of_8' AND step = 16 AND device_ns > 0"
        " AND part NOT IN ('model', 'kernel_inefficiency') ORDER BY place"
    ).fetchall()
    assert found == [
        ("recompute", 25_938),  # 33,910,947,840 FLOPs at 1,307.4e12 a second
        ("unsplit_comm", 11_955_460),
        ("copies", 590_354),
        ("idle_launch", 77_766),
        ("idle_turnaround", 4_532),
    ]


def test_without_a_config_no_real_run_has_an_mfu(real: Session) -> None:
    found = real.sql("SELECT count(*), count(mfu_ratio), count(reason) FROM step_mfu").fetchall()[0]
    assert found[0] > 0
    assert found == (found[0], 0, found[0])
