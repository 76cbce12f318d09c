"""The rows of a post-mortem, compared with what hand-made runs were built to say."""

from __future__ import annotations

import pytest

from report.postmortem_rows import MS, START, ask, event, path, step, views, window

CLOCK_1 = {"rank": 1, "offset_ns": 5 * MS, "drift_ppb": 0.0, "reference_ns": START, "clock_no": 0, "verdict": "ok"}
STEPS = [step(7, 0, 100), step(8, 100, 240), step(9, 240, 350)]


def test_the_longest_and_the_median_step_are_shown() -> None:
    con = views(runs=[{"n_ranks": 1, "world_size": 2, "verdict": "ok"}], steps=STEPS)
    (found,) = ask(con, "postmortem_run")
    assert (found["n_steps"], found["first_step"], found["last_step"]) == (3, 7, 9)
    assert (found["worst_step"], found["median_step"]) == (8, 9)


def test_a_step_without_aligned_clocks_is_as_long_as_its_longest_window() -> None:
    unknown = {"step": 8, "duration_ns": None, "start_ns": None, "end_ns": None, "verdict": "clock not aligned"}
    con = views(
        runs=[{"verdict": "ok"}],
        steps=[STEPS[0], {"n_ranks": 2, **unknown}, STEPS[2]],
        rank_steps=[window(0, 8, compute=130), window(1, 8, compute=120)],
    )
    assert ask(con, "postmortem_run")[0]["worst_step"] == 8
    (found,) = ask(con, "postmortem_steps", first_step=8, last_step=8, median_step=9, max_rows=4)
    assert (found["length_ns"], found["is_timed"]) == (130 * MS, False)
    assert (found["beyond_ns"], found["beyond_ratio"]) == (20 * MS, 20 / 110)


def test_steps_of_a_range_are_counted_no_further_than_asked() -> None:
    con = views(steps=STEPS)
    found = ask(con, "postmortem_steps", first_step=7, last_step=9, median_step=9, max_rows=2)
    assert [(row["step"], row["length_ns"], row["beyond_ns"]) for row in found] == [
        (7, 100 * MS, -10 * MS),
        (8, 140 * MS, 30 * MS),
    ]


def test_a_rank_is_told_by_what_it_has_most_more_of_than_the_median_rank() -> None:
    con = views(
        steps=STEPS,
        rank_clocks=[CLOCK_1],
        rank_steps=[
            window(0, 8, compute=80, exposed_comm=60),
            window(1, 8, compute=90, exposed_comm=10, host=40),
            window(2, 8, compute=80, exposed_comm=59, turnaround=1),
        ],
        step_path_kinds=[{"step": 8, "kind": "host", "rank": 1, "duration_ns": 140 * MS}],
        step_stragglers=[{"step": 8, "rank": 1, "late_ns": 45 * MS, "is_straggler": True, "cause": "host"}],
    )
    found = ask(con, "postmortem_ranks", step=8, max_drawn=16, max_rows=64)
    assert [(row["rank"], row["excess"], row["excess_ns"]) for row in found] == [
        (0, "exposed comm", MS),
        (1, "host", 40 * MS),
        (2, "turnaround", MS),
    ]
    assert [(row["late_ns"], row["is_straggler"], row["path_ns"]) for row in found] == [
        (0, False, 0),
        (45 * MS, True, 140 * MS),
        (0, False, 0),
    ]
    # the step is 100 to 240 ms on the run's clock, and rank 1's own clock is 5 ms ahead
    assert [(row["from_ns"] - START, row["to_ns"] - START) for row in found] == [
        (100 * MS, 240 * MS),
        (105 * MS, 245 * MS),
        (100 * MS, 240 * MS),
    ]
    assert found[1]["idle_ratio"] == 40 / 140


def test_two_ranks_have_no_median_to_exceed() -> None:
    con = views(steps=STEPS, rank_steps=[window(0, 8, compute=80), window(1, 8, compute=90)])
    assert [row["excess"] for row in ask(con, "postmortem_ranks", step=8, max_drawn=16, max_rows=64)] == [None, None]


