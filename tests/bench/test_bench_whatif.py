"""The benchmark is kept alive on a tiny job; nothing here looks at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_both_ways_answer_every_scenario_of_every_step_alike() -> None:
    sizes = ["--steps", "2", "--replicas", "2", "--stages", "2", "--microbatches", "3"]
    done = subprocess.run(
        [sys.executable, str(HERE / "whatif.py"), *sizes], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "152 ops in 2 steps, 20 scenarios of each"
    assert [line[:40].strip() for line in lines[2:4]] == [
        "plain Python, op by op",
        "longpole, tasks one after the other",
    ]
    assert lines[4] == "0 of 40 step times differ"
