"""Whole captures, steps and steps of the run of other people's dumps, to the nanosecond.

The expected numbers were computed by an independent reference from the same definitions; traces/README.md lists them.
"""

from __future__ import annotations

import pytest

from longpole import catalog
from longpole.session import Session

CAPTURES = [
    ("megatron-tp8-a100", 0, 595_241_000, 131_390_000, 241_191_000, 146_000, 222_514_000),
    ("megatron-tp8-a100", 4, 630_624_000, 131_874_000, 495_240_000, 181_000, 3_329_000),
    ("megatron-tp8-a100", 6, 606_299_000, 133_554_000, 263_846_000, 151_000, 208_748_000),
    ("nanogpt-8x-h100", 0, 176_292_273, 122_121_935, 40_656_111, 1_587_118, 11_927_109),
    ("nanogpt-8x-h100", 1, 185_528_836, 131_026_250, 17_483_315, 2_037_986, 34_981_285),
    ("nanogpt-8x-h100", 6, 206_683_293, 148_932_768, 51_007_196, 1_705_358, 5_037_971),
    ("rccl_mi300_rank0_of_8", 0, 86_567_708, 25_739_303, 55_625_224, 2_637_529, 2_565_652),
    ("nccl_args_rank0_of_2", 0, 660_551_005, 115_655_847, 39_559_468, 2_284_699, 503_050_991),
    ("absolute_float_us", 0, 480_029_179, 468_153_602, 0, 4_300_839, 7_574_738),
    ("dlrm-8x-v100", 1, 18_749_000, 1_246_000, 11_056_000, 19_000, 6_428_000),
]


@pytest.mark.parametrize("expected", CAPTURES, ids=lambda e: f"{e[0]}-r{e[1]}")
def test_a_whole_capture_breaks_down_to_the_known_answer(real: Session, expected: tuple[str | int, ...]) -> None:
    run, rank, *parts = expected

    found = real.con.execute(
        "SELECT duration_ns, compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns FROM rank_captures"
        " WHERE run = $1 AND rank = $2",
        [run, rank],
    ).fetchall()

    assert found == [tuple(parts)]


RANK_STEPS = [
    ("nanogpt-8x-h100", 6, 10, 36_080_031, 29_203_266, 5_647_584, 968_221),
    ("nanogpt-8x-h100", 6, 11, 47_576_639, 29_777_380, 16_433_791, 993_178),
    ("nanogpt-8x-h100", 6, 12, 42_714_815, 28_721_405, 12_786_785, 966_946),
    ("nanogpt-8x-h100", 6, 13, 41_774_880, 29_574_949, 10_825_721, 1_023_036),
    ("nanogpt-8x-h100", 1, 11, 48_352_271, 29_790_024, 3_564_591, 14_477_438),
    ("rccl_mi300_rank0_of_8", 0, 15, 18_980_345, 6_434_141, 11_885_056, 92_619),
    ("rccl_mi300_rank0_of_8", 0, 16, 18_982_928, 6_354_816, 11_955_460, 82_298),
    ("rccl_mi300_rank0_of_8", 0, 17, 18_554_331, 6_445_137, 11_442_621, 108_620),
]


@pytest.mark.parametrize("expected", RANK_STEPS, ids=lambda e: f"{e[0]}-r{e[1]}-s{e[2]}")
def test_a_step_of_a_rank_breaks_down_to_the_known_answer(real: Session, expected: tuple[str | int, ...]) -> None:
    run, rank, step, *parts = expected

    found = real.con.execute(
        "SELECT duration_ns, compute_ns, exposed_comm_ns, idle_ns FROM rank_steps"
        " WHERE run = $1 AND rank = $2 AND step = $3",
        [run, rank, step],
    ).fetchall()

    assert found == [tuple(parts)]


