"""The dump that reading is measured on is JSON, with the events it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("style", ["newest", "released", "compact"])
def test_the_made_dump_is_json_with_the_events_it_says(style: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    command = [sys.executable, str(HERE / "make_dump.py"), str(path), "--megabytes", "0.5", "--style", style]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    events = json.loads(path.read_text())["traceEvents"]

    assert done.stdout.strip() == f"({len(events)}, {path.stat().st_size})"
    assert ("\n" in path.read_text()) == (style != "compact")
    assert [event["pid"] for event in events[-4:]] == ["Spans", "Spans", "Traces", ""]
