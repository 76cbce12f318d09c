"""Numbers of a whole run from rows of its steps, ranks and dumps: MFU and its trend, wall time, coverage, measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation import Row, answer

MS = 1_000_000


def trend(*mfu_ratios: float, hfu_ratios: Sequence[float | None] = ()) -> tuple[Any, ...]:
    """Return what run_mfu says of steps of 1 s and 100 FLOPs each that have such ratios."""
    steps = [
        {"step": n, "duration_ns": 1000 * MS, "model_flops": 100, "mfu_ratio": mfu, "hfu_ratio": hfu, "tokens": 10}
        for n, (mfu, hfu) in enumerate(zip(mfu_ratios, hfu_ratios or [None] * len(mfu_ratios), strict=True), 1)
    ]
    [found] = answer(
        "run_mfu",
        "first_third_ratio, last_third_ratio, trend, round(hfu_ratio, 9)",
        step_mfu=steps,
        params=[{"mfu_trend_ratio": 0.03}],
    )
    return found


def test_a_trend_compares_the_medians_of_the_first_and_the_last_third() -> None:
    assert trend(0.5, 0.5, 0.9, 0.9, 0.25, 0.25) == (0.5, 0.25, "falling", None)
    assert trend(0.25, 0.25, 0.9, 0.9, 0.5, 0.5) == (0.25, 0.5, "rising", None)
    assert trend(0.5, 0.5, 0.9, 0.1, 0.5, 0.5) == (0.5, 0.5, "steady", None)
    assert trend(0.5, 0.5, 0.5, 0.5, 0.49, 0.49) == (0.5, 0.49, "steady", None)  # 2 % less, of 3
    assert trend(0.49, 0.49, 0.5, 0.5, 0.5, 0.5) == (0.49, 0.5, "steady", None)
    assert trend(0.5, 0.5, 0.5, 0.5, 0.485, 0.485) == (0.5, 0.485, "steady", None)  # 3 % to the last digit
    assert trend(0.485, 0.485, 0.5, 0.5, 0.5, 0.5) == (0.485, 0.5, "steady", None)


def test_five_steps_are_too_few_for_a_trend() -> None:
    assert trend(0.5, 0.5, 0.5, 0.25, 0.25) == (None, None, "too few steps", None)


def test_a_run_has_an_hfu_where_each_of_its_steps_has() -> None:
    assert trend(0.25, 0.25, hfu_ratios=(0.5, 0.25)) == (None, None, "too few steps", 0.375)
    assert trend(0.25, 0.25, hfu_ratios=(0.5, None)) == (None, None, "too few steps", None)


def goodput(
    steps: Sequence[tuple[int, int, int, int]],
    classes: Sequence[tuple[int, int, str, str, int]] = (),
    processes: Sequence[tuple[int, int, int, int]] = (),
) -> list[tuple[Any, ...]]:
    """Return class, n_steps, duration_ns and evidence.

    Args:
        steps: Capture, step, start and end.
        classes: Rank, step, class, name and duration of what is not training.
        processes: Rank, process, first and last step of a dump.
    """
    return answer(
        "run_goodput",
        "class, n_steps, duration_ns, evidence",
        steps=[
            {"capture": capture, "step": step, "start_ns": start, "end_ns": end, "duration_ns": end - start}
            for capture, step, start, end in steps
        ],
        rank_step_classes=[
            {"rank": rank, "step": step, "class": kind, "name": name, "duration_ns": duration}
            for rank, step, kind, name, duration in classes
        ],
        dumps=[
            {"rank": rank, "process": process, "first_step": first, "last_step": last}
            for rank, process, first, last in processes
        ],
    )


def test_a_step_is_its_longest_checkpoint_then_its_longest_evaluation_then_training() -> None:
    steps = [(0, step, 100 * step, 100 * step + 100) for step in (1, 2, 3, 4, 5)]
    classes = [
        (0, 1, "checkpoint", "save", 10),
        (1, 1, "checkpoint", "save_all", 20),  # the rank where it takes longest counts
        (0, 1, "evaluation", "eval", 30),
        (1, 1, "evaluation", "validate", 5),
        (0, 2, "checkpoint", "save", 70),
        (0, 2, "evaluation", "eval", 50),  # 30 of it are left beside the checkpoint
        (0, 3, "warm-up", "warm-up", 0),
        (1, 3, "warm-up", "warm-up", 40),  # all the rest of such a step is no training
        (0, 4, "warm-up", "warm-up", 0),  # none of it lies in the step
        (0, 4, "checkpoint", "async_save", 0),
        (0, 4, "evaluation", "eval", 0),
    ]
    assert goodput(steps, classes) == [
        ("checkpoint", 2, 20 + 70, "annotation save"),
        ("evaluation", 2, 30 + 30, "annotation eval"),
        ("train", 4, 50 + 0 + 100 + 100, "no annotation says otherwise"),
        ("warm-up", 1, 100, "annotation warm-up"),
    ]


NOT_RECORDED = "step numbers skipped, or the same process: nothing says what it did"
RESTART = "another process goes on with the next step"


def test_a_gap_is_a_restart_where_a_rank_goes_on_in_another_process_with_the_next_step() -> None:
    """Gaps of 1, 20 and 300 ns between four captures of two ranks; rank 0 is another process from step 5 on."""
    steps = [(0, 1, 0, 50), (0, 2, 50, 100), (1, 3, 101, 150), (1, 4, 150, 200), (2, 5, 220, 300), (3, 6, 600, 700)]
    processes = [
        (0, 7, 1, 2),
        (0, 7, 3, 4),
        (0, 8, 5, 5),
        (0, 8, 6, 6),
        (1, 9, 1, 2),
        (1, 9, 3, 4),
        (1, 9, 5, 5),
        (1, 9, 6, 6),
    ]
    assert goodput(steps, processes=processes) == [
        ("not recorded", 2, 1 + 300, NOT_RECORDED),
        ("restart", 1, 20, RESTART),
        ("train", 6, 100 + 99 + 80 + 100, "no annotation says otherwise"),
    ]


def test_another_process_that_does_not_go_on_with_the_next_step_is_no_restart() -> None:
    processes = [(0, 7, 1, 2), (0, 8, 4, 5)]
    skipped = [(0, 1, 0, 50), (0, 2, 50, 100), (1, 4, 110, 150), (1, 5, 150, 200)]
    assert goodput(skipped, processes=processes)[0] == ("not recorded", 1, 10, NOT_RECORDED)
    again = [(0, 1, 0, 50), (0, 2, 50, 100), (1, 3, 110, 150), (1, 4, 150, 200)]
    assert goodput(again, processes=[(0, 7, 1, 2), (0, 8, 3, 4)])[0] == ("restart", 1, 10, RESTART)


UNREADABLE: Row = {
    "rank": None, "error": "it is damaged", "verdict": "unreadable", "n_events": 0, "n_stored": 0, "world_size": None,
}  # fmt: skip


def test_coverage_counts_what_a_whole_recording_would_hold() -> None:
    found = answer(
        "run_coverage",
        '"check", expected, found, verdict',
        ranks=[{"rank": rank, "host": f"node{rank}", "is_recorded": rank < 3} for rank in range(4)],
        dumps=[
            {"rank": 0, "n_events": 10, "n_stored": 8, "n_skipped": 2},
            {"rank": 1, "n_events": 20, "n_stored": 15, "n_skipped": 2, "n_dropped": 3, "is_truncated": True},
            {"rank": 2, "n_events": 30, "n_stored": 30},
            UNREADABLE,
        ],
        rank_steps=[
            {"rank": rank, "step": step, "n_activities": 9, "n_unlinked": 1}
            for rank, step in ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1))
        ],
        rank_captures=[
            {"rank": rank, "step_source": source, "n_activities": 20, "n_unlinked": 2}
            for rank, source in enumerate(("marker", "window", "marker"))
        ],
        collective_instances=[{"is_complete": is_complete} for is_complete in (True, False, False, True, True)],
        rank_clocks=[{"rank": rank, "clock_no": clock} for rank, clock in ((0, 0), (1, 1), (2, 1))],
        _clock_basis=[{"is_shared": False, "basis": "2 hosts without a collective that ties them"}],
        rank_telemetry=[
            {"rank": rank, "step": step, "sm_clock_hz": clock, "verdict": verdict}
            for rank, step, clock, verdict in (
                (0, 1, 10, "ok"),
                (0, 2, 10, "ok"),
                (1, 1, None, "no sample in its time"),
                (1, 2, 10, "ok"),
                (2, 1, None, "its device is not known"),
                (2, 2, None, "its device is not known"),
                (3, 1, None, "its host is not known"),
            )
        ],
        telemetry=[
            {"host": host, "host_key": key, "file_name": "t.csv"}
            for host, key in (("node1", "node1"), ("node9.b", "node9"), ("node9.a", "node9"), (None, None))
        ],
    )  # fmt: skip
    assert sorted(found) == [
        ("activities with their launch", 60, 54, "6: launches missing: in no step, yet busy"),
        ("activities with their launch, in step windows", 45, 40, "5: launches missing inside step windows"),
        ("captures with step markers", 3, 2, "1: captures without markers: each one window"),
        ("collectives with every member", 5, 3, "2: collectives with a member not recorded"),
        ("dumps read", 4, 3, "1: dumps that could not be read"),
        ("dumps with their end", 3, 2, "1: dumps cut off"),
        ("events", 60, 57, "3: events dropped"),
        ("hosts of telemetry", 2, 1, "1: no rank is known to be on node9.a"),
        ("rank-steps", 8, 5, "3: steps that a rank did not record"),
        ("ranks", 4, 3, "1: ranks without a dump"),
        ("ranks on one clock", 3, 2, "1: 2 hosts without a collective that ties them"),
        ("ranks with telemetry", 4, 2, "2: its device is not known"),
    ]


def test_a_run_without_telemetry_is_not_asked_for_it_and_nothing_to_count_is_said() -> None:
    found = answer(
        "run_coverage", '"check", expected, verdict', dumps=[{"rank": 0}], _clock_basis=[{"basis": "one rank"}]
    )
    assert "ranks with telemetry" not in [row[0] for row in found]
    assert "hosts of telemetry" not in [row[0] for row in found]
    assert ("activities with their launch", None, "n/a: nothing to count") in found


def measure(name: str, **given: Sequence[Row]) -> tuple[Any, ...]:
    found = answer("run_measures", "measure, value, reason", **given)
    return next(row[1:] for row in found if row[0] == name)


def test_coverage_is_the_least_share_of_what_could_be_counted() -> None:
    checks = [("collectives", 0, 0), ("dumps", 4, 3), ("events", None, None), ("ranks", 4, 4)]
    coverage = [{"check": check, "expected": expected, "found": found} for check, expected, found in checks]
    assert measure("coverage_ratio", run_coverage=coverage) == (0.75, "dumps")
    assert measure("coverage_ratio", run_coverage=coverage[3:]) == (1.0, None)
    assert measure("coverage_ratio", run_coverage=coverage[:1]) == (None, "nothing to count")


@pytest.mark.parametrize(
    ("classes", "value", "reason"),
    [
        ([("train", True, 0.5, "said so"), ("not recorded", False, None, "skipped")], 0.5, None),
        (
            [("not recorded", False, None, "skipped"), ("train", True, None, "n/a: clocks not aligned")],
            None,
            "n/a: clocks not aligned",
        ),
        ([("not recorded", False, None, "skipped"), ("warm-up", False, 1.0, "so")], None, "no step of training"),
        ([("warm-up", False, 1.0, "annotation warm-up")], None, "no step of training"),
    ],
)  # fmt: skip
def test_goodput_is_the_share_that_trains_or_why_it_is_not_known(
    classes: Sequence[tuple[str, bool, float | None, str]], value: float | None, reason: str | None
) -> None:
    given = [{"class": c, "is_useful": useful, "wall_ratio": share, "evidence": e} for c, useful, share, e in classes]
    assert measure("goodput_ratio", run_goodput=given) == (value, reason)


def test_measures_of_a_step_leave_out_what_has_no_length_or_no_size() -> None:
    found = answer(
        "_step_measures",
        rank_steps=[
            {"rank": rank, "step": step, "duration_ns": duration, "exposed_comm_ns": exposed}
            for rank, step, duration, exposed in (
                (0, 1, 100, 10),
                (1, 1, 300, 30),
                (2, 1, 200, 20),
                (0, 2, 0, 0),
                (1, 2, 0, 0),
                (0, 3, 50, 25),
            )
        ],
        steps=[
            {"step": 1, "duration_ns": 400, "n_ranks": 3, "straggler_ns": 40},
            {"step": 2, "duration_ns": 0, "n_ranks": 2, "straggler_ns": None},
            {"step": 3, "duration_ns": None, "n_ranks": 1, "straggler_ns": None},  # clocks are not aligned
        ],
        step_mfu=[{"step": 1, "mfu_ratio": 0.5}, {"step": 2, "mfu_ratio": None}],
        dumps=[
            {"rank": rank, "device_index": device, "device_memory_bytes": size}
            for rank, device, size in ((0, 0, 1000), (0, 0, None), (1, 1, 0), (2, 2, None), (3, 3, 1000))
        ],
        rank_memory=[
            {"rank": rank, "step": step, "device": device, "peak_allocated_bytes": peak}
            for rank, step, device, peak in (
                (0, 1, 0, 600),
                (0, 2, 0, None),  # a dump without totals
                (0, 3, 1, 900),  # of a device whose size is not known
                (0, None, 0, 990),  # outside the steps
                (1, 2, 1, 500),
                (2, 2, 2, 500),
                (3, 1, 3, 700),
            )
        ],
    )
    assert found == [
        ("exposed_comm_ratio", 1, 0.1, 60.0, 600.0),
        ("exposed_comm_ratio", 3, 0.5, 25.0, 50.0),
        ("memory_ratio", 1, 0.7, None, None),
        ("mfu_ratio", 1, 0.5, None, None),
        ("step_time_ns", 1, 400.0, None, None),
        ("step_time_ns", 2, 0.0, None, None),
        ("step_time_ns", 3, 50.0, None, None),
        ("straggler_ratio", 1, 0.1, 40.0, 400.0),
    ]


def test_each_reason_to_doubt_a_run_is_said_with_its_size() -> None:
    shared: Row = {"is_shared": True, "basis": "one host: a"}
    ranks = [{"rank": rank, "is_recorded": True, "device_name": "H100"} for rank in (0, 1)]
    select = "world_size, n_ranks, verdict, reasons"

    whole = answer("runs", select, ranks=ranks, dumps=[{"rank": 0}, {"rank": 1}], _clock_basis=[shared])
    assert whole == [(2, 2, "ok", [])]

    found = answer(
        "runs",
        select,
        ranks=[*ranks, {"rank": 2, "is_recorded": False}],
        dumps=[{"rank": 0}, {"rank": 1, "verdict": "cut off"}, UNREADABLE, UNREADABLE],
        _clock_basis=[shared],
        rank_steps=[
            {"rank": rank, "step": 1, "verdict": verdict}
            for rank, verdict in ((0, "ok"), (1, "3 launches missing; clock not aligned"), (2, "7 launches missing"))
        ],
    )
    reasons = ["dump in doubt: 1 (cut off)", "dump unreadable: 2", "rank absent: 1 of 3"]
    assert found == [(3, 2, "doubts", [*reasons, "launches missing: 2 of 3 rank-steps"])]
