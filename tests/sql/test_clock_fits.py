"""Clocks fitted to points by hand: which slope a line has, when it counts, and how fits are put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from evaluation import Row, answer

US = 1_000
MS = 1_000_000
S = 1_000_000_000

PARAMS: list[Row] = [{"loose_end_ns": 1e6, "crystal_drift": 1e-4, "rounded_ns": 250.0}]

Points = Sequence[tuple[int, int]]
"""Ends of collectives on one clock, each with how much later that is than on the other."""

Fit = list[tuple[Any, ...]]
"""The slope and the shift of the line: by how much that clock runs ahead, and is ahead at 0."""


def of_members(points: Points) -> Fit:
    anchors = [
        {"group_id": "g", "instance": n, "rank": rank, "x_ns": x - (late if rank == 0 else 0)}
        for n, (x, late) in enumerate(points)
        for rank in (0, 1)
    ]
    found = answer("_member_fits", "rank, slope, shift_ns", _anchors=anchors, params=PARAMS)
    assert [rank for rank, *_ in found] == [0, 1]
    assert found[0] == (0, 0, 0)
    return [tuple(rest) for rank, *rest in found if rank == 1]


def of_clocks(points: Points) -> Fit:
    ends = [
        {"group_id": "g", "instance": n, "unit": 1, "x_ns": x, "base": 0, "base_x_ns": x - late}
        for n, (x, late) in enumerate(points)
    ]
    return answer("_unit_fits", "slope, shift_ns", _unit_anchors=ends, params=PARAMS)


def of_all_at_once(points: Points, drift: float = 0) -> Fit:
    """Return the fit of clock 2 beside clocks 0 and 1, which agree: their end is the median of the three."""
    ends = [
        {"group_id": "g", "instance": n, "unit": unit, "x_ns": x if unit == 2 else x - late}
        for n, (x, late) in enumerate(points)
        for unit in (0, 1, 2)
    ]
    clocks = [{"unit": u, "clock_no": 0, "offset_ns": 0, "drift": drift if u == 2 else 0} for u in (0, 1, 2)]
    found = answer(
        "_clock_refined", "unit, drift, offset_ns", _unit_anchors=ends, _clock_composed=clocks, params=PARAMS
    )
    assert found[:2] == [(0, 0, 0), (1, 0, 0)]
    return [tuple(rest) for unit, *rest in found if unit == 2]


Fitting = Callable[[Points], Fit]

every_fit = pytest.mark.parametrize("fit", [of_members, of_clocks, of_all_at_once])


@every_fit
def test_where_half_of_the_weight_has_the_lower_slope_that_counts(fit: Fitting) -> None:
    """Four ends a second apart, 100 µs/s and 0, 0, 3 and 3 µs: of a weight of 10 s half has at most 101 µs/s.

    Pairs by how far they are apart: 1 s 100, 103 and 100 µs/s, 2 s 101.5 twice, 3 s 101.
    """
    found = fit([(0, 0), (S, 100 * US), (2 * S, 203 * US), (3 * S, 303 * US)])

    assert found == [(pytest.approx(101e-6, rel=1e-9), pytest.approx(0, abs=1))]


@every_fit
def test_a_rise_counts_where_it_is_more_than_what_shows(fit: Fitting) -> None:
    """Two ends early and two late, each 252 ns off the line: 3 x (1 + (6 / 4)²) = 9.75 deviations are 2,457 ns."""
    late = 2**30

    def rising(by: int) -> Fit:
        return fit([(0, -252), (0, 252), (late, by - 252), (late, by + 252)])

    assert rising(2457) == [(0, 1228.5)]
    assert rising(2458) == [(2458 / late, 0)]


@every_fit
def test_a_slope_counts_where_a_crystals_would_show(fit: Fitting) -> None:
    """As above, but on the line: 250 ns of rounding are 2,437.5 ns, a ten-thousandth of 24.375 ms."""

    def spanning(ns: int) -> Fit:
        return fit([(0, 0), (0, 0), (ns, 10 * US), (ns, 10 * US)])

    assert spanning(24_375_000) == [(0, 5 * US)]
    assert spanning(24_375_001) == [(pytest.approx(10 * US / 24_375_001), pytest.approx(0, abs=1e-6))]


@every_fit
def test_of_sixty_four_ends_every_pair_counts_once(fit: Fitting) -> None:
    """32 ends at the start are late by 0, 1 … 31 µs, and 32 a second later by 100 µs and 1, 2 … 29, 40, 41 and 0 µs.

    Of the 1,024 pairs 32 - v rise by at most 100 µs for each v of 0 to 29, and none for 40 and 41: 525, more than half.
    Of the 32 pairs of ends that are half of all apart only the last does: would they count once more, it were 526 of
    1,056, and the slope 101 µs/s.
    """
    first = [(0, n * US) for n in range(32)]
    second = [(S, (100 + n) * US) for n in (*range(1, 30), 40, 41, 0)]

    ((slope, _),) = fit([*first, *second])

    assert slope == pytest.approx(100e-6)


def test_a_rank_of_two_groups_has_a_slope_in_each() -> None:
    """Rank 1 gains 100 µs/s on rank 0, with whom it is in a, and is the lowest of b, half a second later each time."""
    gains = [
        {"group_id": "a", "instance": n, "rank": rank, "x_ns": n * S - (100 * US * n if rank == 0 else 0)}
        for n in range(66)
        for rank in (0, 1)
    ]
    alike = [
        {"group_id": "b", "instance": 66 + n, "rank": rank, "x_ns": n * S + S // 2}
        for n in range(66)
        for rank in (1, 2)
    ]

    assert answer("_member_fits", "group_id, rank, n_anchors, slope", _anchors=[*gains, *alike], params=PARAMS) == [
        ("a", 0, 66, 0),
        ("a", 1, 66, pytest.approx(100e-6)),
        ("b", 1, 66, 0),
        ("b", 2, 66, 0),
    ]


def test_a_clock_tied_to_two_others_has_a_slope_against_each() -> None:
    gains = [
        {"group_id": "a", "instance": n, "unit": 2, "x_ns": n * S, "base": 0, "base_x_ns": n * S - 100 * US * n}
        for n in range(66)
    ]
    alike = [
        {"group_id": "b", "instance": n, "unit": 2, "x_ns": x, "base": 1, "base_x_ns": x}
        for n, x in enumerate(n * S + S // 2 for n in range(66))
    ]

    assert answer("_unit_fits", "base, unit, slope", _unit_anchors=[*gains, *alike], params=PARAMS) == [
        (0, 2, pytest.approx(100e-6)),
        (1, 2, 0),
    ]


def test_members_whose_ends_deviate_by_more_than_a_millisecond_are_left_out_and_so_is_who_is_left_alone() -> None:
    """Of two ends the median deviation is half of their distance: 1 ms in a, 1 ns more in b, and both in c."""
    loose = {("a", 1): 2 * MS, ("b", 1): 2 * MS + 2, ("c", 1): 2 * MS, ("c", 2): 2 * MS + 2}
    first = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1), ("c", 2)]
    anchors = [
        {
            "group_id": group,
            "instance": instance,
            "rank": rank,
            "x_ns": instance * S + instance % 2 * loose.get((group, rank), 0),
        }
        for at, group in enumerate("abc")
        for instance in (2 * at, 2 * at + 1)
        for member, rank in first
        if member == group
    ]

    assert answer("_member_fits", "group_id, rank, residual_ns", _anchors=anchors, params=PARAMS) == [
        ("a", 0, 0),
        ("a", 1, MS),
        ("c", 0, 0),
        ("c", 1, MS),
    ]


@every_fit
def test_ends_of_one_instant_have_no_slope(fit: Fitting) -> None:
    assert fit([(S, 0), (S, 8), (S, 2), (S, 4)]) == [(0, 3)]


def test_ends_of_one_instant_leave_the_drift_of_a_clock_as_it_is() -> None:
    assert of_all_at_once([(S, 0)] * 4, drift=1e-5) == [(1e-5, -10 * US)]


def composed(*fits: Row) -> list[tuple[Any, ...]]:
    """Return (unit, clock_no, offset_ns, drift); a fit that says no more is of ten collectives and of no slope."""
    whole: Row = {"n_anchors": 10, "slope": 0, "shift_ns": 0, "residual_ns": 0}
    return answer("_clock_composed", _unit_fits=[{**whole, **fit} for fit in fits])


def test_of_two_ways_to_a_clock_the_one_that_is_known_best_counts() -> None:
    """1 and 2 run as 0 does. Ends of 3 and 1 agree, and of 4 and 2; those of 3 and 2, and of 4 and 1, do to 100 ns."""
    found = composed(
        {"base": 0, "unit": 1},
        {"base": 0, "unit": 2},
        {"base": 1, "unit": 3, "shift_ns": 50},
        {"base": 2, "unit": 3, "shift_ns": 70, "residual_ns": 100},
        {"base": 1, "unit": 4, "shift_ns": 70, "residual_ns": 100},
        {"base": 2, "unit": 4, "shift_ns": 60},
    )

    assert found == [(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 50, 0), (4, 0, 60, 0)]


def test_a_lower_clock_is_reached_from_a_higher_one_by_the_fit_turned_around() -> None:
    """5 is 100 ahead of 0. It is 40 ahead of 3 and gains a fifth on it: 3 loses a quarter of its own, and 50.

    5 shows (t3 + 40) / 0.8 = 1.25 t3 + 50 where 3 shows t3, which is 1.25 t3 - 50 on 0's clock. 6 knows less well.
    """
    found = composed(
        {"base": 0, "unit": 5, "shift_ns": 100},
        {"base": 0, "unit": 6},
        {"base": 3, "unit": 5, "shift_ns": 40, "slope": 0.2},
        {"base": 3, "unit": 6, "shift_ns": 70, "residual_ns": 100},
    )

    assert found == [(0, 0, 0, 0), (3, 0, 50, pytest.approx(-0.25)), (5, 0, 100, 0), (6, 0, 0, 0)]


def test_drifts_and_offsets_add_up_from_clock_to_clock() -> None:
    """Of what 1 shows three quarters are 0's time, 100 off; 2 is 40 of 1's ahead of it and gains a fifth on that."""
    found = composed(
        {"base": 0, "unit": 1, "shift_ns": 100, "slope": 0.25}, {"base": 1, "unit": 2, "shift_ns": 40, "slope": 0.2}
    )

    assert found == [(0, 0, 0, 0), (1, 0, 100, 0.25), (2, 0, 130, pytest.approx(0.4))]


def test_clocks_that_meet_at_a_higher_one_all_have_the_lowest() -> None:
    found = composed({"base": 1, "unit": 9, "shift_ns": 10}, {"base": 2, "unit": 9, "shift_ns": 30})

    assert found == [(1, 1, 0, 0), (2, 1, -20, 0), (9, 1, 10, 0)]


def test_a_rank_that_leaves_with_nobody_has_the_clock_of_its_host() -> None:
    """0 and 1 share a host, and 2 and 3; only 0 and 2 leave collectives together, 2 a second later by its clock."""
    assert answer(
        "rank_clocks",
        "rank, reference_ns, offset_ns, n_anchors, clock_no, basis, verdict",
        _units=[{"rank": rank, "unit": rank // 2 * 2, "is_shared": True} for rank in range(4)],
        _clock_refined=[{"unit": u, "clock_no": 0, "offset_ns": u // 2 * S, "drift": 0} for u in (0, 2)],
        _member_fits=[{"group_id": "g", "rank": rank} for rank in (0, 2)],
        _anchors=[
            {"group_id": "g", "instance": 0, "rank": rank, "x_ns": x, "reference_ns": 7}
            for rank, x in ((0, 5), (2, S + 5))
        ],
    ) == [
        (0, 7, 0, 1, 0, "collectives", "ok"),
        (1, None, 0, 0, 0, "host", "ok"),
        (2, 7, S, 1, 0, "collectives", "ok"),
        (3, 7, S, 0, 0, "host", "ok"),
    ]


def test_the_lowest_rank_of_a_clock_keeps_its_own_times() -> None:
    """Four fifths of what 0 shows are time by all collectives, and two fifths of what 1 shows: half of 0's."""
    assert answer(
        "rank_clocks",
        "rank, offset_ns, drift_ppb",
        _units=[{"rank": rank, "unit": rank} for rank in (0, 1)],
        _clock_refined=[
            {"unit": 0, "clock_no": 0, "offset_ns": 10, "drift": 0.2},
            {"unit": 1, "clock_no": 0, "offset_ns": 50, "drift": 0.6},
        ],
    ) == [(0, 0, 0), (1, 50, 0.5e9)]


@pytest.mark.parametrize(
    ("clocks", "hosts", "found"),
    [
        ([0], [], (True, "one rank")),
        ([0, 0], [("x", "named"), ("x", "named")], (True, "one host: x")),
        ([0, 0], [("one host", "each on its own of 8 devices")] * 2, (True, "one host: each on its own of 8 devices")),
        ([0, 1], [("x", "named"), ("y", "named")], (False, "2 hosts without a collective that ties them")),
        (
            [0, 1],
            [("x", "named"), (None, None)],
            (False, "the dumps do not say that the ranks share a host, and no collective ties them"),
        ),
    ],
)  # fmt: skip
def test_what_the_runs_clock_rests_on(
    clocks: list[int], hosts: list[tuple[str | None, str | None]], found: tuple[bool, str]
) -> None:
    assert answer(
        "_clock_basis",
        rank_clocks=[{"rank": rank, "clock_no": clock, "basis": "host"} for rank, clock in enumerate(clocks)],
        _hosts=[{"rank": rank, "host": host, "evidence": evidence} for rank, (host, evidence) in enumerate(hosts)],
    ) == [found]
