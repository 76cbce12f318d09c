"""A rank's windows beside its device's samples: means by time, and whose samples they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from evaluation import connection, evaluate, rows
from longpole.formats.telemetry_csv import RAW_TELEMETRY

MS = 1_000_000
SECOND = 1_000 * MS
MHZ = 1_000_000

Row = dict[str, Any]


def sampled(samples: list[Row], seats: list[Row], *windows: tuple[int, int], rank: int = 0) -> list[Row]:
    """Return rank_telemetry of the rank, whose steps are these windows."""
    con = connection()
    table = pa.Table.from_pylist(
        [{"host": "node0", "file_name": "t.csv", "gpu": 0, **row} for row in samples], schema=RAW_TELEMETRY
    )
    con.register("raw_telemetry", table)
    evaluate(con, "telemetry", ["raw_telemetry"])
    con.execute("CREATE TABLE rank_windows (rank INT, step BIGINT, start_ns BIGINT, end_ns BIGINT, duration_ns BIGINT)")
    for step, (start, end) in enumerate(windows):
        con.execute("INSERT INTO rank_windows VALUES (?, ?, ?, ?, ?)", [rank, step, start, end, end - start])
    con.execute("CREATE TABLE ranks (rank INT, host TEXT, device_index INT, is_recorded BOOLEAN)")
    for n, seat in enumerate(seats):
        con.execute("INSERT INTO ranks VALUES (?, ?, ?, TRUE)", [n, seat.get("host"), seat.get("device_index")])
    con.execute("CREATE TABLE context AS SELECT $1::INT AS rank", [rank])
    evaluate(con, "sampled", ["rank_windows", "ranks", "telemetry", "context"])
    found: list[Row] = con.sql("FROM rank_telemetry ORDER BY step").to_arrow_table().to_pylist()
    return found


HERE = [{"host": "node0", "device_index": 0}]


def sample(at: int, mhz: int | None, **more: Any) -> Row:
    return {"time_ns": at, "sm_clock_hz": None if mhz is None else mhz * MHZ, **more}


def test_a_window_has_the_mean_by_time_and_the_extremes_of_its_samples() -> None:
    samples = [
        sample(0, 2_000, power_w=700.0, temperature_c=60.0, throttle_mask=0),
        sample(25 * MS, 1_000, power_w=300.0, temperature_c=90.0, throttle_mask=0x44),
        sample(150 * MS, 1_500, power_w=500.0, temperature_c=80.0, throttle_mask=1),
    ]

    first, second = sampled(samples, HERE, (0, 100 * MS), (100 * MS, 200 * MS))

    assert first == {
        "rank": 0,
        "step": 0,
        "sm_clock_hz": 1_250 * MHZ,  # 25 ms of 2,000 and 75 of 1,000
        "min_sm_clock_hz": 1_000 * MHZ,
        "power_w": 400.0,
        "temperature_c": 90.0,
        "throttled_ratio": 0.75,
        "covered_ratio": 1.0,
        "n_samples": 2,
        "verdict": "ok",
    }
    assert (second["sm_clock_hz"], second["throttled_ratio"], second["n_samples"]) == (1_250 * MHZ, 0.5, 2)


def test_the_bits_of_a_mask_have_names_and_idleness_is_no_limit() -> None:
    con = connection()
    masks = [{"host": "n", "file_name": "f", "gpu": 0, "time_ns": m, "throttle_mask": m} for m in (0, 1, 0x44, 0x800)]
    words = [
        {"host": "n", "file_name": "f", "gpu": 1, "time_ns": n, "throttle": t}
        for n, t in enumerate(("Not Active", "SW Power Cap", None))
    ]
    con.register("raw_telemetry", pa.Table.from_pylist([*masks, *words], schema=RAW_TELEMETRY))
    evaluate(con, "telemetry", ["raw_telemetry"])
    assert rows(con, "SELECT throttle, is_throttled FROM telemetry ORDER BY gpu, time_ns") == [
        (None, False),
        ("idle", False),
        ("power cap, thermal (hardware)", True),
        (None, False),
        (None, False),
        ("SW Power Cap", True),
        (None, None),
    ]


def test_a_sample_speaks_for_a_minute_at_most() -> None:
    (half, none) = sampled([sample(0, 2_000)], HERE, (30 * SECOND, 90 * SECOND), (90 * SECOND, 91 * SECOND))
    assert (half["sm_clock_hz"], half["covered_ratio"]) == (2_000 * MHZ, 0.5)
    assert none["sm_clock_hz"] is None
    assert none["verdict"] == "no sample in its time: the clocks of dumps and telemetry do not meet"


@pytest.mark.parametrize(
    ("told", "file_name", "seats", "verdict"),
    [
        ("NODE0.cluster.local", "t.csv", HERE, "ok"),
        ("node0", "t.csv", [{"host": "node0.cluster.local", "device_index": 0}], "ok"),
        ("node1", "t.csv", HERE, "no telemetry of its host and device"),
        ("10.0.0.1", "t.csv", [{"host": "10.0.0.2", "device_index": 0}], "no telemetry of its host and device"),
        (None, "t.csv", HERE, "ok"),
        (None, "smi.node0.csv", [*HERE, {"host": "node1", "device_index": 0}], "ok"),
        (None, "smi.node1.csv", [*HERE, {"host": "node1", "device_index": 0}], "no telemetry of its host and device"),
        (None, "t.csv", [*HERE, {"host": "node1", "device_index": 0}], "no telemetry of its host and device"),
        ("node0", "t.csv", [{"device_index": 0}, {"device_index": 1}], "ok"),
        ("node0", "t.csv", [{"device_index": 0}, {"device_index": 0}], "its host is not known"),
        ("node0", "t.csv", [{"host": "node0"}], "its device is not known"),
        ("node0", "t.csv", [{"host": "node0", "device_index": 3}], "no telemetry of its host and device"),
    ],
)
def test_whose_samples_they_are(told: str | None, file_name: str, seats: list[Row], verdict: str) -> None:
    (found,) = sampled([sample(0, 2_000, host=told, file_name=file_name)], seats, (0, SECOND))
    assert (found["verdict"], found["n_samples"]) == (verdict, 1 if verdict == "ok" else 0)


def test_samples_without_a_clock_say_so() -> None:
    (found,) = sampled([sample(0, None, power_w=500.0)], HERE, (0, SECOND))
    assert (found["verdict"], found["power_w"]) == ("its samples have no clock", 500.0)
