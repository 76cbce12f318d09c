"""The benchmark is kept alive on a tiny dump; nothing here looks at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """Return what the script printed and the rows it wrote."""
    rows = tmp_path_factory.mktemp("bench") / "rows.json"
    command = [sys.executable, str(HERE / "ingest.py"), "--megabytes", "1.5", "--repeat", "1", "--json", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, json.loads(rows.read_text())


def test_it_prints_a_row_for_each_task_and_the_targets(bench: tuple[str, dict[str, Any]]) -> None:
    lines = bench[0].splitlines()

    assert [line[:48].strip() for line in lines[2:6]] == [
        "json of the standard library, parse only",
        "longpole, reader: dump in, Parquet out",
        "longpole ingest, whole command",
        "target of the reader, at most",
    ]
    assert lines[5].split()[-3:] == ["350", "1/12.0", "1/7.0"]


def test_the_reader_finds_the_events_that_the_standard_library_finds(bench: tuple[str, dict[str, Any]]) -> None:
    found = {row["task"]: row["found"] for row in bench[1]["rows"]}

    assert found["stdlib_json"]["n_events"] == bench[1]["n_events"] > 4_000
    assert found["reader"]["n_events"] == bench[1]["n_events"]
    assert found["reader"]["n_dropped"] == 0


@pytest.mark.parametrize("style", ["newest", "released", "compact"])
def test_the_made_dump_is_json_with_the_events_it_says(style: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    command = [sys.executable, str(HERE / "make_dump.py"), str(path), "--megabytes", "0.5", "--style", style]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    events = json.loads(path.read_text())["traceEvents"]

    assert done.stdout.strip() == f"({len(events)}, {path.stat().st_size})"
    assert ("\n" in path.read_text()) == (style != "compact")
    assert [event["pid"] for event in events[-4:]] == ["Spans", "Spans", "Traces", ""]
