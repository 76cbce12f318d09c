"""The one command of the benchmarks is kept alive at sizes at which times say nothing; nothing here looks at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measuring import exponent, ratio, run

HERE = Path(__file__).resolve().parent
HTA = "HolisticTraceAnalysis 0.5.0"
ROWS = {
    "ingest": [
        "longpole, reader alone",
        "longpole ingest, whole command",
        f"{HTA}, load",
        "json of the standard library, parse only",
        "orjson, parse only",
        "DuckDB read_json, to Parquet",
    ],
    "facts short": [
        "longpole, load",
        "longpole, rank level: all facts of all ranks",
        "longpole, critical path, a rank and step",
        f"{HTA}, load",
        f"{HTA}, overlap of all ranks",
        f"{HTA}, critical path, a rank and step",
    ],
    "clocks": ["clocks, collectives and steps, facts in one file"],
    "whatif": ["longpole, all scenarios of all steps", "plain Python, op by op"],
    "page": ["longpole report, whole command"],
    "growth": ["over ranks: 1x1, 2x1", "over steps: 1x1, 1x2"],
}
ASKED = 13


def test_one_command_prints_a_row_for_each_benchmark_and_peer() -> None:
    without = {name: value for name, value in os.environ.items() if name != "LONGPOLE_HTA_PYTHON"}
    done = subprocess.run(
        [sys.executable, str(HERE), "--quick"], capture_output=True, text=True, timeout=600, env=without
    )

    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout.splitlines()[2:]
    found: dict[str, list[str]] = {}
    for line in table:
        found.setdefault(line[:12].strip(), []).append(line[12:72].strip())
    assert len(found.pop("query")) == ASKED
    assert found == ROWS
    absent = [line for line in table if HTA in line]
    assert len(absent) == 4
    assert all("n/a: peer not installed: python -m venv hta" in line for line in absent)
    assert "0 step times differ" in next(line for line in table if "all scenarios" in line)


def test_a_process_is_measured_from_its_own_start_and_its_failure_told() -> None:
    filled = run([sys.executable, "-c", "x = bytearray(b'1' * (200 << 20)); import time; time.sleep(0.5); print('ok')"])
    failed = run([sys.executable, "-c", "raise SystemExit('no such thing')"])

    assert filled.out == "ok\n"
    assert 200 << 20 < filled.peak_bytes < 600 << 20
    assert filled.worker_bytes == 0
    assert failed.reason == "exit 1: no such thing"


@pytest.mark.parametrize(
    ("sizes", "amounts", "slope"),
    [([1, 2, 4], [3, 6, 12], 1.0), ([1, 10], [1, 100], 2.0), ([1, 2, 4, 8], [5, 5, 5, 5], 0.0)],
)
def test_the_exponent_of_growth_is_the_slope_of_the_logarithms(
    sizes: list[float], amounts: list[float], slope: float
) -> None:
    assert exponent(sizes, amounts) == pytest.approx(slope)


def test_a_ratio_below_one_is_told_as_a_share() -> None:
    assert [ratio(1, 4), ratio(3, 2), ratio(0, 2), ratio(2, 2)] == ["1/4.0", "1.5", "n/a", "1.0"]
