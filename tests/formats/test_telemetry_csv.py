"""Telemetry as nvidia-smi, DCGM and scripts write it: columns by their names, units as they stand, times exact."""

from __future__ import annotations

import gzip
import io
from typing import Any

import pyarrow as pa
import pytest

from longpole.errors import DumpError
from longpole.formats.telemetry_csv import Tally, is_telemetry, offset_s, read

NVIDIA_SMI = """\
timestamp, index, name, clocks.current.sm [MHz], power.draw [W], temperature.gpu, clocks_event_reasons.active
2026/10/01 12:00:00.123, 0, NVIDIA H100, 1980 MHz, 688.50 W, 61, 0x0000000000000000
2026/10/01 12:00:01.124, 1, NVIDIA H100, 1410 MHz, [N/A], 88, 0x0000000000000044
"""
NOON = 1_790_856_000_000_000_000  # 2026-10-01T12:00:00Z


def samples(
    text: str, utc_offset_s: int | None = None, *, path: str = "x/gpu.csv"
) -> tuple[list[dict[str, Any]], Tally]:
    batches: list[pa.Table] = []
    tally = read(io.BytesIO(text.encode()), path, batches.append, utc_offset_s)
    return [row for batch in batches for row in batch.to_pylist()], tally


def test_what_nvidia_smi_writes_is_read_with_its_units() -> None:
    rows, tally = samples(NVIDIA_SMI, 7_200)
    assert rows == [
        {
            "host": None,
            "file_name": "gpu.csv",
            "gpu": 0,
            "time_ns": NOON - 7_200 * 10**9 + 123_000_000,
            "sm_clock_hz": 1_980_000_000,
            "power_w": 688.5,
            "temperature_c": 61.0,
            "throttle_mask": 0,
            "throttle": None,
        },
        {
            "host": None,
            "file_name": "gpu.csv",
            "gpu": 1,
            "time_ns": NOON - 7_199 * 10**9 + 124_000_000,
            "sm_clock_hz": 1_410_000_000,
            "power_w": None,
            "temperature_c": 88.0,
            "throttle_mask": 0x44,
            "throttle": None,
        },
    ]
    assert (tally.n_rows, tally.dropped.total()) == (2, 0)


def test_times_without_a_zone_are_refused_with_the_key_that_says_it() -> None:
    with pytest.raises(DumpError, match=r"gpu.csv has times without a time zone .* \[telemetry\] utc_offset"):
        samples(NVIDIA_SMI)


@pytest.mark.parametrize(
    ("header", "value", "ns"),
    [
        ("time", "2026-10-01T12:00:00.123456789Z", NOON + 123_456_789),
        ("timestamp", "2026-10-01 14:00:00+02:00", NOON),
        ("time", "2026-10-01 06:30:00-0530", NOON),
        ("time", "1790856000.123456789", NOON + 123_456_789),
        ("timestamp_ms", "1790856000123.456789", NOON + 123_456_789),
        ("time_ns", "1790856000123456789", NOON + 123_456_789),
        ("timestamp [us]", "1790856000000000.0005", NOON + 1),
    ],
)
def test_a_time_with_a_zone_or_since_the_epoch_is_exact(header: str, value: str, ns: int) -> None:
    rows, _ = samples(f"{header},hostname,gpu,sm_clock\n{value},node3,7,1980\n")
    assert [(r["time_ns"], r["host"], r["gpu"], r["sm_clock_hz"]) for r in rows] == [(ns, "node3", 7, 1_980_000_000)]


@pytest.mark.parametrize(
    ("column", "value", "hz"),
    [("sm_clock_hz", "1980000000", 1_980_000_000), ("SM Clock (GHz)", "1.98", 1_980_000_000), ("sclk", "", None)],
)
def test_a_clock_of_any_unit(column: str, value: str, hz: int | None) -> None:
    if column == "SM Clock (GHz)":
        column = "sm_clock (GHz)"
    rows, _ = samples(f"time,gpu,{column},throttle_reason\n0,0,{value},SW Power Cap\n")
    assert [(r["sm_clock_hz"], r["throttle"], r["throttle_mask"]) for r in rows] == [(hz, "SW Power Cap", None)]


def test_what_a_dcgm_exporter_names_its_fields_is_known() -> None:
    head = b"timestamp,Hostname,gpu,DCGM_FI_DEV_SM_CLOCK,DCGM_FI_DEV_POWER_USAGE,DCGM_FI_DEV_GPU_TEMP\n"
    assert is_telemetry(head)
    rows, _ = samples(head.decode() + "1,10.0.0.7:9400,3,1755,512.3,70\n")
    assert [(r["host"], r["sm_clock_hz"], r["power_w"]) for r in rows] == [("10.0.0.7:9400", 1_755_000_000, 512.3)]


@pytest.mark.parametrize("header", ["rank,host,node,rack,rail", "time,loss", "", "time gpu sm_clock", '{"time": 1}'])
def test_another_csv_is_no_telemetry(header: str) -> None:
    assert not is_telemetry(header.encode() + b"\n1,2,3\n")
    with pytest.raises(DumpError, match="a CSV without the columns of telemetry"):
        samples(header + "\n1,2,3\n")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1,0", "a line without all columns"),
        ("x" * 70_000, "a line without all columns"),
        ("soon,0,1980", "no time, or one beyond any"),
        ("1e30,0,1980", "no time, or one beyond any"),
        ("2026-13-01T00:00:00Z,0,1980", "no time, or one beyond any"),
        ("1,GPU-1f2e,1980", "a device that is no number"),
        ("1,99999999999,1980", "a device that is no number"),
    ],
)
def test_a_line_that_is_no_sample_costs_that_line_and_is_counted(line: str, why: str) -> None:
    rows, tally = samples(f"time,gpu,sm_clock\n0,0,1980\n{line}\n2,0,1980\n")
    assert [r["time_ns"] for r in rows] == [0, 2_000_000_000]
    assert tally.dropped == {why: 1}


def test_gzip_and_a_cut_end_are_read_as_far_as_they_go() -> None:
    data = gzip.compress(("time,gpu,sm_clock\n" + "".join(f"{n},0,1980\n" for n in range(9_999))).encode())
    found: list[pa.Table] = []
    assert read(io.BytesIO(data), "t.csv.gz", found.append, None).n_rows == 9_999
    cut = read(io.BytesIO(data[:9_000]), "t.csv.gz", found.append, None)
    assert cut.damage == "the gzip stream ends early"
    assert 1_000 < cut.n_rows < 9_999


def test_what_is_no_zone_is_none() -> None:
    assert [offset_s(z) for z in ("Z", "+02:00", "-0530", "+25:00", "CEST")] == [0, 7_200, -19_800, None, None]
