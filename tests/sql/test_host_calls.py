"""Calls of the host into the driver on hand-made rows: what each is, and what a launch costs."""

from __future__ import annotations

from evaluation import Row, answer


def test_a_call_is_what_its_name_says_and_a_record_of_a_synchronisation_is_no_call() -> None:
    """Only a call that blocks has its name kept. A record is of the device: named as a call, it is a record still."""
    names = [
        ("runtime", "cudaStreamSynchronize", 9),
        ("runtime", "cudaEventRecord", 9),
        ("runtime", "cudaLaunchKernel", None),
        ("driver", "Stream Wait Event", 9),
        ("sync", "Stream Wait Event", 9),
        ("sync", "Stream Synchronize", 9),
        ("sync", "cudaStreamSynchronize", 9),
        ("kernel", "cudaStreamSynchronize", 9),
    ]
    events: list[Row] = [
        {"category": category, "name": name, "start_ns": n, "duration_ns": duration}
        for n, (category, name, duration) in enumerate(names)
    ]
    assert answer("_calls", "start_ns, end_ns, name, what", events=events) == [
        (0, 9, "cudaStreamSynchronize", "synchronise"),
        (1, 10, None, "record"),
        (2, None, None, None),
        (3, 12, None, None),
        (4, 13, None, "wait"),
        (5, 14, None, "sync"),
        (6, 15, None, "sync"),
    ]


def test_a_launch_costs_what_the_median_call_that_launched_kernels_took() -> None:
    """Calls take 2, 4 and 6; a graph's launch counts once for its three kernels, and those of copies do not count."""
    launched: list[tuple[str, int | None, int]] = [
        ("kernel", 0, 2),
        ("kernel", 10, 4),
        ("kernel", 20, 6),
        ("kernel", 20, 6),
        ("kernel", 20, 6),
        ("memcpy", 30, 100),
        ("memcpy", 40, 101),
        ("memset", 50, 102),
        ("kernel", None, 0),
    ]
    events: list[Row] = [
        {"category": category, "launch_thread": 1, "launch_ns": at, "launch_end_ns": None if at is None else at + took}
        for category, at, took in launched
    ]  # fmt: skip
    assert answer("_launch_cost", events=events) == [(4,)]
    assert answer("_launch_cost", events=events[5:]) == [(None,)]