def test_of_many_ranks_those_on_the_path_and_their_neighbours_are_drawn() -> None:
    con = views(
        steps=STEPS,
        rank_steps=[window(rank, 8, compute=140) for rank in range(40)],
        step_path_kinds=[
            {"step": 8, "kind": "compute", "rank": 5, "duration_ns": 100 * MS},
            {"step": 8, "kind": "compute", "rank": 30, "duration_ns": 40 * MS},
        ],
    )
    found = ask(con, "postmortem_ranks", step=8, max_drawn=6, max_rows=64)
    assert [row["rank"] for row in found if row["is_drawn"]] == [4, 5, 6, 29, 30, 31]
    assert (found[0]["n_ranks"], found[0]["n_path_ranks"]) == (40, 2)


def test_short_segments_of_a_path_are_laid_together_and_still_add_up_to_the_step() -> None:
    segments = path(
        8,
        100,
        (0, "thread 1", "host", "a", 20),
        (0, "stream 7", "compute", "k", 3),
        (0, "thread 1", "host", "b", 2),
        (0, "stream 7", "compute", "k2", 4),
        (0, "stream 7", "compute", "k", 1),
        (1, "stream 9", "comm", "nccl", 110),
    )
    con = views(steps=STEPS, step_critical_path=segments)
    found = ask(con, "postmortem_path", step=8, n_bins=10)
    # A bin is 14 ms: the segments at 20, 23 and 25 ms begin in one, that at 29 ms in the next.
    assert [
        (r["rank"], r["lane"], r["kind"], r["offset_ns"] // MS, r["end_ns"] // MS, r["n_segments"], r["name"])
        for r in found
    ] == [
        (0, "thread 1", "host", 0, 20, 1, "a"),
        (0, "stream 7", "compute", 20, 27, 2, "k2"),
        (0, "thread 1", "host", 27, 29, 1, "b"),
        (0, "stream 7", "compute", 29, 30, 1, "k"),
        (1, "stream 9", "comm", 30, 140, 1, "nccl"),
    ]
    assert [r["longest_ns"] // MS for r in found] == [20, 4, 2, 1, 110]
    assert [(r["from_rank"], r["from_lane"]) for r in found] == [(None, None)] * 4 + [(0, "stream 7")]


EVENTS = [
    event("kernel", "before", 90, 105, stream=7, kind="compute"),
    event("kernel", "gemm", 110, 150, stream=7, kind="compute"),
    event("kernel", "tiny", 150, 150.1, stream=7, kind="compute"),
    event("kernel", "tiny", 150.2, 150.3, stream=7, kind="compute"),
    event("kernel", "less", 150.25, 150.35, stream=7, kind="compute"),
    event("kernel", "nccl", 120, 170, stream=20, kind="comm"),
    event("cpu_op", "aten::linear", 100, 130, thread=1),
    event("cpu_op", "aten::mm", 105, 110, thread=1),
    event("runtime", "cudaLaunchKernel", 131, 132, thread=1),
    event("annotation", "forward", 95, 125, thread=1),
    event("annotation", "epoch", 90, 250, thread=1),
    event("cpu_op", "later", 241, 250, thread=1),
    event("python", "frame", 100, 240, thread=1),
    event("kernel", "nothing", 160, 160, stream=7, kind="compute"),
]
BARS = {
    "rank": 1, "step": 8, "from_ns": START + 105 * MS, "to_ns": START + 245 * MS, "read_ns": START,
    "start_ns": START + 100 * MS, "length_ns": 140 * MS, "n_bins": 100, "max_streams": 4, "max_threads": 2,
}  # fmt: skip
WAIT = {
    "step": 8, "rank": 1, "arrival_ns": START + 120 * MS, "end_ns": START + 170 * MS, "wait_ns": 30 * MS,
}  # fmt: skip


def test_the_lanes_of_a_rank_show_long_events_alone_and_short_ones_together() -> None:
    rows = [{**row, "row_id": place} for place, row in enumerate(EVENTS)]
    con = views(events=rows, rank_clocks=[CLOCK_1], collectives=[WAIT])
    found = ask(con, "postmortem_bars", **BARS)
    assert [
        (r["lane_no"], r["lane"], r["shows"], r["kind"], r["offset_ns"], r["end_ns"], r["busy_ns"], r["n_events"])
        for r in found
    ] == [
        (0, "thread 1", "ranges", "range", 0, 25_000_000, 25_000_000, 1),
        (1, "thread 1", "calls", "call", 0, 30_000_000, 30_000_000, 1),
        (1, "thread 1", "calls", "call", 31_000_000, 32_000_000, 1_000_000, 1),
        (2, "stream 7", "work", "compute", 0, 5_000_000, 5_000_000, 1),
        (2, "stream 7", "work", "compute", 10_000_000, 50_000_000, 40_000_000, 1),
        (2, "stream 7", "work", "compute", 50_000_000, 50_350_000, 250_000, 3),
        (3, "stream 20", "work", "wait", 20_000_000, 50_000_000, 30_000_000, 0),
        (3, "stream 20", "work", "comm", 50_000_000, 70_000_000, 20_000_000, 1),
    ]
    assert [(r["shortest_ns"], r["longest_ns"], r["name"]) for r in found][4:6] == [
        (40_000_000, 40_000_000, "gemm"),
        (100_000, 100_000, "tiny"),
    ]
    # on stream 7 five events, on the thread two calls of three: aten::mm lies in aten::linear
    assert {r["lane"] + r["shows"]: r["n_lane_events"] for r in found} == {
        "thread 1ranges": 1,
        "thread 1calls": 2,
        "stream 7work": 5,
        "stream 20work": 1,
    }
    assert {(r["n_lanes"], r["n_all_events"]) for r in found} == {(3, 10)}


def test_without_aligned_clocks_a_rank_is_drawn_from_its_own_start_and_no_collective_is_split() -> None:
    rows = [{**row, "row_id": place} for place, row in enumerate(EVENTS)]
    con = views(events=rows, rank_clocks=[CLOCK_1], collectives=[WAIT])
    found = ask(con, "postmortem_bars", **BARS | {"start_ns": None})
    assert [(r["kind"], r["offset_ns"] // MS, r["end_ns"] // MS) for r in found if r["lane"] == "stream 20"] == [
        ("comm", 20, 70)
    ]


def test_a_stream_that_is_busy_for_less_than_a_thousandth_of_the_step_is_no_lane() -> None:
    rows = [
        event("kernel", "gemm", 110, 150, stream=7, kind="compute", row_id=0),
        event("kernel", "tiny", 150, 150.1, stream=8, kind="compute", row_id=1),
    ]
    found = ask(views(events=rows, rank_clocks=[CLOCK_1]), "postmortem_bars", **BARS)
    assert [(r["lane"], r["n_lanes"], r["n_all_events"]) for r in found] == [("stream 7", 2, 2)]


def test_collectives_say_who_came_when() -> None:
    instance = {
        "step": 8, "shard_step": 8, "group_id": "g", "seq": 4, "op": "all_reduce", "shape": "s", "n_ranks": 2,
        "n_present": 2, "n_bytes": 64, "first_arrival_ns": START + 110 * MS, "last_arrival_ns": START + 140 * MS,
        "skew_ns": 30 * MS, "last_rank": 1, "transfer_ns": 5 * MS, "verdict": "ok",
    }  # fmt: skip
    short = {**instance, "seq": 5, "skew_ns": MS, "first_arrival_ns": START + 150 * MS,
             "last_arrival_ns": START + 151 * MS}  # fmt: skip
    member = {"step": 8, "group_id": "g", "seq": 4, "shape": "s"}
    con = views(
        steps=STEPS,
        collective_instances=[short, instance],
        collectives=[
            {**member, "rank": 0, "arrival_ns": START + 110 * MS, "wait_ns": 30 * MS, "exposed_ns": 9 * MS,
             "activity_no": 1},
            {**member, "rank": 1, "arrival_ns": START + 140 * MS, "wait_ns": 0, "exposed_ns": 2 * MS,
             "activity_no": 1},
        ],
    )  # fmt: skip
    found = ask(con, "postmortem_collectives", step=8, max_rows=1, max_ranks=16)
    assert [(r["place"], r["seq"], r["rank"], r["arrival_ns"], r["behind_ns"], r["is_last"]) for r in found] == [
        (1, 4, 0, 10 * MS, 0, False),
        (1, 4, 1, 40 * MS, 30 * MS, True),
    ]
    assert (found[0]["first_ns"], found[0]["last_ns"], found[0]["exposed_ns"]) == (10 * MS, 40 * MS, 9 * MS)
    assert (found[0]["n_collectives"], found[0]["all_skew_ns"], found[0]["shown_skew_ns"]) == (2, 31 * MS, 30 * MS)


def test_a_step_is_compared_by_kind_rank_and_kernel() -> None:
    kinds = [(8, "host", 90), (8, "compute", 50), (9, "host", 50), (9, "compute", 55), (9, "copy", 5)]
    kernels = [
        (0, 8, "gemm", 40, 2),
        (0, 9, "gemm", 50, 2),
        (1, 8, "new", 3, 1),
        (1, 9, "old", 4, 1),
        (2, 8, "one", 9, 1),
    ]
    con = views(
        step_path_kinds=[{"step": s, "kind": k, "rank": 0, "duration_ns": ms * MS} for s, k, ms in kinds],
        kernels=[
            {"rank": r, "step": s, "name": name, "kind": "compute", "total_ns": ms * MS, "n_calls": n}
            for r, s, name, ms, n in kernels
        ],
        rank_steps=[
            window(0, 8, compute=50, host=90),
            window(0, 9, compute=55, host=50, exposed_copy=5),
            window(1, 8, compute=140),
            window(1, 9, compute=110),
            window(2, 8, compute=140),
        ],
    )
    two = {"step": 8, "other_step": 9}
    assert [(r["kind"], r["change_ns"] // MS) for r in ask(con, "postmortem_kinds", **two)] == [
        ("host", 40),
        ("compute", -5),
        ("copy", -5),
    ]
    found = ask(con, "postmortem_changes", **two, max_rows=64)
    assert [(r["rank"], r["change_ns"] // MS, r["grown"], r["shrunk"]) for r in found] == [
        (0, 30, "host", "compute"),  # copies shrank as much
        (1, 30, "compute", None),
    ]
    assert [(r["grown_ns"], r["shrunk_ns"]) for r in found] == [(40 * MS, -5 * MS), (30 * MS, None)]
    # rank 2 did not record step 9
    assert [
        (r["name"], r["n_calls"], r["n_other_calls"], r["change_ns"] // MS)
        for r in ask(con, "postmortem_kernels", **two, max_rows=15)
    ] == [("gemm", 2, 2, -10), ("old", 0, 1, -4), ("new", 1, 0, 3)]


def test_neighbours_alike_are_one_stall_and_device_work_is_none() -> None:
    segments = path(
        8,
        100,
        (0, "thread 1", "host", "(no event)", 20),
        (0, "thread 1", "host", "(no event)", 10),
        (0, "stream 7", "compute", "gemm", 90),
        (0, "thread 1", "sync", "cudaFree", 15),
        (0, "thread 1", "input", "next", 5),
    )
    con = views(steps=STEPS, step_critical_path=segments)
    found = ask(con, "postmortem_stalls", step=8, max_rows=2)
    assert [
        (r["offset_ns"] // MS, r["duration_ns"] // MS, r["kind"], r["n_segments"], r["next_kind"]) for r in found
    ] == [
        (0, 30, "host", 2, "compute"),
        (120, 15, "sync", 1, "input"),
    ]
    assert {(r["n_stalls"], r["all_ns"] // MS, r["shown_ns"] // MS) for r in found} == {(3, 50, 45)}
    assert found[0]["share_ratio"] == 30 / 140


def test_a_stall_is_told_by_what_ended_before_what_holds_it_and_what_runs_in_it() -> None:
    rows = [
        event("cpu_op", "first", 90, 95, thread=1),
        event("cpu_op", "second", 100, 118, thread=1),
        event("runtime", "cudaMemcpyAsync", 116, 118.5, thread=1),
        event("annotation", "epoch", 50, 300, thread=1),
        event("annotation", "forward", 119, 160, thread=1),
        event("cpu_op", "inside", 125, 128, thread=1),
        event("cpu_op", "elsewhere", 121, 129, thread=2),
        event("cpu_op", "after", 131, 132, thread=1),
    ]
    con = views(events=[{**row, "row_id": place} for place, row in enumerate(rows)], rank_clocks=[CLOCK_1])
    found = ask(
        con,
        "postmortem_around",
        rank=1,
        lane="thread 1",
        read_ns=START,
        to_ns=START + 245 * MS,
        start_ns=START + 120 * MS,
        end_ns=START + 130 * MS,
        max_rows=2,
    )
    assert [(r["place"], r["place_no"], r["name"], r["offset_ns"] // MS, r["n_place"]) for r in found] == [
        ("around", 1, "epoch", -70, 2),
        ("around", 2, "forward", -1, 2),
        ("before", 1, "second", -20, 3),
        ("before", 2, "cudaMemcpyAsync", -4, 3),
        ("within", 1, "inside", 5, 1),
    ]


def _ends(last_steps: tuple[int, ...] = (9, 9, 9), truncated: int | None = None) -> list[tuple[int, bool, int]]:
    """Return rank, whether it stopped early and how many ms before the last, of three ranks."""
    windows = [window(rank, n, compute=1) for rank, last in enumerate(last_steps) for n in range(7, last + 1)]
    con = views(
        rank_clocks=[CLOCK_1, *({**CLOCK_1, "rank": rank, "offset_ns": 0} for rank in (0, 2))],
        dumps=[
            {"dump": f"d{rank}", "rank": rank, "last_ns": START + 400 * MS, "is_truncated": rank == truncated,
             "n_lost_bytes": 0, "verdict": "ok"}
            for rank in (0, 1, 2)
        ],
        rank_steps=windows,
        rank_captures=[
            {"rank": rank, "capture": 0, "end_ns": START + end * MS, "n_activities": 1}
            for rank, end in ((0, 350), (1, 345), (2, 349))
        ],
    )  # fmt: skip
    found = ask(con, "postmortem_ends", max_rows=8)
    return [(r["rank"], r["is_early"], r["before_ns"] // MS) for r in found]


def test_ranks_that_stop_milliseconds_apart_did_not_stop_early() -> None:
    # rank 1's clock is 5 ms ahead: its 345 are the run's 340
    assert _ends() == [(1, False, 10), (2, False, 1), (0, False, 0)]


def test_a_rank_with_fewer_steps_or_a_cut_dump_stopped_early() -> None:
    assert _ends(last_steps=(9, 9, 8)) == [(2, True, 1), (1, False, 10), (0, False, 0)]
    assert _ends(truncated=0) == [(0, True, 0), (1, False, 10), (2, False, 1)]


def test_the_last_events_of_a_rank_are_those_that_ended_last_and_those_that_did_not_end() -> None:
    rows = [
        event("kernel", "one", 100, 110, stream=7, kind="compute"),
        event("kernel", "two", 112, 120, stream=7, kind="compute"),
        event("kernel", "after", 121, 130, stream=7, kind="compute"),
        event("cpu_op", "backward", 90, 140, thread=1),
        {**event("runtime", "cudaStreamSynchronize", 118, 119, thread=1), "duration_ns": None},
        event("cpu_op", "forward", 60, 80, thread=1),
    ]
    con = views(events=[{**row, "row_id": place} for place, row in enumerate(rows)])
    last = START + 125 * MS  # its own clock: 120 ms of the run
    found = ask(con, "postmortem_last_events", rank=1, read_ns=START, last_ns=last, max_rows=2)
    assert [(r["side"], r["name"], r["before_ns"] // MS, r["duration_ns"]) for r in found] == [
        ("device", "two", 8, 8 * MS),
        ("device", "one", 20, 10 * MS),
        ("host", "cudaStreamSynchronize", 2, None),
        ("host", "backward", 30, 50 * MS),
    ]


@pytest.mark.parametrize(("stop_ms", "expected"), [(150, [(6, [2]), (7, [1, 2])]), (300, [])])
def test_collectives_after_the_stop_say_which_recorded_ranks_are_missing(
    stop_ms: int, expected: list[tuple[int, list[int]]]
) -> None:
    instance = {"step": 8, "group_id": "g", "op": "all_reduce", "shape": "s", "n_ranks": 4}
    arrivals = {4: (110, (0, 1)), 5: (140, (0, 1, 2, 3)), 6: (160, (0, 1)), 7: (180, (0,))}
    con = views(
        ranks=[{"rank": rank, "is_recorded": rank < 3} for rank in range(4)],
        groups=[{"group_id": "g", "rank": rank} for rank in range(4)],
        collective_instances=[
            {**instance, "seq": seq, "n_present": len(came), "first_arrival_ns": START + at * MS,
             "last_arrival_ns": START + at * MS, "end_ns": START + (at + 5) * MS}
            for seq, (at, came) in arrivals.items()
        ],
        collectives=[
            {"step": 8, "group_id": "g", "shape": "s", "seq": seq, "rank": rank, "arrival_ns": START + at * MS}
            for seq, (at, came) in arrivals.items()
            for rank in came
        ],
    )  # fmt: skip
    found = ask(con, "postmortem_open", stop_ns=START + stop_ms * MS, max_ranks=16, max_rows=5)
    assert [(r["seq"], r["missing_ranks"]) for r in found] == expected
    assert {r["n_open"] for r in found} <= {2}
