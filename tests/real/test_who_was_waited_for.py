"""Stragglers of other people's runs: who, why, in which steps; and where there is none."""

from __future__ import annotations

from typing import Any

from longpole.session import Session

Rows = list[tuple[Any, ...]]


def named(real: Session, run: str) -> Rows:
    sql = "SELECT step, rank, cause, late_ns FROM step_stragglers WHERE run = $1 AND is_straggler ORDER BY step"
    return real.con.execute(sql, [run]).fetchall()


def over_the_run(real: Session, run: str) -> Rows:
    sql = "SELECT rank, n_straggler, cause, is_persistent, pattern FROM run_stragglers WHERE run = $1 ORDER BY rank"
    return real.con.execute(sql, [run]).fetchall()


def test_torchrec_waits_a_second_a_step_for_rank_2s_host(real: Session) -> None:
    found = named(real, "torchrec-4x-v100")

    assert [row[:3] for row in found] == [(4, 2, "host"), (5, 2, "host"), (6, 2, "host")]
    assert all(1_000_000_000 < late < 1_020_000_000 for *_, late in found)
    assert over_the_run(real, "torchrec-4x-v100") == [(2, 3, "host", True, "persistent")]


def test_nanogpt_waits_for_the_host_of_rank_1_and_once_for_that_of_rank_0(real: Session) -> None:
    found = named(real, "nanogpt-8x-h100")

    assert [row[:3] for row in found] == [(10, 0, "host"), (11, 1, "host"), (12, 1, "host"), (13, 1, "host")]
    assert over_the_run(real, "nanogpt-8x-h100") == [
        (0, 1, "host", False, "transient"),
        (1, 3, "host", True, "persistent"),
    ]


def test_gloo_waits_for_rank_2_which_sleeps(real: Session) -> None:
    found = named(real, "gloo-4x-cpu")

    assert [row[:2] for row in found] == [(n, 2) for n in (3, 4, 5, 6, 10, 11, 12, 13)]
    assert {cause for _, _, cause, _ in found} == {"host"}
    assert all(late > 20_000_000 for *_, late in found)
    assert over_the_run(real, "gloo-4x-cpu") == [(2, 8, "host", True, "persistent")]


def test_megatron_has_no_straggler_for_two_ranks_stall_alike(real: Session) -> None:
    sql = "SELECT rank, verdict FROM step_stragglers WHERE run = 'megatron-tp8-a100' ORDER BY late_ns DESC LIMIT 2"

    assert named(real, "megatron-tp8-a100") == []
    assert over_the_run(real, "megatron-tp8-a100") == []
    assert real.con.execute(sql).fetchall() == [
        (0, "a tie: another rank is late by more than half of it"),
        (6, "another rank is later"),
    ]


def test_dlrms_late_rank_was_late_before_its_recording_began(real: Session) -> None:
    assert [row[:3] for row in named(real, "dlrm-8x-v100")] == [(10, 7, "before")]


def test_a_rank_alone_has_no_straggler(real: Session) -> None:
    assert named(real, "rccl_mi300_rank0_of_8") == []
    assert named(real, "cuda_graphs_rank0_of_16") == []


def test_steps_say_who_they_waited_for(real: Session) -> None:
    sql = (
        "SELECT step, straggler_rank FROM steps WHERE run = 'nanogpt-8x-h100' AND straggler_ns > 4000000 ORDER BY step"
    )

    assert real.con.execute(sql).fetchall() == [(10, 0), (11, 1), (12, 1), (13, 1)]


def test_what_a_straggler_costs_is_what_its_repair_would_save(real: Session) -> None:
    sql = "SELECT rank, round(slowdown_ratio, 3), verdict FROM run_stragglers WHERE run = $1 ORDER BY rank"

    assert real.con.execute(sql, ["nanogpt-8x-h100"]).fetchall() == [
        (0, 1.0, "one step: it may be chance"),
        (1, 1.015, "ok"),
    ]
    assert real.con.execute(sql, ["torchrec-4x-v100"]).fetchall() == [(2, 9.282, "ok")]
