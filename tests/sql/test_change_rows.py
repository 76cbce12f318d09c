"""What changed between runs, what is worth changing, and what a change multiplies: rows checked by eye."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation import Row, answer

LIMITS = [{"least_steps": 3, "noise_errors": 3.0, "same_job_ratio": 0.02, "least_share_ratio": 0.001}]


def part(run: str, dimension: str, item: str, n_steps: int, median_ns: int, **more: Any) -> Row:
    return {
        "run": run, "dimension": dimension, "item": item, "n_steps": n_steps, "n_found": n_steps,
        "median_ns": median_ns, "sigma_ns": 0.0, **more,
    }  # fmt: skip


def test_a_rank_that_recorded_less_than_the_run_is_compared_as_long_as_the_run_has_the_steps() -> None:
    """Rank 1 of the old run recorded two of its four steps: the run has enough of them."""
    parts = [
        *(part("old", "step", "step", 4, 1_000), part("new", "step", "step", 4, 1_000)),
        *(part("old", "rank", "0", 4, 500), part("new", "rank", "0", 4, 500)),
        *(part("old", "rank", "1", 2, 500), part("new", "rank", "1", 4, 511)),
    ]

    found = answer("run_changes", "run, dimension, item, change_ns, noise_ns, verdict", run_parts=parts, params=LIMITS)

    assert [row[1:] for row in found if row[0] == "new"] == [
        ("rank", "0", 0, 10, "within noise"),
        ("rank", "1", 11, 10, "grew"),  # 2 % of 511
        ("step", "step", 0, 20, "within noise"),
    ]


def test_a_run_of_two_steps_says_nothing_of_noise() -> None:
    parts = [
        *(part("old", "step", "step", 2, 1_000), part("new", "step", "step", 4, 1_500)),
        *(part("old", "kernel", "gemm", 2, 500, n_calls=8), part("new", "kernel", "gemm", 4, 700, n_calls=24)),
    ]

    found = answer(
        "run_changes",
        "run, item, baseline_ns, value_ns, noise_ns, verdict, baseline_calls_per_step, calls_per_step",
        run_parts=parts,
        params=LIMITS,
    )

    verdict = "n/a: fewer than three steps"
    assert [row[1:] for row in found if row[0] == "new"] == [
        ("gemm", 500, 700, None, verdict, 4.0, 6.0),
        ("step", 1_000, 1_500, None, verdict, None, None),
    ]


def segment(rank: int, kind: str, name: str, duration_ns: int) -> Row:
    return {"rank": rank, "kind": kind, "name": name, "duration_ns": duration_ns}


def opportunities(select: str, path: list[Row], recorded: list[bool]) -> list[tuple[Any, ...]]:
    return answer(
        "opportunity_changes",
        select,
        step_critical_path=path,
        ranks=[{"rank": rank, "is_recorded": known} for rank, known in enumerate(recorded)],
    )


def test_what_is_half_a_per_cent_of_the_path_is_asked_and_of_one_rank_where_it_has_nine_tenths() -> None:
    """The path is of 2,000 ns, of which half a per cent are 10."""
    path = [
        *(segment(0, "compute", "gemm", 1_000), segment(1, "compute", "gemm", 700)),
        *(segment(0, "host", "wait", 90), segment(1, "host", "wait", 10)),
        *(segment(0, "host", "read", 89), segment(1, "host", "read", 11)),
        *(segment(0, "sync", "small", 10), segment(0, "sync", "tiny", 9)),
        *(segment(0, "comm", "allreduce", 50), segment(1, "comm", "allreduce", 31)),
    ]

    assert opportunities("*", path, [True, True]) == [
        (101, "waits", None, None, None, None, None, 2_000),
        (102, "scale", "compute", None, "gemm", "^gemm$", 0.5, 1_700),
        (103, "scale", "host", 0, "wait", "^wait$", 0.0, 100),
        (104, "scale", "host", None, "read", "^read$", 0.0, 100),
        (105, "exposed", None, None, None, None, None, 81),
        (106, "scale", "sync", 0, "small", "^small$", 0.0, 10),
    ]


@pytest.mark.parametrize(("third", "fixes"), [(True, [(0,), (1,)]), (False, [])])
def test_a_rank_is_set_to_the_median_of_three_ranks_that_were_recorded(third: bool, fixes: list[tuple[int]]) -> None:
    path = [segment(0, "comm", "allreduce", 60), segment(1, "comm", "allreduce", 40)]

    found = opportunities("what, rank", path, [True, True, third])

    assert [(rank,) for what, rank in found if what == "fix"] == fixes


def test_a_path_of_no_time_has_nothing_to_ask() -> None:
    assert opportunities("*", [segment(0, "host", "wait", 0)], [True, True, True]) == []


NO_CHANGE: Row = {
    "scenario": 1, "what": "scale", "kind": "compute", "rank": None, "pattern": None, "phase": None, "group_id": None,
    "factor": 0.5,
}  # fmt: skip


def factors(*changes: Row) -> list[tuple[Any, ...]]:
    """Return (scenario, class, kind, factor) on rank 0, whose classes are a forward gemm and a backward adam."""
    typed: Row = {**NO_CHANGE, "scenario": 99, "rank": 99, "pattern": "never", "phase": "never", "group_id": "never"}
    return answer(
        "_class_factors",
        changes=[typed, *({**NO_CHANGE, **change} for change in changes)],
        context=[{"rank": 0}],
        _activity_classes=[
            {"activity_no": 0, "class_no": 1, "name": "gemm", "phase": "forward"},
            {"activity_no": 1, "class_no": 1, "name": "gemm", "phase": "forward"},
            {"activity_no": 2, "class_no": 2, "name": "adam", "phase": "backward"},
        ],
    )


def test_a_change_multiplies_the_classes_and_kinds_that_it_names() -> None:
    assert factors(
        {"scenario": 1},
        {"scenario": 2, "kind": None, "pattern": "^ge"},  # work alone, no lag
        {"scenario": 3, "kind": "launch", "phase": "backward"},
        {"scenario": 4, "rank": 0, "pattern": "adam", "factor": 3.0},
        {"scenario": 4, "phase": "backward"},
        {"scenario": 5, "rank": 1},
    ) == [
        *((1, 1, "compute", 0.5), (1, 2, "compute", 0.5)),
        *((2, 1, "comm", 0.5), (2, 1, "compute", 0.5), (2, 1, "copy", 0.5)),
        (3, 2, "launch", 0.5),
        (4, 2, "compute", 1.5),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        ({"factor": 1.0},),
        ({"factor": 0.5}, {"factor": 2.0}),  # the two together
        ({"group_id": "dp"},),  # of a group: that is multiplied where ranks meet
        ({"what": "fix"},),  # to the median, whatever factor it has
    ],
)
def test_a_change_that_multiplies_no_class_has_no_factor(changes: tuple[Row, ...]) -> None:
    assert factors(*changes) == []
