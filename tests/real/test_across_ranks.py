"""Collectives of other people's runs across ranks: instances, spreads, waits, who came last.

The expected numbers were computed by an independent reference from the same definitions; traces/README.md lists them.
"""

from __future__ import annotations

import pytest

from longpole.session import Session


@pytest.mark.parametrize(
    ("run", "n_instances", "n_complete", "median_us", "most_us"),
    [
        ("megatron-tp8-a100", 84, 84, 30, 49),
        ("nanogpt-8x-h100", 84, 76, 20.5, 188.3),
        ("dlrm-8x-v100", 8, 8, 2.5, 7),
        ("torchrec-4x-v100", 13, 12, 26.5, 113),
    ],
)
def test_every_collective_that_all_ranks_recorded_is_matched_and_its_members_leave_together(
    real: Session, run: str, n_instances: int, n_complete: int, median_us: float, most_us: float
) -> None:
    found = real.con.execute(
        "SELECT count(*), count(*) FILTER (is_complete), median(end_spread_ns) FILTER (is_complete),"
        " max(end_spread_ns) FILTER (is_complete) FROM collective_instances WHERE run = $1",
        [run],
    ).fetchone()

    assert found is not None
    assert found[:2] == (n_instances, n_complete)
    assert (round(found[2] / 1e3, 1), round(found[3] / 1e3, 1)) == (median_us, most_us)


@pytest.mark.parametrize(
    ("run", "waits_ms"),
    [
        ("megatron-tp8-a100", [191.397, 431.024, 362.815, 421.825, 445.087, 441.069, 214.095, 432.178]),
        ("nanogpt-8x-h100", [31.443, 5.994, 33.302, 38.983, 39.841, 39.560, 39.940, 39.987]),
    ],
)
def test_total_waits_are_the_known_ones_to_a_microsecond(real: Session, run: str, waits_ms: list[float]) -> None:
    found = real.con.execute(
        "SELECT sum(wait_ns) FROM collectives WHERE run = $1 AND is_complete GROUP BY rank ORDER BY rank", [run]
    ).fetchall()

    assert [ns / 1e6 for (ns,) in found] == pytest.approx(waits_ms, abs=0.001)


def test_nanogpt_waits_for_rank_1_by_time_although_rank_5_is_last_more_often(real: Session) -> None:
    turns = real.con.execute(
        "SELECT last_rank, count(*) AS n FROM collective_instances WHERE run = 'nanogpt-8x-h100' AND is_complete"
        " GROUP BY last_rank ORDER BY n DESC LIMIT 1"
    ).fetchall()
    caused = real.con.execute(
        "SELECT i.last_rank FROM collectives AS c JOIN collective_instances AS i USING (run, group_id, seq, shape)"
        " WHERE run = 'nanogpt-8x-h100' AND i.is_complete GROUP BY i.last_rank ORDER BY sum(c.wait_ns) DESC LIMIT 1"
    ).fetchall()

    assert turns == [(5, 21)]
    assert caused == [(1,)]


def test_torchrec_rank_2_is_last_every_time_and_the_others_wait_three_seconds(real: Session) -> None:
    found = real.con.execute(
        "SELECT rank, count(*) FILTER (is_last), sum(wait_ns) FROM collectives"
        " WHERE run = 'torchrec-4x-v100' AND is_complete GROUP BY rank ORDER BY rank"
    ).fetchall()

    assert [(rank, n) for rank, n, _ in found] == [(0, 0), (1, 0), (2, 12), (3, 0)]
    assert [round(ns / 1e6) for _, _, ns in found] == [3036, 3036, 0, 3035]


def test_dlrm_rank_7_is_last_in_five_of_eight(real: Session) -> None:
    found = real.con.execute(
        "SELECT last_rank FROM collective_instances WHERE run = 'dlrm-8x-v100' ORDER BY end_ns"
    ).fetchall()

    assert sorted(rank for (rank,) in found) == [4, 5, 5, 7, 7, 7, 7, 7]


def test_gloo_buckets_match_over_both_captures_and_fit_no_clock(real: Session) -> None:
    instances = real.con.execute(
        "SELECT step, count(*), bool_and(is_complete) FROM collective_instances WHERE run = 'gloo-4x-cpu'"
        " GROUP BY step ORDER BY step"
    ).fetchall()
    clocks = real.con.execute(
        "SELECT DISTINCT offset_ns, drift_ppb, residual_ns, n_anchors, basis FROM rank_clocks WHERE run = 'gloo-4x-cpu'"
    ).fetchall()
    spread = real.con.execute(
        "SELECT median(end_spread_ns), max(end_spread_ns) FROM collective_instances WHERE run = 'gloo-4x-cpu'"
    ).fetchall()

    assert instances == [(step, 4, True) for step in (3, 4, 5, 6, 10, 11, 12, 13)]
    assert clocks == [(0, 0.0, None, 0, "host")]
    assert [round(ns / 1e6) for ns in spread[0]] == [4, 44]


def test_gloo_rank_2_is_last_for_the_first_two_buckets_of_all_eight_steps(real: Session) -> None:
    found = real.con.execute(
        "SELECT last_rank, count(*) FROM ("
        " SELECT *, row_number() OVER (PARTITION BY step ORDER BY seq) AS bucket FROM collective_instances"
        " WHERE run = 'gloo-4x-cpu') WHERE bucket <= 2 GROUP BY last_rank"
    ).fetchall()

    assert found == [(2, 16)]


def test_one_rank_of_many_claims_nothing_of_the_others(real: Session) -> None:
    found = real.con.execute(
        "SELECT DISTINCT is_complete, n_present, n_ranks, algbw_bytes_per_s, verdict FROM collective_instances"
        " WHERE run = 'rccl_mi300_rank0_of_8'"
    ).fetchall()

    assert found == [(False, 1, 8, None, "peer not recorded: 1 of 8")]


def test_a_wait_and_a_transfer_are_the_whole_of_a_collective(real: Session) -> None:
    found = real.con.execute(
        "SELECT count(*) FROM collectives WHERE wait_ns + transfer_ns <> end_ns - arrival_ns OR wait_ns < 0"
        " OR transfer_ns < 0 OR exposed_ns < 0 OR exposed_ns > end_ns - arrival_ns"
    ).fetchall()

    assert found == [(0,)]
