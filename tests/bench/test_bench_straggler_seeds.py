"""Three seeds of each scenario at 3 % of the step: the table of the benchmark, small enough for every day."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from straggler_seeds import Outcome, Task, outcomes, row

# Of the seeds 0, 1 and 2: how many things that make a step 3 % longer, or more, are put in.
N_PUT_IN = {
    "compute": [1, 1, 1],
    "host": [1, 1, 1],
    "input": [1, 1, 1],
    "link": [1, 1, 1],
    "gc": [2, 3, 1],
    "stage": [1, 1, 1],
    "sequence": [3, 4, 3],
}


@pytest.mark.parametrize("case", N_PUT_IN)
def test_what_makes_a_step_3_percent_longer_is_found_with_its_cause_and_nothing_else_is(case: str) -> None:
    found = outcomes(Task(case, 3, range(3)))  # type: ignore[arg-type]

    assert [(o.n_put_in, o.n_found, o.others) for o in found] == [(n, n, ()) for n in N_PUT_IN[case]]


@pytest.mark.parametrize("case", ["healthy", "link", "stage"])
def test_nobody_is_named_in_jobs_to_which_nothing_was_done(case: str) -> None:
    assert [o.others for o in outcomes(Task(case, 0, range(3)))] == [(), (), ()]  # type: ignore[arg-type]


def test_a_row_counts_what_was_found_and_in_how_many_runs_all_of_it() -> None:
    found = [Outcome("gc", 3, 0, 2, 2, ()), Outcome("gc", 3, 1, 3, 2, ((0, "host"),))]

    assert row("gc", 3, found).split() == ["gc", "3", "%", "2", "4", "of", "5", "50.0%", "1"]
