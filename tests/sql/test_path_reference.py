"""The reference of the critical path and of the replay says what a person works out by hand."""

from __future__ import annotations

import itertools

import pytest

from evaluation import Row, annotation, kernel, launch_call, link, operator, step
from path_cases import Case, for_each, stream_wait
from path_events import Clock, run_of
from path_reference import Change, Element, paths, replay

US, MS = 1_000, 1_000_000
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
Brief = list[tuple[int, str, str, str, int]]


def path(*ranks: list[Row], clocks: dict[int, Clock] | None = None, unit: int = US) -> Brief:
    """Return (rank, lane, kind, name, duration) of the path of step 1, durations in µs."""
    found = paths({r: link(rows) for r, rows in enumerate(ranks)}, clocks)[1]
    return [(s.rank, s.lane, s.kind, s.name, (s.end_ns - s.start_ns) // unit) for s in found]


def launched(
    launch: int, start: int, end: int, name: str, *, stream: int = 7, call: int = 1, thread: int = 1
) -> list[Row]:
    """Return a call that lasts `call` and its kernel; all in µs."""
    return [
        launch_call(launch * US, (launch + call) * US, thread=thread),
        kernel(start * US, end * US, stream=stream, launch=launch * US, name=name),
    ]


def worked(late: int = 0, *, is_contended: bool = False) -> list[Row]:
    """Return one rank of the worked example, in ms: forward, four kernels of backward, exchanged buckets, optimizer."""
    backward = (
        [(200, 300), (300, 400), (400, 580), (580, 680)]
        if is_contended
        else [(t, t + 100) for t in (200, 300, 400, 500)]
    )
    exchange = (
        [(300, 400), (400, 500), (500, 580), (580, 630)]
        if is_contended
        else [(300, 400), (400, 500), (500, 600), (600, 650)]
    )
    optimizer = (680, 780) if is_contended else (650, 750)
    device = [(1, 7, "forward", 0, 200), *((10 + n, 7, "backward", *t) for n, t in enumerate(backward))]
    device += [*((20 + n, 20, NCCL, *t) for n, t in enumerate(exchange)), (30, 7, "optimizer", *optimizer)]
    rows = [step(1, 0, (40 + late) * MS)]
    for launch, stream, name, start, end in device:
        at = 0 if name == "forward" else launch
        rows.append(launch_call((at + late) * MS, (at + late) * MS + 1))
        rows.append(kernel((start + late) * MS, (end + late) * MS, stream=stream, launch=(at + late) * MS, name=name))
    if late:
        rows.append(annotation("next_batch", 0, late * MS))
    rows.append(launch_call((19 + late) * MS, (19 + late) * MS + 1, name="cudaEventRecord"))
    record = (19 + late) * MS
    return [*rows, stream_wait(record + 3 * MS + 1, stream=20, wait_stream=7, record=record)]


def test_the_worked_step_of_750_is_forward_backward_the_exchange_tail_and_the_optimizer() -> None:
    assert path(worked(), worked(), unit=MS) == [
        (0, "stream 7", "compute", "forward", 200),
        (0, "stream 7", "compute", "backward", 400),
        (0, "stream 20", "comm", NCCL, 50),
        (0, "stream 7", "compute", "optimizer", 100),
    ]


def test_a_hidden_exchange_is_not_on_the_worked_path_of_780() -> None:
    rows = worked(is_contended=True)
    assert path(rows, rows, unit=MS) == [
        (0, "stream 7", "compute", "forward", 200),
        (0, "stream 7", "compute", "backward", 480),
        (0, "stream 7", "compute", "optimizer", 100),
    ]


def test_late_input_begins_the_worked_path_of_830() -> None:
    assert path(worked(80), worked(80), unit=MS) == [
        (0, "thread 1", "input", "next_batch", 80),
        (0, "stream 7", "compute", "forward", 200),
        (0, "stream 7", "compute", "backward", 400),
        (0, "stream 20", "comm", NCCL, 50),
        (0, "stream 7", "compute", "optimizer", 100),
    ]


def test_the_worked_what_ifs_are_725_and_700() -> None:
    tables = {0: link(worked()), 1: link(worked())}

    def shorter_tail(e: Element) -> int:
        return e.ns - 25 * MS if (e.what, e.ns) == ("transfer", 50 * MS) else e.ns

    def half_optimizer(e: Element) -> int:
        return e.ns // 2 if e.name == "optimizer" else e.ns

    assert replay(tables, None) == {1: 750 * MS}
    assert replay(tables, shorter_tail) == {1: 725 * MS}
    assert replay(tables, half_optimizer) == {1: 700 * MS}


def synchronised() -> list[Row]:
    return [
        step(1, 0, 90 * US),
        *launched(0, 10, 50, "a"),
        launch_call(20 * US, 53 * US, name="cudaStreamSynchronize"),
        operator("aten::mm", 53 * US, 58 * US),
        *launched(60, 70, 100, "b"),
    ]


def test_a_synchronise_returns_to_the_device_work_that_released_it() -> None:
    assert path(synchronised()) == [
        (0, "stream 7", "launch", "a", 10),
        (0, "stream 7", "compute", "a", 40),
        (0, "thread 1", "sync", "cudaStreamSynchronize", 3),
        (0, "thread 1", "host", "aten::mm", 5),
        (0, "thread 1", "host", "(no event)", 2),
        (0, "stream 7", "launch", "b", 10),
        (0, "stream 7", "compute", "b", 30),
    ]


@pytest.mark.parametrize(
    ("what", "name", "ns", "expected"),
    [
        ("host", "aten::mm", 0, 95),
        (
            "host",
            "(no event)",
            0,
            98,
        ),  # the 2 µs before b; before the synchronise there is a's call and no slack to win
        ("launch", "b", 0, 90),
        ("launch", "a", 0, 90),
        ("device", "a", 10 * US, 70),
        ("device", "a", 100 * US, 160),
        ("device", "b", 31 * US, 101),
    ],
)
def test_a_change_moves_what_waits_for_it(what: str, name: str, ns: int, expected: int) -> None:
    rows = synchronised()

    def change(e: Element) -> int:
        return ns if (e.what, e.name) == (what, name) else e.ns

    assert replay({0: link(rows)}, change) == {1: expected * US}


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (40, [(0, "stream 13", "compute", "a", 38), (0, "stream 7", "turnaround", "b", 2)]),
        (43, [(0, "stream 13", "compute", "a", 38), (0, "stream 7", "turnaround", "b", 5)]),
        (44, [(0, "thread 1", "host", "cudaLaunchKernel", 1), (0, "stream 7", "launch", "b", 43)]),
    ],
)
def test_a_stream_that_was_free_is_taken_to_wait_for_what_ended_within_5_us_of_its_start(
    start: int, expected: Brief
) -> None:
    rows = [*launched(0, 0, 38, "a", stream=13), *launched(1, start, 60, "b"), step(1, 0, 10 * US)]

    assert path(rows) == [*expected, (0, "stream 7", "compute", "b", 60 - start)]


