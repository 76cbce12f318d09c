"""Post-mortems of other people's runs: each renders, its path is the step, and it names what the answers name."""

from __future__ import annotations

import pytest

from longpole.report import postmortem_page
from longpole.report.postmortem import build
from longpole.session import Session

PAGE_BYTES = 5_000_000


@pytest.mark.parametrize(
    ("run", "steps", "lengths"),
    [
        ("nanogpt-8x-h100", [11, 13], [48_101_889, 41_138_704]),
        ("torchrec-4x-v100", [5, 6], [1_161_955_000, 1_064_450_000]),
        ("megatron-tp8-a100", [3], [603_196_000]),
        ("dlrm-8x-v100", [10], [13_210_000]),
    ],
)
def test_the_longest_and_a_median_step_render_and_their_paths_are_the_steps(
    real: Session, run: str, steps: list[int], lengths: list[int]
) -> None:
    data = build(real.con, run)
    html = postmortem_page.render(data, tool_version="1")

    assert [step.step.step for step in data.steps] == steps
    assert [(step.path["end_ns"] - step.path["offset_ns"]).sum() for step in data.steps] == lengths
    assert [step.bars["rank"].n_unique() for step in data.steps] == [data.run.n_ranks] * len(steps)
    assert len(html.encode()) < PAGE_BYTES
    assert postmortem_page.ends_sentence(data).startswith("No rank stopped early")


@pytest.mark.parametrize("run", ["gloo-4x-cpu", "rccl_mi300_rank0_of_8", "cuda_graphs_rank0_of_16", "simple_add"])
def test_runs_without_devices_peers_or_markers_render(real: Session, run: str) -> None:
    data = build(real.con, run)
    html = postmortem_page.render(data, tool_version="1")

    assert all(step.bars.height > 0 for step in data.steps)
    assert len(html.encode()) < PAGE_BYTES


def test_torchrec_stalls_on_rank_2_in_the_sparse_arch_and_step_5_frees_memory(real: Session) -> None:
    (step,) = build(real.con, "torchrec-4x-v100", (5, 5)).steps

    longest = step.stalls[0]
    assert (longest.rank, longest.name, longest.duration_ns) == (2, "# running sparse arch", 1_001_279_000)
    assert (longest.next_kind, longest.next_name) == ("host", "_AlltoAllSingle")
    assert [row["name"] for row in longest.around if row["place"] == "around"][-1] == "# running sparse arch"
    assert {stall.name for stall in step.stalls[1:]} == {"cudaFree"}
    assert [(row["rank"], row["excess"]) for row in step.ranks.to_dicts() if row["is_straggler"]] == [(2, "host")]
    assert set(step.collectives["last_rank"]) == {2}
    # every rank frees memory in step 5 and not in step 6: about 94 ms more in blocking calls
    assert set(step.changes["grown"]) == {"sync"}
    assert min(step.changes["grown_ns"].to_list()) > 89_000_000
    assert step.step.beyond_ns == 97_505_000


def test_nanogpt_waits_for_rank_1_in_step_11(real: Session) -> None:
    (step,) = build(real.con, "nanogpt-8x-h100", (11, 11)).steps

    assert [row["rank"] for row in step.ranks.to_dicts() if row["is_straggler"]] == [1]
    excess = {row["rank"]: (row["excess"], row["excess_ns"]) for row in step.ranks.to_dicts()}
    assert excess[1] == ("host", 11_404_536)
    assert {stall.rank for stall in step.stalls} == {1}
