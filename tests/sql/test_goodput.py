"""Wall time by class of step: what annotations, gaps and processes say of it, and the measures of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pytest

from evaluation import analyzed, annotation, connection, create_empty, dump_rows, evaluate, insert, link, rows, step

GIVEN = ("rank_step_classes", "rank_memory", "rank_steps", "steps", "run_coverage", "step_mfu", "run_mfu")

CLASSES = "SELECT class, n_steps, duration_ns, wall_ratio, evidence FROM run_goodput ORDER BY class"


def measured(
    steps: Sequence[dict[str, Any]],
    classes: Sequence[dict[str, Any]] = (),
    dumps: Sequence[dict[str, Any]] = (),
    coverage: Sequence[dict[str, Any]] = (),
    windows: Sequence[dict[str, Any]] = (),
    memory: Sequence[dict[str, Any]] = (),
) -> duckdb.DuckDBPyConnection:
    """Return the scope `measures` of a run with these rows."""
    con = connection()
    con.register("dump_table", dump_rows(*(dumps or [{"rank": 0}])))
    con.execute("CREATE TABLE dumps AS FROM dump_table")
    for name in GIVEN:
        create_empty(con, name)
    for table, given in (
        ("steps", steps),
        ("rank_step_classes", classes),
        ("run_coverage", coverage),
        ("rank_steps", windows),
        ("rank_memory", memory),
    ):
        for row in given:
            insert(con, table, **row)
    evaluate(con, "measures", [*GIVEN, "dumps"])
    return con


def lasting(
    *durations_ns: int | None, first_step: int = 1, start_ns: int = 0, capture: int = 0
) -> list[dict[str, Any]]:
    """Return steps that follow each other and last so long."""
    found = []
    for place, duration in enumerate(durations_ns):
        end = None if duration is None else start_ns + duration
        found.append({"capture": capture, "step": first_step + place, "start_ns": start_ns, "end_ns": end,
                      "duration_ns": duration, "n_ranks": 2, "verdict": "ok"})  # fmt: skip
        start_ns = end or 0
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("save_checkpoint", "checkpoint"),
        ("Trainer.save_model_checkpoint", "checkpoint"),
        ("checkpoint_save", "checkpoint"),
        ("dcp.async_save", "checkpoint"),
        ("evaluate", "evaluation"),
        ("## eval_step ##", "evaluation"),
        ("validation loop", "evaluation"),
        ("warm-up", "warm-up"),
        ("checkpoint", None),
        ("torch.utils.checkpoint.CheckpointFunction", None),
        ("retrieval", None),
        ("forward", None),
    ],
)
def test_a_name_says_its_class_and_recomputed_activations_are_no_checkpoint(name: str, expected: str | None) -> None:
    con = analyzed(link([step(1, 0, 1000), annotation(name, 100, 300)]))

    assert rows(con, "SELECT class FROM rank_step_classes") == ([(expected,)] if expected else [])


def test_annotations_of_one_class_count_as_their_union_within_each_window() -> None:
    con = analyzed(
        link(
            [
                step(1, 0, 1000),
                step(2, 1000, 2000),
                annotation("save_checkpoint", 800, 1200),
                annotation("dcp.async_save", 900, 1300, thread=2),
            ]
        )
    )

    found = rows(con, "SELECT step, class, name, duration_ns FROM rank_step_classes ORDER BY step")
    assert found == [(1, "checkpoint", "save_checkpoint", 200), (2, "checkpoint", "save_checkpoint", 300)]


def test_a_step_that_saves_is_split_and_the_slowest_rank_says_how_long_it_took() -> None:
    save = {"class": "checkpoint", "name": "save_checkpoint"}
    con = measured(
        lasting(100, 160, 140),
        [
            {"rank": 0, "step": 2, "duration_ns": 40, **save},
            {"rank": 1, "step": 2, "duration_ns": 60, **save},
            {"rank": 0, "step": 3, "class": "evaluation", "name": "evaluate", "duration_ns": 1000},
        ],
    )

    assert rows(con, CLASSES) == [
        ("checkpoint", 1, 60, 0.15, "annotation save_checkpoint"),
        ("evaluation", 1, 140, 0.35, "annotation evaluate"),
        ("train", 3, 200, 0.5, "no annotation says otherwise"),
    ]
    assert rows(con, "SELECT value FROM run_measures WHERE measure = 'goodput_ratio'") == [(0.5,)]


def test_a_warm_up_step_does_not_train() -> None:
    con = measured(lasting(300, 100), [{"rank": 0, "step": 1, "class": "warm-up", "name": "warmup", "duration_ns": 1}])

    assert rows(con, CLASSES) == [
        ("train", 1, 100, 0.25, "no annotation says otherwise"),
        ("warm-up", 1, 300, 0.75, "annotation warmup"),
    ]


def test_another_process_with_the_next_step_is_a_restart_and_other_gaps_are_left_out() -> None:
    steps = [
        *lasting(100, 100),
        *lasting(100, first_step=3, start_ns=500, capture=1),
        *lasting(100, first_step=50, start_ns=9000, capture=2),
    ]
    dumps = [
        {"rank": 0, "process": 7, "first_step": 1, "last_step": 2},
        {"rank": 0, "process": 8, "first_step": 3, "last_step": 3},
        {"rank": 0, "process": 9, "first_step": 50, "last_step": 50},
    ]
    con = measured(steps, dumps=dumps)

    assert rows(con, CLASSES) == [
        ("not recorded", 1, 8400, None, "step numbers skipped, or the same process: nothing says what it did"),
        ("restart", 1, 300, 3 / 7, "another process goes on with the next step"),
        ("train", 4, 400, 4 / 7, "no annotation says otherwise"),
    ]


def test_a_gap_of_one_process_is_no_restart() -> None:
    steps = [*lasting(100), *lasting(100, first_step=2, start_ns=500, capture=1)]
    dumps = [{"rank": 0, "process": 7, "first_step": n, "last_step": n} for n in (1, 2)]

    found = rows(measured(steps, dumps=dumps), "SELECT class, duration_ns FROM run_goodput ORDER BY class")
    assert found == [("not recorded", 400), ("train", 200)]


def test_without_one_clock_wall_time_is_not_known() -> None:
    con = measured(
        lasting(None, None),
        [{"rank": 0, "step": 1, "class": "checkpoint", "name": "save_checkpoint", "duration_ns": 5}],
    )

    assert rows(con, "SELECT class, duration_ns, wall_ratio, evidence FROM run_goodput ORDER BY class") == [
        ("checkpoint", None, None, "n/a: clocks not aligned"),
        ("train", None, None, "n/a: clocks not aligned"),
    ]
    assert rows(con, "SELECT value, reason FROM run_measures WHERE measure = 'goodput_ratio'") == [
        (None, "n/a: clocks not aligned")
    ]


def test_without_one_clock_gaps_are_counted_and_their_time_is_not_known() -> None:
    steps = [
        *lasting(None, None),
        *lasting(None, first_step=3, capture=1),
        *lasting(None, first_step=9, capture=2),
    ]
    for row in steps:
        row["start_ns"] = None
    dumps = [
        {"rank": 0, "process": 7, "first_step": 1, "last_step": 2},
        {"rank": 0, "process": 8, "first_step": 3, "last_step": 9},
    ]

    assert rows(measured(steps, dumps=dumps), CLASSES) == [
        ("not recorded", 1, None, None, "n/a: clocks not aligned"),
        ("restart", 1, None, None, "n/a: clocks not aligned"),
        ("train", 4, None, None, "n/a: clocks not aligned"),
    ]


def test_where_one_step_has_no_time_nothing_is_said_of_its_class_or_of_any_share() -> None:
    save = {"class": "checkpoint", "name": "save_checkpoint", "rank": 0, "duration_ns": 5}
    lost = lasting(None, first_step=4)
    con = measured([*lasting(100, 100, 100), *lost], [{**save, "step": 3}])

    assert rows(con, CLASSES) == [
        ("checkpoint", 1, 5, None, "annotation save_checkpoint"),
        ("train", 4, None, None, "n/a: clocks not aligned"),
    ]
    assert rows(con, "SELECT value, reason FROM run_measures WHERE measure = 'goodput_ratio'") == [
        (None, "n/a: clocks not aligned")
    ]
    con = measured([*lasting(100, 100, 100), *lost], [{**save, "step": 4}, {**save, "step": 1}])
    assert rows(con, "SELECT class, duration_ns, wall_ratio FROM run_goodput ORDER BY class") == [
        ("checkpoint", None, None),
        ("train", None, None),
    ]


def test_the_measures_of_a_run_and_what_its_steps_say_of_their_noise() -> None:
    steps = lasting(100, 110, 120, 130)
    steps[1] |= {"straggler_rank": 1, "straggler_ns": 23}
    windows = [
        {"rank": r, "step": n, "duration_ns": 100, "exposed_comm_ns": exposed}
        for n, exposed in ((1, 10), (2, 30))
        for r in (0, 1)
    ]
    coverage = [
        {"check": "ranks", "expected": 4, "found": 3, "verdict": "1: ranks without a dump"},
        {"check": "events", "expected": 10, "found": 9, "verdict": "1: events dropped"},
    ]
    memory = [
        {"rank": rank, "step": step, "device": device, "peak_allocated_bytes": peak}
        for rank, step, device, peak in (
            (0, 1, 4, 30),
            (1, 1, 0, 60),
            (1, 2, 0, 40),
            (1, None, 0, 99),
            (0, 2, None, 99),
        )
    ]
    dumps = [
        {"rank": 0, "device_index": 4, "device_memory_bytes": 50},
        {"rank": 1, "device_index": 0, "device_memory_bytes": 80},
    ]
    found = rows(
        measured(steps, coverage=coverage, windows=windows, memory=memory, dumps=dumps),
        "SELECT measure, value, round(noise, 4), n_steps, reason FROM run_measures ORDER BY measure",
    )

    assert found == [
        ("coverage_ratio", 0.75, None, None, "ranks"),
        # Two steps of 0.1 and 0.3: a standard deviation of 0.1414, by the root of two.
        ("exposed_comm_ratio", 0.2, 0.1, 2, None),
        ("goodput_ratio", 1.0, None, None, None),
        # Of steps 0.75 and 0.5: the standard error is half their difference. Neither the host's nor what no step has.
        ("memory_ratio", 0.75, 0.125, 2, None),
        ("mfu_ratio", None, None, None, "no model is told"),
        # Deviations from 115 are 15, 5, 5, 15, their median 10: 1.2533 x 1.4826 x 10 / 2.
        ("step_time_ns", 110.0, 9.2907, 4, None),
        # 23 of 460; by steps 0, 23/110, 0, 0: the standard error is a quarter of the one that is not 0.
        ("straggler_ratio", 0.05, 0.0523, 4, None),
    ]
