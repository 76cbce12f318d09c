"""The benchmarks of clusters are kept alive on tiny runs; nothing here looks at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def _lines(script: str, *argv: str) -> list[str]:
    done = subprocess.run([sys.executable, str(HERE / script), *argv], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_eight_ranks_on_two_workers_of_little_memory_lose_none() -> None:
    lines = _lines("memory.py", "--ranks", "8", "--megabytes", "2", "--limit", "1GiB")
    assert lines[-3].endswith("events, 2 workers of 1GiB")
    assert lines[-1] == "workers ended and started again: 0"


@pytest.mark.slow
def test_the_second_of_three_nights_has_no_task_and_the_third_those_of_one_rank() -> None:
    lines = _lines("nights.py", "--runs", "1", "--ranks", "2", "--steps", "3")
    ends = [line.split("%")[1].split(maxsplit=1) for line in lines[1:4]]
    assert ends == [["0", "1 changed"], ["0", "1 unchanged"], ["0", "1 changed"]]
    assert lines[5] == "tasks of night 2: none"
    assert lines[6].startswith("tasks of night 3: 1 read dumps, 1 analyze rank, 1 analyze clock, 1 analyze steps, ")


@pytest.mark.slow
def test_the_cost_of_a_night_is_projected_from_every_stage() -> None:
    lines = _lines("cost.py", "--ranks", "2", "--steps", "8", "--to-ranks", "100", "--to-steps", "110")
    assert [line.split()[0] for line in lines[1:4]] == ["ingest", "rank", "run"]
    assert lines[4].startswith("100 ranks x 110 steps x 1,")
    tasks = {line.split()[0]: line.split()[3] for line in lines[6:-1]}
    assert tasks == {
        **{"read": "100", "rank": "100", "path": "100", "clock": "1"},
        **{"steps": "3", "paths": "3", "run": "1", "priced": "1", "mfu": "1", "measures": "1"},
    }
