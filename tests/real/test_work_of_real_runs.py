"""FLOPs, bytes and clocks of other people's runs, against what their models' sizes say by hand."""

from __future__ import annotations

from typing import Any

from longpole.session import Session


def ask(session: Session, text: str) -> list[tuple[Any, ...]]:
    return session.sql(text).fetchall()


def test_products_of_a_megatron_layer_add_up_to_its_sizes(real: Session) -> None:
    """40 layers of hidden 4,096 and FFN 16,384 over 8 ranks, 4 x 2,048 tokens, forward only.

    A layer: 2 x 8,192 x (4,096 x 1,536 + 512 x 4,096 + 2 x 4,096 x 2,048) = 412,316,860,416, and its attention
    2 x 2 x 32 x 2,048^2 x 64 = 34,359,738,368; the output layer 2 x 8,192 x 4,096 x 6,400 = 429,496,729,600.
    """
    found = ask(real, "SELECT DISTINCT flops, recomputed_flops FROM rank_work WHERE run = 'megatron-tp8-a100'")
    assert found == [(40 * 446_676_598_784 + 429_496_729_600, 0)]


def test_a_resnet_whose_blocks_are_checkpointed_recomputes_all_but_its_stem(real: Session) -> None:
    """ResNet-18, batch 10: forward convolutions 36,271,226,880 FLOPs, of which the stem 2,360,279,040.

    Backward costs twice forward, but the stem's input needs no gradient; its fully connected layer 2 x 10 x 512 x 1,000
    three times.
    """
    forward, stem, head = 36_271_226_880, 2_360_279_040, 10_240_000
    found = ask(
        real,
        "SELECT step, flops, recomputed_flops FROM rank_work WHERE run = 'rccl_mi300_rank0_of_8' AND step IS NOT NULL"
        " ORDER BY step",
    )
    flops = 3 * forward - stem + (forward - stem) + 3 * head
    assert found == [(step, flops, forward - stem) for step in (15, 16, 17)]


def test_products_of_nanogpt_are_those_of_its_model_and_a_little_for_its_optimizer(real: Session) -> None:
    """6 FLOPs for each of 16,384 tokens of a rank and each of 114,130,944 weights in products: 11,219,528,318,976."""
    found = ask(
        real,
        "SELECT step, count(*), min(flops) // 11219528318, max(flops) // 11219528318 FROM kernel_clocks"
        " WHERE run = 'nanogpt-8x-h100' AND kernel_class = 'gemm' AND step IS NOT NULL GROUP BY step ORDER BY step",
    )
    assert found == [(step, 8, 1_006, 1_006) for step in (10, 11, 12, 13)]


def test_nothing_real_is_faster_than_its_device(real: Session) -> None:
    """Large products of A100 and H100 reach two thirds to four fifths of what the roofline allows."""
    assert ask(real, "SELECT run FROM kernel_clocks WHERE contains(reason, 'faster')") == []
    share = {
        run: (low, high)
        for run, low, high in ask(
            real,
            "SELECT run, round(min(flops_per_s / bound_flops_per_s), 2), round(max(flops_per_s / bound_flops_per_s), 2)"
            " FROM kernel_clocks WHERE kernel_class = 'gemm' AND run IN ('nanogpt-8x-h100', 'megatron-tp8-a100')"
            " AND flops IS NOT NULL AND step IS NOT NULL GROUP BY run",
        )
    }
    assert set(share) == {"nanogpt-8x-h100", "megatron-tp8-a100"}
    assert all(0.6 < low <= high < 0.9 for low, high in share.values())


def test_a_run_without_shapes_says_so_and_keeps_its_launches(real: Session) -> None:
    found = ask(
        real,
        "SELECT DISTINCT flops, compute_ns, clock, contains(reason, '0 % of compute time has shapes'), overhead_ns > 0"
        " FROM step_clocks JOIN rank_work USING (run, rank, step) WHERE run = 'torchrec-4x-v100'",
    )
    assert found == [(None, None, None, True, True)]


def test_small_kernels_of_an_mi300_run_by_the_clock_of_launches(real: Session) -> None:
    """895 launches of 3.2 µs are 2.9 ms, beside 0.1 ms of FLOPs and 0.2 ms of bytes; the step took 19 ms."""
    found = ask(
        real,
        "SELECT DISTINCT n_launches, clock, overhead_ns = n_launches * launch_ns, overlapped_ns < serial_ns,"
        " serial_ns < duration_ns FROM step_clocks JOIN rank_work USING (run, rank, step)"
        " WHERE run = 'rccl_mi300_rank0_of_8'",
    )
    assert found == [(895, "overhead", True, True, True)]
