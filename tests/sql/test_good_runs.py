"""Which runs fail a gate of their own, so that no later run is compared with them: hand-made rows, one gate each."""

from __future__ import annotations

import pytest

from evaluation import Row, answer

HELD: Row = {"baseline_runs": 10, "noise_sigmas": 3.0, "spread_runs": 3}
"""Runs that one is set against, and within how many deviations a change says nothing: from 3 runs on by their own."""

Before = list[tuple[int, float | None]]
"""How many runs ago, and the measure then."""


def _fails(
    gate: str,
    threshold: float,
    value: float | None,
    before: Before,
    *,
    noise: float | None = None,
    noise_before: float = 0,
) -> bool:
    """Return whether the run `now` fails its gate."""
    measure = gate.replace("_worse_ratio", "_ns" if gate.startswith("step_time") else "_ratio")
    others = [{"run": f"{n} ago", "measure": measure, "value": then, "noise": noise_before} for n, then in before]
    found = answer(
        "_failed_alone",
        params=[HELD],
        told_gates=[{"run": "now", "gate": gate, "threshold": threshold}],
        run_measures=[{"run": "now", "measure": measure, "value": value, "noise": noise}, *others],
        _runs_before=[{"run": "now", "before_run": f"{n} ago", "n_back": n} for n, _ in before],
    )
    assert found in ([], [("now",)])
    return found == [("now",)]


@pytest.mark.parametrize(
    ("gate", "threshold", "value", "fails"),
    [
        ("step_time_ns", 100, 101, True),
        ("step_time_ns", 100, 100, False),
        ("mfu_ratio", 0.5, 0.49, True),
        ("mfu_ratio", 0.5, 0.5, False),
        ("mfu_ratio", 0.5, None, False),
    ],
)
def test_a_value_beyond_its_gate_fails_without_any_run_before(
    gate: str, threshold: float, value: float | None, fails: bool
) -> None:
    assert _fails(gate, threshold, value, []) == fails


@pytest.mark.parametrize(
    ("gate", "value", "fails"),
    [
        ("step_time_worse_ratio", 151, True),
        ("step_time_worse_ratio", 150, False),
        ("step_time_worse_ratio", 49, False),
        ("mfu_worse_ratio", 99.25, True),
        ("mfu_worse_ratio", 99.5, False),
        ("mfu_worse_ratio", 101, False),
    ],
)
def test_a_change_for_the_worse_fails_beyond_its_gate(gate: str, value: float, fails: bool) -> None:
    """Half as much again of step time, which is relative; half of one less of MFU, which is a difference."""
    assert _fails(gate, 0.5, value, [(1, 100)]) == fails


@pytest.mark.parametrize(
    ("before", "fails"),
    [
        ([(10, 100)], True),
        ([(11, 100)], False),
        ([(1, 200), (11, 100)], False),
        ([(1, None)], False),
        ([], False),
    ],
)
def test_a_run_is_set_against_the_ten_before_it(before: Before, fails: bool) -> None:
    assert _fails("step_time_worse_ratio", 0.5, 200, before) == fails


@pytest.mark.parametrize(
    ("before", "value", "fails"),
    [
        # Of three the median is 120 and the deviation 20: 3 x 1.4826 x 20 is 88.956.
        ([(1, 100), (2, 120), (3, 140)], 208, False),
        ([(1, 100), (2, 120), (3, 140)], 209, True),
        # Of two their spread is not known, and a run without the measure makes no third.
        ([(1, 100), (2, 140)], 160, True),
        ([(1, 100), (2, 140), (3, None)], 160, True),
    ],
)
def test_a_change_within_the_spread_of_three_runs_or_more_says_nothing(
    before: Before, value: float, fails: bool
) -> None:
    assert _fails("step_time_worse_ratio", 0.1, value, before) == fails


@pytest.mark.parametrize(("value", "fails"), [(115, False), (116, True)])
@pytest.mark.parametrize(("noise", "noise_before"), [(3, 4), (4, 3)])
def test_a_change_within_three_times_the_noise_of_both_runs_says_nothing(
    noise: float, noise_before: float, value: float, fails: bool
) -> None:
    """Noises of 3 and 4 are one of 5."""
    assert _fails("step_time_worse_ratio", 0.1, value, [(1, 100)], noise=noise, noise_before=noise_before) == fails