def test_a_recorded_wait_is_for_what_the_other_stream_was_given_before_the_record() -> None:
    rows = [
        step(1, 0, 20 * US),
        *launched(0, 0, 30, "a", stream=13),
        launch_call(2 * US, 3 * US, name="cudaEventRecord"),
        *launched(4, 30, 80, "later", stream=13),
        *launched(6, 40, 90, "b"),
        stream_wait(5 * US, stream=7, wait_stream=13, record=2 * US),
    ]

    assert path(rows) == [
        (0, "stream 13", "compute", "a", 30),
        (0, "stream 7", "turnaround", "b", 10),
        (0, "stream 7", "compute", "b", 50),
    ]


def test_a_wait_recorded_before_the_stream_began_other_work_is_not_for_what_comes_after() -> None:
    rows = [
        step(1, 0, 20 * US),
        *launched(0, 0, 9, "a", stream=13),
        launch_call(1 * US, 2 * US, name="cudaEventRecord"),
        stream_wait(2 * US, stream=7, wait_stream=13, record=1 * US),
        *launched(3, 10, 30, "first"),
        *launched(5, 6, 43, "c", stream=15),
        *launched(7, 45, 60, "second"),
    ]

    assert path(rows)[-4:] == [
        (0, "stream 15", "launch", "c", 1),
        (0, "stream 15", "compute", "c", 37),
        (0, "stream 7", "turnaround", "second", 2),
        (0, "stream 7", "compute", "second", 15),
    ]


def test_the_host_goes_back_to_its_latest_synchronise() -> None:
    rows = [
        step(1, 0, 70 * US),
        *launched(0, 1, 20, "a"),
        launch_call(5 * US, 22 * US, name="cudaStreamSynchronize"),
        *launched(25, 26, 50, "b"),
        launch_call(30 * US, 52 * US, name="cudaDeviceSynchronize"),
        *launched(60, 61, 70, "c"),
    ]

    assert [(kind, name, ns) for _, _, kind, name, ns in path(rows)] == [
        ("launch", "a", 1),
        ("compute", "a", 19),
        ("sync", "cudaStreamSynchronize", 2),
        ("host", "(no event)", 3),
        ("launch", "b", 1),
        ("compute", "b", 24),
        ("sync", "cudaDeviceSynchronize", 2),
        ("host", "(no event)", 8),
        ("launch", "c", 1),
        ("compute", "c", 9),
    ]


