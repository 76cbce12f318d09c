"""The shipped SQL gives the paths and the predictions that the reference works out event by event.

LONGPOLE_PATH_CASES sets how many random cases each property takes.
"""

from __future__ import annotations

import itertools
import os
import random

from evaluation import Row, kernel, launch_call, link, operator, step
from path_cases import Case, for_each
from path_pipeline import Change, Pipeline
from path_reference import Element, Segment, merged, paths, replay

N_CASES = int(os.environ.get("LONGPOLE_PATH_CASES", "10"))

US = 1_000


def shipped_paths(pipeline: Pipeline) -> dict[int, list[Segment]]:
    found: dict[int, list[Segment]] = {}
    for row_step, _, rank, lane, kind, name, start, end, _, _ in pipeline.paths().fetchall():
        found.setdefault(row_step, []).append(Segment(rank, lane, kind, name, start, end))
    return found


def predicted(pipeline: Pipeline) -> dict[tuple[int, int], int]:
    rows = pipeline.predictions().fetchall()
    return {(scenario, number): ns for scenario, _, number, _, ns in rows}


def test_paths_and_the_unchanged_replay_are_the_references() -> None:
    def check(case: Case) -> None:
        tables = case.tables()
        pipeline = Pipeline(tables)
        shipped = shipped_paths(pipeline)
        assert {n: merged(shipped.get(n, [])) for n in paths(tables)} == {
            n: merged(segments) for n, segments in paths(tables).items()
        }
        expected = replay(tables)
        assert {n: ns for (_, n), ns in predicted(pipeline).items() if n in expected} == expected

    for_each(check, N_CASES, only_causal=True)


def test_a_path_tiles_its_step_whatever_the_times_say() -> None:
    def check(case: Case) -> None:
        pipeline = Pipeline(case.tables())
        shipped = shipped_paths(pipeline)
        steps = pipeline.con.execute("SELECT step, start_ns, end_ns FROM steps WHERE end_ns > start_ns").fetchall()
        assert sorted(shipped) == sorted(n for n, _, _ in steps)
        for number, start, end in steps:
            path = shipped[number]
            assert (path[0].start_ns, path[-1].end_ns) == (start, end)
            assert all(a.end_ns == b.start_ns for a, b in itertools.pairwise(path))

    for_each(check, N_CASES)


def test_predictions_under_random_changes_are_the_references() -> None:
    def check(case: Case) -> None:
        tables = case.tables()
        draw = random.Random(len(tables) + sum(len(r) for r in case.rows.values()))  # noqa: S311  no secret
        scenarios = [[random_change(draw, n) for _ in range(draw.randint(1, 2))] for n in range(1, 5)]
        shipped = predicted(Pipeline(tables, changes=[c for changes in scenarios for c in changes]))
        for n, changes in enumerate(scenarios, 1):
            expected = replay(tables, lambda e, changes=changes: changed(e, changes))  # type: ignore[misc]
            assert {number: shipped[n, number] for number in expected} == expected

    for_each(check, N_CASES, only_causal=True)


def random_change(draw: random.Random, scenario: int) -> Change:
    kind = draw.choice(["compute", "host", "copy", "comm", "input", "sync", None])
    return {
        "scenario": scenario,
        "what": "scale",
        "kind": kind,
        "rank": draw.choice([None, 0, 1]) if kind not in ("comm", None) else None,
        "pattern": draw.choice([None, None, "gemm", "aten", "norm", "cuda", "no event"]),
        "factor": float(draw.choice([0, 2, 3])),
    }


def changed(element: Element, changes: list[Change]) -> int:
    kind = "comm" if element.what == "transfer" else element.kind
    factor = 1.0
    for change in changes:
        is_meant = (
            (kind == change["kind"] or (change["kind"] is None and element.what != "launch"))
            and change["rank"] in (None, element.rank)
            and (change["pattern"] or "") in element.name
        )
        factor *= change["factor"] if is_meant else 1.0
    return int(element.ns * factor)


def launched(launch: int, start: int, end: int, name: str, stream: int = 7) -> list[Row]:
    return [
        launch_call(launch * US, (launch + 1) * US),
        kernel(start * US, end * US, stream=stream, launch=launch * US, name=name),
    ]


def three_ranks_of_which_one_stalls() -> dict[int, list[Row]]:
    """Return ranks that launch a kernel after 10 µs of host time; on rank 2 it takes 60."""
    late = {0: 10, 1: 10, 2: 60}
    return {r: [step(1, 0, 300 * US), *launched(t, t + 5, t + 105, "gemm")] for r, t in late.items()}


def test_a_rank_at_the_median_loses_its_stall_and_gains_nothing_else() -> None:
    tables = {r: link(rows) for r, rows in three_ranks_of_which_one_stalls().items()}
    changes: list[Change] = [
        {"scenario": 1, "what": "fix", "rank": 2},
        {"scenario": 2, "what": "fix", "rank": 0},
        {"scenario": 3, "what": "fix"},
        {"scenario": 4, "what": "fix", "rank": 2, "kind": "compute"},
    ]
    # The first launch of a recording has no host time before it that is known, so a second kernel shows the stall.
    for r, t in {0: 120, 1: 120, 2: 400}.items():
        rows = [
            *three_ranks_of_which_one_stalls()[r],
            *launched(t + 10, max(t + 15, 170), max(t + 15, 170) + 50, "norm"),
        ]
        rows[0] = step(1, 0, 500 * US)
        tables[r] = link(rows)

    found = predicted(Pipeline(tables, changes=changes))

    assert {n: ns // US for (n, _), ns in found.items()} == {0: 465, 1: 235, 2: 465, 3: 235, 4: 465}


def test_a_phase_is_its_patterns_else_optimizer_else_backward_else_forward() -> None:
    rows = [
        step(1, 0, 1000 * US),
        *launched(10, 12, 112, "a"),
        operator("autograd::engine::evaluate_function: MmBackward0", 20 * US, 40 * US),
        *launched(30, 112, 312, "b"),
        operator("Optimizer.step#Adam.step", 50 * US, 90 * US),
        *launched(60, 312, 712, "c"),
        operator("my_loss", 95 * US, 99 * US),
        *launched(96, 712, 1512, "d"),
    ]
    names = ("forward", "backward", "optimizer", "loss")
    changes = [
        {"scenario": n, "what": "scale", "kind": "compute", "phase": phase, "factor": 0.0}
        for n, phase in enumerate(names, 1)
    ]

    found = predicted(Pipeline({0: link(rows)}, changes=changes, phases=[("loss", "my_loss")]))

    whole = found[0, 1]
    assert {names[n - 1]: (whole - ns) // US for (n, _), ns in found.items() if n} == {
        "forward": 80,  # of 100: "b" is launched at 30 and needs 2
        "backward": 200,
        "optimizer": 400,
        "loss": 800,
    }
