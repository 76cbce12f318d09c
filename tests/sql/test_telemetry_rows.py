"""Samples of telemetry: which are a rank's, for which part of its window they speak, and what their masks say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation import Row, answer

SECOND = 1_000_000_000

Seat = tuple[str | None, int | None, bool]
"""Host, device and whether a dump of the rank was read, of ranks 0, 1, …"""

Window = tuple[int, int]


def sampled(select: str, samples: Sequence[Row], *windows: Window, seats: Sequence[Seat] = ()) -> list[tuple[Any, ...]]:
    """Return what rank_telemetry says of rank 0, whose steps are these windows in s.

    It has device 0 of node0 if not told; a sample is at `at` s, of device 0, and in t.csv, which names no host.
    """
    return answer(
        "rank_telemetry",
        select,
        telemetry=[
            {"host_key": None, "file_name": "t.csv", "gpu": 0, **sample, "time_ns": time * SECOND}
            for time, sample in ((row["at"], {k: v for k, v in row.items() if k != "at"}) for row in samples)
        ],
        ranks=[
            {"rank": rank, "host": host, "device_index": device, "is_recorded": is_recorded}
            for rank, (host, device, is_recorded) in enumerate(seats or [("node0", 0, True)])
        ],
        rank_windows=[
            {
                "rank": 0,
                "step": step,
                "start_ns": start * SECOND,
                "end_ns": end * SECOND,
                "duration_ns": (end - start) * SECOND,
            }
            for step, (start, end) in enumerate(windows)
        ],
        context=[{"rank": 0}],
        params=[{"longest_sample_ns": 60 * SECOND}],
    )


OTHERS = "no telemetry of its host and device"
UNKNOWN = "its host is not known"


def test_means_are_over_the_time_of_which_samples_speak() -> None:
    """Of 10 s, 4 have a clock and a power, 3 only a power and 3 only say that nothing holds the clock down."""
    samples: list[Row] = [
        {"at": 0, "sm_clock_hz": 20, "power_w": 100, "is_throttled": None},
        {"at": 4, "power_w": 450, "is_throttled": True},
        {"at": 7, "is_throttled": False},
    ]
    select = "sm_clock_hz, power_w, throttled_ratio, n_samples, verdict"
    assert sampled(select, samples, (0, 10)) == [(20.0, (4 * 100 + 3 * 450) / 7, 0.5, 3, "ok")]


def test_a_sample_speaks_from_its_time_to_the_next_one_s() -> None:
    samples = [{"at": at, "sm_clock_hz": clock, "temperature_c": clock} for at, clock in ((0, 10), (4, 20), (6, 30))]
    select = "step, sm_clock_hz, min_sm_clock_hz, temperature_c, covered_ratio, n_samples"
    assert sampled(select, samples, (0, 4), (4, 6), (3, 7)) == [
        (0, 10.0, 10, 10.0, 1.0, 1),  # the next one is at its end
        (1, 20.0, 20, 20.0, 1.0, 1),  # the one before ends where it starts
        (2, 20.0, 10, 30.0, 1.0, 3),
    ]


def test_of_samples_at_one_time_the_first_file_s_counts_and_the_highest_temperature() -> None:
    samples = [
        {"at": 0, "sm_clock_hz": clock, "temperature_c": temperature, "file_name": name, "host_key": "node0"}
        for name, clock, temperature in (("a.csv", 20, 50), ("b.csv", 10, 60), ("c.csv", 30, 40))
    ]
    assert sampled("sm_clock_hz, temperature_c, n_samples", samples, (0, 1)) == [(20.0, 60.0, 1)]


def test_a_sample_is_of_its_own_file_s_host() -> None:
    samples = [
        {"at": 0, "sm_clock_hz": 10, "file_name": "smi.node0.csv"},
        {"at": 1, "sm_clock_hz": 30, "file_name": "smi.node1.csv"},
        {"at": 2, "sm_clock_hz": 20, "file_name": "smi.node0.csv"},
    ]
    seats = [("node0", 0, True), ("node1", 0, True)]
    assert sampled("sm_clock_hz, n_samples", samples, (0, 4), seats=seats) == [(15.0, 2)]


@pytest.mark.parametrize(
    ("sample", "seats", "verdict"),
    [
        ({"at": 0, "power_w": 100}, [("node0", 0, True)], "its samples have no clock"),
        ({"at": 1}, [("node0", 0, True)], "no sample in its time: the clocks of dumps and telemetry do not meet"),
        # The file is of its host, for it is the only one.
        ({"at": 1}, [(None, 0, True)], "no sample in its time: the clocks of dumps and telemetry do not meet"),
        ({"at": 1}, [(None, 0, True), (None, 0, True)], UNKNOWN),
        ({"at": 1}, [(None, None, True)], "its device is not known"),
        ({"at": 0, "gpu": 1}, [("node0", 0, True)], OTHERS),
    ],
)
def test_without_a_clock_the_verdict_says_what_lacks(sample: Row, seats: Sequence[Seat], verdict: str) -> None:
    assert sampled("sm_clock_hz, verdict", [sample], (0, 1), seats=seats) == [(None, verdict)]


@pytest.mark.parametrize(
    ("told", "file_name", "seats", "verdict"),
    [
        # A file that names no host is of the run's only one; hosts of ranks that were not recorded do not count.
        (None, "t.csv", [("node0", 0, True)], "ok"),
        (None, "t.csv", [("node0", 0, True), ("node1", 0, False), (None, 0, True)], "ok"),
        (None, "t.csv", [("node0", 0, True), ("node1", 0, True)], OTHERS),
        # Its name may have the host; of two names that fit the longer one, for a short one may be a word.
        (None, "smi.node0.csv", [("node0", 0, True), ("node1", 0, True)], "ok"),
        (None, "smi.node1.csv", [("node0", 0, True), ("node1", 0, True)], OTHERS),
        (None, "smi.gpu-a.csv", [("gpu-a", 0, True), ("smi", 0, True)], "ok"),
        (None, "smi.gpu-a.csv", [("smi", 0, True), ("gpu-a", 0, True)], OTHERS),
        # Where no rank's host is known, one file speaks of all of them, if each has a device of its own.
        ("node9", "t.csv", [(None, 0, True), (None, 1, True)], "ok"),
        ("node9", "t.csv", [(None, 0, True), (None, 0, True)], UNKNOWN),
        ("node9", "t.csv", [(None, 0, True), (None, 0, False)], "ok"),
        ("node9", "t.csv", [(None, 0, True), ("node0", 1, True)], UNKNOWN),
        ("node9", "t.csv", [("node0", 0, True), ("node1", 1, True)], OTHERS),
    ],
)
def test_samples_are_a_rank_s_where_host_and_device_are_its_own(
    told: str | None, file_name: str, seats: Sequence[Seat], verdict: str
) -> None:
    sample = {"at": 0, "sm_clock_hz": 10, "host_key": told, "file_name": file_name}
    assert sampled("verdict, n_samples", [sample], (0, 1), seats=seats) == [(verdict, int(verdict == "ok"))]


def test_a_mask_with_one_limit_among_its_reasons_is_a_limit() -> None:
    raw: Row = {
        "host": "N0.x",
        "file_name": "t.csv",
        "gpu": 0,
        "sm_clock_hz": None,
        "power_w": None,
        "temperature_c": None,
    }
    said = [
        (0, None),
        (1, None),
        (4, None),
        (1 | 4, None),
        (2 | 256, None),
        (None, "SW Power Cap"),
        (None, "None"),
        (None, None),
    ]
    found = answer(
        "telemetry",
        "time_ns, host_key, throttle, is_throttled",
        raw_telemetry=[{**raw, "time_ns": n, "throttle_mask": m, "throttle": word} for n, (m, word) in enumerate(said)],
    )
    assert found == [
        (0, "n0", None, False),
        (1, "n0", "idle", False),
        (2, "n0", "power cap", True),
        (3, "n0", "idle, power cap", True),
        (4, "n0", "application clocks, display clocks", False),
        (5, "n0", "SW Power Cap", True),
        (6, "n0", None, False),
        (7, "n0", None, None),
    ]