def test_a_long_gap_behind_the_stream_is_launch_only_while_the_call_lasts() -> None:
    slow = [step(1, 0, 90 * US), *launched(0, 0, 30, "a"), *launched(10, 40, 60, "b", call=25)]
    early = [step(1, 0, 90 * US), *launched(0, 0, 30, "a"), *launched(10, 40, 60, "b", call=20)]

    assert path(slow)[1:] == [(0, "stream 7", "launch", "b", 10), (0, "stream 7", "compute", "b", 20)]
    assert path(early)[1:] == [(0, "stream 7", "unknown", "b", 10), (0, "stream 7", "compute", "b", 20)]


def test_before_work_without_a_launch_all_is_unknown() -> None:
    rows = [
        step(1, 0, 90 * US),
        *launched(0, 1, 2, "y"),
        kernel(20 * US, 50 * US, stream=9, name="x"),
        *launched(5, 53, 80, "b"),
    ]

    assert path(rows) == [
        (0, "stream 9", "unknown", "x", 20),
        (0, "stream 9", "compute", "x", 30),
        (0, "stream 7", "turnaround", "b", 3),
        (0, "stream 7", "compute", "b", 27),
    ]


def meeting(ready: int, end: int) -> list[Row]:
    """Return a rank that computes up to `ready` and leaves the collective at `end`."""
    return [step(1, 0, 20 * US), *launched(0, 0, ready, "a"), *launched(5, ready, end, NCCL)]


def test_the_path_goes_to_the_rank_that_came_last() -> None:
    assert path(meeting(100, 150), meeting(130, 150)) == [
        (1, "stream 7", "compute", "a", 130),
        (0, "stream 7", "comm", NCCL, 20),
    ]


@pytest.mark.parametrize(("residual_us", "late_us", "rank"), [(0, 5, 0), (0, 6, 1), (2, 6, 0), (2, 7, 1)])
def test_the_path_stays_where_the_margin_says_nothing(residual_us: int, late_us: int, rank: int) -> None:
    clocks = {1: Clock(residual_ns=residual_us * US)}

    found = path(meeting(100, 150), meeting(100 + late_us, 150), clocks=clocks)

    assert found[0] == (rank, "stream 7", "compute", "a", 100 + late_us * rank)
    assert found[1] == (0, "stream 7", "comm", NCCL, 50 - late_us * rank)


def test_arrivals_are_compared_on_the_runs_clock() -> None:
    behind = [
        row | {"start_ns": row["start_ns"] + 70 * US, "correlation_id": row.get("correlation_id")}
        for row in meeting(130, 150)
    ]

    assert path(meeting(100, 150), behind, clocks={1: Clock(offset_ns=70 * US)}) == [
        (1, "stream 7", "compute", "a", 130),
        (0, "stream 7", "comm", NCCL, 20),
    ]


def test_a_collective_with_a_peer_that_is_not_recorded_stays_on_its_rank() -> None:
    ranks = [meeting(100, 150), meeting(130, 150)]
    for rows in ranks:
        rows[-1] |= {"comm_op": "allreduce", "comm_group": "0", "comm_group_ranks": "[0, 1, 2]", "comm_group_size": 3}

    assert path(*ranks) == [(0, "stream 7", "compute", "a", 100), (0, "stream 7", "comm", NCCL, 50)]


@pytest.mark.parametrize("is_numbered", [False, True])
def test_collectives_are_matched_from_the_end_or_by_their_number(is_numbered: bool) -> None:
    # GIVEN a rank whose recording lacks the first of two collectives
    both = [step(1, 0, 30 * US), *launched(0, 0, 40, NCCL), *launched(5, 50, 90, NCCL)]
    one = [step(1, 0, 30 * US), *launched(0, 0, 80, "a"), *launched(5, 80, 90, NCCL)]
    if is_numbered:
        for rows, numbers in ((both, (3, 4)), (one, (4,))):
            for row, seq in zip([r for r in rows if r["name"] == NCCL], numbers, strict=True):
                row |= {"comm_op": "allreduce", "comm_group": "0", "comm_group_ranks": "[0, 1]", "comm_seq": seq}

    assert path(both, one) == [(1, "stream 7", "compute", "a", 80), (0, "stream 7", "comm", NCCL, 10)]


def test_a_saving_in_one_step_may_be_paid_in_the_next() -> None:
    # GIVEN a host that launches step 2 only at 100 µs, whatever the device does
    rows = [step(1, 0, 60 * US), *launched(0, 0, 90, "a"), step(2, 60 * US, 200 * US), *launched(100, 100, 150, "b")]

    def half(e: Element) -> int:
        return e.ns // 2 if e.name == "a" else e.ns

    assert replay({0: link(rows)}, None) == {1: 90 * US, 2: 60 * US}
    assert replay({0: link(rows)}, half) == {1: 45 * US, 2: 105 * US}


