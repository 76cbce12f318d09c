"""Allocations of two real dumps, with totals and of 2021 without, against a plain reading of their JSON."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from longpole import catalog
from longpole.session import Session

DUMPS = {
    "h100_bert_small": "h100_bert_small.json.gz",
    "kineto_2021_schema": "kineto_2021_schema.pt.trace.json.gz",
}


def plainly(path: Path) -> dict[tuple[int | None, int | None], tuple[Any, ...]]:
    """Return n_events, peak_allocated_bytes, peak_reserved_bytes and rise_bytes by step and device."""
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    marks = [e for e in events if str(e.get("name")).startswith("ProfilerStep#") and "gpu" not in e["cat"]]
    found: dict[tuple[int | None, int | None], tuple[Any, ...]] = {}
    for event in events:
        if event.get("name") != "[memory]":
            continue
        args, at = event["args"], event["ts"]
        step = next((int(m["name"][13:]) for m in marks if m["ts"] <= at < m["ts"] + m["dur"]), None)
        device = args["Device Id"] if args["Device Type"] == 1 else None
        n, allocated, reserved, total, rise = found.get((step, device), (0, 0, 0, 0, 0))
        after = args.get("Total Allocated", 0)
        allocated = max(allocated, after, after - args["Bytes"] if n == 0 else 0)
        total += args["Bytes"]
        reserved = max(reserved, args.get("Total Reserved", 0))
        found[step, device] = (n + 1, allocated, reserved, total, max(rise, total))
    return found


@pytest.mark.parametrize("run", DUMPS)
def test_counts_and_peaks_are_those_of_the_json(real: Session, traces: Path, run: str) -> None:
    has_totals = run == "h100_bert_small"
    expected = {
        key: (
            n,
            allocated if has_totals else None,
            reserved if has_totals else None,
            rise if key[0] is not None else None,
        )
        for key, (n, allocated, reserved, _, rise) in plainly(traces / "single" / DUMPS[run]).items()
    }
    found = real.con.execute(
        "SELECT step, device, n_events, peak_allocated_bytes, peak_reserved_bytes, rise_bytes FROM rank_memory"
        " WHERE run = $1",
        [run],
    ).fetchall()
    assert {(step, device): tuple(rest) for step, device, *rest in found} == expected


def test_the_answers_are_these(real: Session) -> None:
    memory = "SELECT * EXCLUDE (run, rank) FROM rank_memory WHERE run = $1 ORDER BY step, device"
    assert real.con.execute(memory, ["h100_bert_small"]).fetchall() == [
        (6, 0, 218, 109, 91_360_768, 91_360_768, 101_305_344, 121_634_816, 9_944_576, None),
        (6, None, 18, 9, 0, 0, 16, 0, 16, None),
    ]
    counted = "SELECT count(*), count(step), count(device) FROM memory_events WHERE run = $1"
    assert real.con.execute(counted, ["h100_bert_small"]).fetchall() == [(236, 236, 218)]
    assert real.con.execute(counted, ["kineto_2021_schema"]).fetchall() == [(12_838, 12_832, 8_220)]
    sizes = "SELECT device_memory_bytes FROM dumps WHERE run = ANY($1) ORDER BY run"
    assert real.con.execute(sizes, [list(DUMPS)]).fetchall() == [(85_018_279_936,), (34_084_028_416,)]


def test_the_rank_that_uses_most_is_named_by_the_recipe(real: Session) -> None:
    recipe = catalog.recipes()["peak_memory"]
    found = real.con.execute(recipe.sql, {"rows": 20}).fetchall()
    assert [row[:-1] for row in found] == [
        ("h100_bert_small", 0, 0, 101_305_344, 6, 121_634_816, 9_944_576, 85_018_279_936)
    ]
    assert found[0][-1] == pytest.approx(0.998_808_428)