def test_all_ranks_of_nanogpt_agree_on_the_first_and_the_last_step(real: Session) -> None:
    found = real.con.execute(
        "SELECT step, count(*), min(duration_ns), max(duration_ns) FROM rank_steps"
        " WHERE run = 'nanogpt-8x-h100' AND step IN (10, 13) GROUP BY step ORDER BY step"
    ).fetchall()

    (_, n10, least10, most10), (_, n13, least13, most13) = found
    assert (n10, n13) == (8, 8)
    assert (round(least10 / 1e6, 2), round(most10 / 1e6, 2)) == (36.06, 36.32)
    assert (round(least13 / 1e6, 1), round(most13 / 1e6, 1)) == (41.1, 41.8)


def test_graph_launches_place_their_kernels_and_the_steps_are_those_of_the_readme(real: Session) -> None:
    found = real.con.execute(
        "SELECT step, duration_ns FROM rank_steps WHERE run = 'cuda_graphs_rank0_of_16' AND step < 554 ORDER BY step"
    ).fetchall()

    assert found == [(550, 216_286_000), (551, 215_570_000), (552, 216_517_000), (553, 216_211_000)]
    unlinked = real.con.execute(
        "SELECT run, sum(n_unlinked) FROM rank_captures WHERE run IN ('cuda_graphs_rank0_of_16',"
        " 'rccl_mi300_rank0_of_8') GROUP BY run ORDER BY run"
    ).fetchall()
    assert unlinked == [("cuda_graphs_rank0_of_16", 872), ("rccl_mi300_rank0_of_8", 968)]


def test_one_hip_graph_launch_owns_its_421_kernels(real: Session) -> None:
    found = real.con.execute(
        "SELECT count(*) FROM events WHERE run = 'hip_graph_421_kernels_one_launch' AND category = 'kernel'"
        " GROUP BY correlation_id ORDER BY count(*) DESC LIMIT 1"
    ).fetchall()

    assert found == [(421,)]


@pytest.mark.parametrize(
    ("rank", "milliseconds"),
    [
        (0, [1_058.06, 1_161.96, 1_064.45]),
        (1, [1_058.06, 1_161.96, 1_064.45]),
        (2, [1_056.84, 1_161.95, 1_064.45]),
        (3, [1_058.06, 1_161.96, 1_064.45]),
    ],
)
def test_torchrec_steps_of_each_rank(real: Session, rank: int, milliseconds: list[float]) -> None:
    found = real.con.execute(
        "SELECT duration_ns FROM rank_steps WHERE run = 'torchrec-4x-v100' AND rank = $1 ORDER BY step", [rank]
    ).fetchall()

    # The answer is given for three ranks together, to 10 µs.
    assert [ns / 1e6 for (ns,) in found] == pytest.approx(milliseconds, abs=0.0101)


RUN_STEPS = [
    ("nanogpt-8x-h100", 10, 36_316_271, 0, 250_382, 75_606),
    ("nanogpt-8x-h100", 11, 48_101_889, 1, 762_350, None),
    ("nanogpt-8x-h100", 12, 42_794_970, 1, 838_318, None),
    ("nanogpt-8x-h100", 13, 41_138_704, 1, 174_041, None),
    ("megatron-tp8-a100", 3, 603_196_000, 0, 130_000, 30_476_000),
    ("dlrm-8x-v100", 10, 13_210_000, 4, 37_000, 6_216_000),
    ("torchrec-4x-v100", 4, 1_056_860_000, 0, 5_000, 1_219_000),
    ("torchrec-4x-v100", 5, 1_161_955_000, 0, 8_000, None),
    ("torchrec-4x-v100", 6, 1_064_450_000, 0, 11_000, None),
]


@pytest.mark.parametrize("expected", RUN_STEPS, ids=lambda e: f"{e[0]}-s{e[1]}")
def test_a_step_of_the_run_is_the_known_answer(real: Session, expected: tuple[str | int | None, ...]) -> None:
    run, step, *answer = expected

    found = real.con.execute(
        "SELECT duration_ns, end_rank, end_margin_ns, start_skew_ns, verdict FROM steps WHERE run = $1 AND step = $2",
        [run, step],
    ).fetchall()

    assert found == [(*answer, "ok")]


