"""Reads dumps that a test writes out in place."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions
from longpole.formats.kineto import KinetoReader

Row = dict[str, Any]


def read(
    text: str | bytes, *, path: str = "rank0.json", threads: int = 1, keep_python: bool = False
) -> tuple[list[Row], DumpFacts]:
    """Return the rows that a dump gives, and what it says besides; the counts must always add up."""
    data = text.encode() if isinstance(text, str) else text
    batches: list[pa.Table] = []
    facts = KinetoReader().read(
        io.BytesIO(data), path, batches.append, ReadOptions(threads=threads, keep_python=keep_python)
    )
    assert all(batch.schema == RAW_SCHEMA for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert facts.n_stored == len(rows)
    assert facts.n_events == facts.n_stored + facts.n_skipped + facts.n_dropped
    assert facts.n_skipped == sum(n for _, n in facts.skipped)
    return rows, facts


def event(name: str = "k", **changes: Any) -> Row:
    """Return a complete event of a kernel with some of its keys changed; None takes a key out."""
    whole = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2} | changes
    return {key: value for key, value in whole.items() if value is not None}


def dump(*events: str | Row, head: str = "", tail: str = "") -> str:
    """Return a dump in the profiler's own style of writing, of events given as JSON text or as what it says.

    Args:
        head: Keys before the events, each with a comma behind it.
        tail: Keys behind them, each with a comma before it.
    """
    texts = [item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in events]
    body = ",\n  ".join("{\n    " + text.strip()[1:-1] + "\n  }" for text in texts)
    return f'{{\n  "schemaVersion": 1,{head}\n  "traceEvents": [\n  {body}\n  ]{tail}\n}}\n'


def names(rows: Sequence[Row]) -> list[str]:
    return [row["name"] for row in rows]


def said(row: Row) -> Row:
    """Return what a row has, without the columns that are NULL."""
    return {column: value for column, value in row.items() if value is not None}
