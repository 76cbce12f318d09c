"""Other people's runs with every rank's clock made wrong: the same answers come back, to the ends' own residual.

A rank whose collectives always end a little later looks like a rank whose clock is that much ahead. So the residual
here is that of the dumps as they were, on the one clock of their host: what no fit to ends can know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from skew import ClockError, first_start_ns, skewed_copies

OFFSETS_NS = (
    0, 9_999_999_999, -10_000_000_000, 479_900_123, -3_141_592_653, 1_000_000, -250_000, 7_654_321_987,
)  # fmt: skip
DRIFTS_PPB = (0, 50_000, -50_000, 12_345, -777, 31_000, -20_000, 45_678)
"""By rank. The lowest keeps its clock, for it is the run's."""

ROUNDING_NS = 2_000
"""Two ends, each in whole microseconds."""


@dataclass(frozen=True)
class Pair:
    """A run as it was, and its copy with wrong clocks."""

    run: str
    plain: Session
    skewed: Session

    def both(self, sql: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return the rows of a query, `$run` its run, of the plain one and of the copy."""
        plain, skewed = (s.con.execute(sql, {"run": self.run}).fetchall() for s in (self.plain, self.skewed))
        return plain, skewed

    @property
    def residual_ns(self) -> int:
        """Largest residual of a rank, as it was."""
        plain, _ = self.both("SELECT max(residual_ns) FROM rank_clocks WHERE run = $run")
        return int(plain[0][0])


@pytest.fixture(scope="module", params=["megatron-tp8-a100", "nanogpt-8x-h100", "torchrec-4x-v100", "dlrm-8x-v100"])
def pair(
    request: pytest.FixtureRequest, traces: Path, real: Session, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Return one set, as it was and with wrong clocks."""
    run: str = request.param
    folder = tmp_path_factory.mktemp(run)
    listed = real.con.execute("SELECT rank, path FROM dumps WHERE run = $1 ORDER BY rank", [run]).fetchall()
    dumps = [traces / run / Path(path).name for _, path in listed]
    since = first_start_ns(dumps[0])
    errors = [ClockError(OFFSETS_NS[rank], DRIFTS_PPB[rank], since) for rank, _ in listed]
    skewed_copies(dumps, folder / run, errors)
    store = Store(str(folder / "store"))
    make_run(store, run, [folder / run])
    with Session(store) as session:
        yield Pair(run, real, session)


def test_groups_and_instances_are_the_same(pair: Pair) -> None:
    for sql in (
        "SELECT group_id, rank, source, match_by FROM groups WHERE run = $run ORDER BY ALL",
        "SELECT step, group_id, seq, op, shape, n_present, n_bytes, is_complete, verdict FROM collective_instances"
        " WHERE run = $run ORDER BY ALL",
        "SELECT rank, activity_no, group_id, seq FROM collectives WHERE run = $run ORDER BY ALL",
    ):
        plain, skewed = pair.both(sql)
        assert len(plain) > 0
        assert skewed == plain


def test_the_hosts_word_is_not_taken_and_every_rank_is_on_one_fitted_clock(pair: Pair) -> None:
    plain, skewed = pair.both("SELECT DISTINCT clock_no, basis, verdict FROM rank_clocks WHERE run = $run")

    assert plain == [(0, "host", "ok")]
    assert skewed == [(0, "collectives", "ok")]


def test_aligned_ends_are_the_true_ones_to_the_residual(pair: Pair) -> None:
    plain, skewed = pair.both("SELECT rank, activity_no, end_ns FROM collectives WHERE run = $run ORDER BY ALL")

    errors: dict[int, list[int]] = {}
    for (rank, _, true_ns), (_, _, aligned_ns) in zip(plain, skewed, strict=True):
        errors.setdefault(rank, []).append(aligned_ns - true_ns)
    common = median(median(of_rank) for of_rank in errors.values())  # the lowest rank's own lateness is every other's
    assert max(abs(e - common) for of_rank in errors.values() for e in of_rank) <= pair.residual_ns + ROUNDING_NS


def test_every_wait_is_the_true_one_to_two_residuals(pair: Pair) -> None:
    plain, skewed = pair.both("SELECT rank, activity_no, wait_ns FROM collectives WHERE run = $run ORDER BY ALL")

    assert max(abs(b[2] - a[2]) for a, b in zip(plain, skewed, strict=True)) <= 2 * pair.residual_ns


def test_steps_last_as_long_to_two_residuals_and_end_on_the_same_rank_where_that_is_clear(pair: Pair) -> None:
    plain, skewed = pair.both(
        "SELECT step, n_ranks, verdict, duration_ns, end_rank, end_margin_ns FROM steps WHERE run = $run ORDER BY step"
    )
    residual = pair.residual_ns

    assert [s[:3] for s in skewed] == [s[:3] for s in plain]
    assert all(abs(b[3] - a[3]) <= 2 * residual for a, b in zip(plain, skewed, strict=True))
    assert all(b[4] == a[4] for a, b in zip(plain, skewed, strict=True) if a[5] > 3 * residual)


def test_windows_of_each_rank_are_the_true_ones_stretched_by_its_drift_alone(pair: Pair) -> None:
    plain, skewed = pair.both(
        "SELECT rank, step, duration_ns, compute_ns, exposed_comm_ns, idle_ns FROM rank_steps WHERE run = $run"
        " ORDER BY ALL"
    )

    for (rank, step, *parts), (rank2, step2, *moved) in zip(plain, skewed, strict=True):
        assert (rank2, step2) == (rank, step)
        for true_ns, ns in zip(parts, moved, strict=True):
            # Thousands of intervals, each rounded twice.
            assert abs(ns - true_ns - true_ns * DRIFTS_PPB[rank] / 1e9) <= ROUNDING_NS


def test_the_critical_path_is_the_same_segment_for_segment_but_for_a_rank_that_ended_last_by_a_tie(pair: Pair) -> None:
    plain, skewed = pair.both(
        "SELECT step, rank, lane, kind, name, duration_ns FROM step_critical_path WHERE run = $run ORDER BY step, seq"
    )
    ends = dict[int, set[int]]()
    for steps in pair.both("SELECT step, end_rank FROM steps WHERE run = $run"):
        for step, rank in steps:
            ends.setdefault(step, set()).add(rank)

    def kept(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for row in rows if len(ends[row[0]]) == 1 or row[1] not in ends[row[0]]]

    plain, skewed = kept(plain), kept(skewed)
    residual = pair.residual_ns
    assert len(plain) > 900
    assert [row[:5] for row in skewed] == [row[:5] for row in plain]
    for before, after in zip(plain, skewed, strict=True):
        drift_ns = before[5] * abs(DRIFTS_PPB[before[1]]) / 1e9
        assert abs(after[5] - before[5]) <= 2 * residual + drift_ns + ROUNDING_NS


def test_the_path_is_of_each_kind_as_long_to_three_residuals(pair: Pair) -> None:
    plain, skewed = pair.both(
        "SELECT step, kind, sum(duration_ns)::BIGINT FROM step_path_kinds WHERE run = $run GROUP BY ALL ORDER BY ALL"
    )

    assert [row[:2] for row in skewed] == [row[:2] for row in plain]
    assert all(abs(b[2] - a[2]) <= 3 * pair.residual_ns + 10_000 for a, b in zip(plain, skewed, strict=True))