@pytest.mark.parametrize(
    ("run", "shares"),
    [
        # input, host, sync, launch and turnaround: per cent of all ranks' idle, known to a per cent. The 13.6 of
        # torchrec are cudaFree and cudaStreamSynchronize, which are sync by definition.
        ("torchrec-4x-v100", (0, 86, 14, 0)),
        ("megatron-tp8-a100", (8, 80, 0, 13)),
        ("nanogpt-8x-h100", (0, 48, 0, 52)),
        ("dlrm-8x-v100", (12, 69, 0, 18)),
    ],
)
def test_idle_by_cause_is_what_is_known_of_the_four_sets_and_nothing_is_other(
    real: Session, run: str, shares: tuple[int, ...]
) -> None:
    found = real.con.execute(
        "SELECT round(100 * sum(idle_input_ns) / sum(idle_ns)), round(100 * sum(idle_host_ns) / sum(idle_ns)),"
        " round(100 * sum(idle_sync_ns) / sum(idle_ns)),"
        " round(100 * sum(idle_launch_ns + idle_turnaround_ns) / sum(idle_ns)), sum(idle_other_ns)"
        " FROM rank_steps WHERE run = $1",
        [run],
    ).fetchall()

    assert found == [(*shares, 0)]


def test_a_run_on_cpu_has_two_captures_a_rank_and_eight_steps(real: Session) -> None:
    captures = real.con.execute(
        "SELECT rank, capture, first_step, last_step FROM rank_captures WHERE run = 'gloo-4x-cpu' ORDER BY ALL"
    ).fetchall()
    steps = real.con.execute(
        "SELECT step, n_ranks, duration_ns > 0 FROM steps WHERE run = 'gloo-4x-cpu' ORDER BY step"
    ).fetchall()

    assert captures == [(r, c, *((3, 6) if c == 0 else (10, 13))) for r in range(4) for c in (0, 1)]
    assert steps == [(s, 4, True) for s in (3, 4, 5, 6, 10, 11, 12, 13)]


def test_time_in_gloo_spans_is_the_known_sum(real: Session) -> None:
    found = real.con.execute(
        "SELECT rank, round(sum(duration_ns) FILTER (step < 7) / 1e6, 1),"
        " round(sum(duration_ns) FILTER (step > 7) / 1e6, 1), count(*)"
        " FROM events WHERE run = 'gloo-4x-cpu' AND kind = 'comm' GROUP BY rank ORDER BY rank"
    ).fetchall()

    assert found == [
        (0, 503.8, 420.3, 32),
        (1, 482.9, 490.2, 32),
        (2, 300.5, 264.5, 32),
        (3, 556.5, 425.4, 32),
    ]


def test_a_run_without_a_rank_or_a_device_still_answers(real: Session) -> None:
    found = real.con.execute(
        "SELECT run, rank, step, duration_ns, verdict FROM rank_steps WHERE run IN ('cpu_only', 'rank_missing')"
        " ORDER BY run"
    ).fetchall()

    verdict = "no device: host threads are the lanes"
    assert found == [("cpu_only", 0, 1009, 75_473_000, verdict), ("rank_missing", 0, 1009, 75_473_000, verdict)]


@pytest.mark.parametrize("rule", sorted(r.name for r in catalog.relations().values() if r.scope == "check"))
def test_no_real_run_breaks_a_rule(real: Session, rule: str) -> None:
    assert real.con.execute(catalog.relations()[rule].sql).fetchall() == []


def test_every_real_run_has_its_steps(real: Session) -> None:
    found = dict(real.con.execute("SELECT run, count(*) FROM steps GROUP BY run").fetchall())

    assert found == {
        "absolute_float_us": 5,
        "cpu_only": 1,
        "cuda_graphs_rank0_of_16": 5,
        "dlrm-8x-v100": 1,
        "gloo-4x-cpu": 8,
        "h100_bert_small": 1,
        "hip_graph_421_kernels_one_launch": 1,
        "kineto_2021_schema": 6,
        "megatron-tp8-a100": 1,
        "nanogpt-8x-h100": 4,
        "nccl_args_rank0_of_2": 3,
        "rank_missing": 1,
        "rccl_mi300_rank0_of_8": 3,
        "simple_add": 1,
        "torchrec-4x-v100": 3,
    }
