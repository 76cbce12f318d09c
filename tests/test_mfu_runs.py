"""What run.toml says of the model makes MFU anew, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

WORKED = Path(__file__).parents[1] / "fixtures" / "worked"

CONFIG = """
[model]
name = "llama3-8b"
[batch]
tokens_per_step = {tokens}
[hardware]
device = "H100 SXM"
dtype = "bf16"
[steps]
per_update = 1
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def test_only_the_marts_of_mfu_follow_a_changed_model(store: Store) -> None:
    dumps = sorted(WORKED.glob("*.json.gz"))
    hardware = '[hardware]\ndevice = "H100 SXM"\ndtype = "bf16"\n'
    before = set(make_run(store, "r", dumps, config=hardware).files)
    told = set(make_run(store, "r", dumps, config=CONFIG.format(tokens=8192)).files)
    again = set(make_run(store, "r", dumps, config=CONFIG.format(tokens=4096)).files)

    assert {f.table for f in told - before} == {"step_mfu", "step_ledger", "run_mfu", "run_goodput", "run_measures"}
    assert {f.table for f in again - told} == {"step_mfu", "step_ledger", "run_mfu", "run_goodput", "run_measures"}


def test_the_model_of_run_toml_reaches_the_views(store: Store) -> None:
    make_run(store, "r", sorted(WORKED.glob("*.json.gz")), config=CONFIG.format(tokens=8192))
    with Session(store) as session:
        step = session.sql(
            "SELECT duration_ns, tokens, mfu_ratio, reason FROM step_mfu ORDER BY step LIMIT 1"
        ).fetchall()
        parts = session.sql("SELECT DISTINCT sum(share_ratio) FROM step_ledger GROUP BY run, step").fetchall()
    # 8,192 x 57,914,449,920 FLOPs on 2 devices of 989e12 in 0.75 s
    assert step == [(750_000_000, 8192, pytest.approx(0.31980, abs=1e-5), None)]
    assert all(share == pytest.approx(1, abs=1e-9) for (share,) in parts)


def test_a_config_in_gates_or_phases_alone_makes_nothing_anew(store: Store) -> None:
    dumps = sorted(WORKED.glob("*.json.gz"))
    before = set(make_run(store, "r", dumps).files)
    assert set(make_run(store, "r", dumps, config="[gates]\nmfu_ratio = 0.3\n").files) == before