def test_what_a_late_rank_saves_is_the_wait_of_all() -> None:
    tables = {0: link(meeting(100, 150)), 1: link(meeting(130, 150))}

    def change(e: Element) -> int:
        return 100 * US if (e.rank, e.name) == (1, "a") else e.ns

    assert replay(tables, None) == {1: 150 * US}
    assert replay(tables, change) == {1: 120 * US}


def test_host_time_has_the_innermost_name_of_the_launching_thread_else_of_the_other_one() -> None:
    rows = [
        step(1, 0, 100 * US),
        annotation("forward", 0, 60 * US),
        operator("aten::linear", 2 * US, 30 * US),
        operator("aten::mm", 5 * US, 20 * US),
        operator("MmBackward0", 35 * US, 50 * US, thread=2),
        launch_call(52 * US, 55 * US, name="cudaMalloc"),
        *launched(40, 40, 45, "other", thread=2, stream=13),
        *launched(70, 70, 90, "a"),
    ]

    assert path(rows) == [
        (0, "thread 1", "host", "forward", 2),
        (0, "thread 1", "host", "aten::linear", 3),
        (0, "thread 1", "host", "aten::mm", 15),
        (0, "thread 1", "host", "aten::linear", 10),
        (0, "thread 1", "host", "forward", 5),
        (0, "thread 2", "host", "MmBackward0", 5),
        (0, "thread 2", "host", "cudaLaunchKernel", 1),
        (0, "thread 2", "host", "MmBackward0", 9),
        (0, "thread 1", "host", "forward", 2),
        (0, "thread 1", "host", "cudaMalloc", 3),
        (0, "thread 1", "host", "forward", 5),
        (0, "thread 1", "host", "(no event)", 10),
        (0, "stream 7", "compute", "a", 20),
    ]


def test_an_empty_step_ends_with_its_marker_on_the_host() -> None:
    rows = [step(1, 0, 30 * US), annotation("sleep", 0, 30 * US), *launched(40, 40, 50, "a"), step(2, 30 * US, 60 * US)]

    assert path(rows) == [(0, "thread 1", "host", "sleep", 30)]
    # The host's first moment stays where it was measured: only the 10 µs before the launch and the 10 of `a` double.
    assert replay({0: link(rows)}, lambda e: e.ns * 2) == {1: 30 * US, 2: 40 * US}


def _longer(rank: int, name: str, more: int) -> Change:
    return lambda e: e.ns + more if (e.rank, e.what, e.name) == (rank, "device", name) else e.ns


def _holds(case: Case) -> None:
    tables = case.tables()
    run, found, baseline = run_of(tables), paths(tables), replay(tables)
    measured = {n: s.end - s.start for n, s in run.steps.items()}
    # A path accounts for every nanosecond of its step, once.
    for n, segments in found.items():
        assert all(a.end_ns == b.start_ns and b.start_ns < b.end_ns for a, b in itertools.pairwise(segments))
        assert sum(s.end_ns - s.start_ns for s in segments) == measured[n]
        assert not segments or (segments[0].start_ns, segments[-1].end_ns) == (run.steps[n].start, run.steps[n].end)
    # The graph without a change is what was measured; only times that contradict each other can make a circle.
    assert baseline == {n: ns for n, ns in measured.items() if n in baseline}
    if not case.is_causal:
        return
    assert baseline == measured
    # Nothing gets longer as a whole where all gets shorter.
    assert sum(replay(tables, lambda e: e.ns // 2).values()) <= sum(measured.values())
    # What is on the path and takes longer delays the end by as much, but for arrivals too close to tell.
    more = 10 * MS
    slack = 5 * US * sum(a.kind == "comm" for rank in run.ranks.values() for a in rank.activities)
    for n, segments in found.items():
        ending = [a for a in run.ranks[run.steps[n].end_rank].activities if a.end == run.steps[n].end]
        if len(ending) != 1 or ending[0].step != n:
            continue
        for s in segments[-3:]:
            whole = any(
                (a.lane, a.name) == (s.lane, s.name) and s.start_ns <= a.start < a.end <= s.end_ns
                for a in run.ranks[s.rank].activities
            )
            if s.kind == "compute" and whole:
                longer = replay(tables, _longer(s.rank, s.name, more))
                before = [m for m in measured if m <= n]
                assert sum(longer[m] - measured[m] for m in before) >= more - slack


def test_random_paths_tile_their_steps_and_the_replay_reproduces_them() -> None:
    for_each(_holds)
