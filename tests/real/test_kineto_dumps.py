"""Real dumps of eight generations, row for row against the standard library's JSON and exact decimals."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions
from longpole.formats.kineto import KinetoReader

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
DUMPS = sorted(TRACES.glob("*/*.json.gz")) if TRACES.is_dir() else []

pytestmark = pytest.mark.skipif(not DUMPS, reason="the real dumps are not beside this checkout (../shared/traces)")

CATEGORIES = {
    "Operator": "cpu_op",
    "Kernel": "kernel",
    "Runtime": "runtime",
    "Memcpy": "memcpy",
    "Memset": "memset",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "cuda_sync": "sync",
    "user_annotation": "annotation",
    "gpu_user_annotation": "gpu_annotation",
    "python_function": "python",
    "Trace": "trace",
}
SKIPPED = {"M": "metadata", "s": "flow", "t": "flow", "f": "flow", "i": "instant"}


def read(dump: Path, options: ReadOptions) -> tuple[pa.Table, DumpFacts]:
    batches: list[pa.Table] = []
    with dump.open("rb") as file:
        facts = KinetoReader().read(file, dump.name, batches.append, options)
    return pa.concat_tables(batches), facts


def number(value: Any) -> int | None:
    """Return the whole number that the dump wrote, as a number or as text."""
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def expected_row(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args", {})
    if event["ph"] == "i":
        return dict.fromkeys(RAW_SCHEMA.names) | {
            "category": "memory",
            "name": "[memory]",
            "start_ns": int(Decimal(event["ts"]) * 1000),
            "duration_ns": 0,
            "device": None if args["Device Type"] == 0 else args["Device Id"],
            "process": event["pid"],
            "thread": event["tid"],
            "n_bytes": args["Bytes"],
            "allocated_bytes": args.get("Total Allocated"),
            "reserved_bytes": args.get("Total Reserved"),
        }
    ids = [event["pid"], event["tid"]]
    labels = [value for value in ids if isinstance(value, str) and number(value) is None]
    group = args.get("Process Group Name", args.get("Process Group ID"))
    return {
        "category": CATEGORIES.get(event["cat"], event["cat"]),
        "name": event["name"],
        "start_ns": int(Decimal(event["ts"]) * 1000),
        "duration_ns": int(Decimal(event["dur"]) * 1000),
        "device": args.get("device"),
        "stream": number(args.get("stream")),
        "process": number(ids[0]),
        "thread": number(ids[1]),
        "label": labels[0] if labels else None,
        "correlation_id": args.get("correlation") or None,
        "external_id": args.get("External id", args.get("external id")),
        "sequence_id": args.get("Sequence number"),
        "forward_thread": args.get("Fwd thread id"),
        "context": args.get("context"),
        "n_bytes": number(args.get("bytes")),
        "grid": args.get("grid"),
        "block": args.get("block"),
        "comm_op": args.get("Collective name"),
        "comm_dtype": args.get("dtype"),
        "comm_in_elements": args.get("In msg nelems"),
        "comm_out_elements": args.get("Out msg nelems"),
        "comm_group": None if group is None else str(group),
        "comm_group_description": args.get("Process Group Description"),
        "comm_group_ranks": args.get("Process Group Ranks"),
        "comm_group_size": args.get("Group size"),
        "comm_seq": args.get("Seq"),
        "wait_stream": args.get("wait_on_stream"),
        "wait_event_id": args.get("wait_on_cuda_event_id"),
        "wait_correlation_id": args.get("wait_on_cuda_event_record_corr_id"),
        "graph_node_id": args.get("graph node id"),
        "comm_source_rank": args.get("Src Rank"),
        "comm_target_rank": args.get("Dst Rank"),
        "inputs": inputs(event["name"], args),
        "allocated_bytes": None,
        "reserved_bytes": None,
    }


def inputs(name: str, args: dict[str, Any]) -> str | None:
    """Return what an operator was called with, unless no size is in it; none in these dumps is too long to keep."""
    shapes = json.dumps(args.get("Input Dims", []), separators=(",", ":"))
    if not any(character.isdigit() for character in shapes):
        return None
    values = args.get("Concrete Inputs", []) if "conv" in name or "_scaled_" in name else []
    return "|".join([shapes, ";".join(args["Input type"]), ";".join(values)])


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in RAW_SCHEMA.names}


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: f"{dump.parent.name}/{dump.name[:28]}")
def test_every_row_equals_the_reference(dump: Path) -> None:
    document = json.loads(gzip.decompress(dump.read_bytes()), parse_float=Decimal)
    events = document["traceEvents"]
    stored = [event for event in events if event["ph"] == "X" or event.get("name") == "[memory]"]
    skipped = Counter(SKIPPED[event["ph"]] for event in events if event["ph"] != "X" and event["name"] != "[memory]")

    table, facts = read(dump, ReadOptions(threads=2, keep_python=True))

    assert table.schema == RAW_SCHEMA
    expected = columns_of([expected_row(event) for event in stored])
    for name in RAW_SCHEMA.names:
        assert table[name].to_pylist() == expected[name], name
    assert facts.n_events == len(events)
    assert facts.n_stored == len(stored)
    assert dict(facts.skipped) == dict(skipped)
    assert (facts.n_dropped, facts.n_salvaged, facts.n_rounded, facts.n_bad_times) == (0, 0, 0, 0)
    assert not facts.is_truncated
    assert facts.notes == ()
    assert facts.base_ns == document.get("baseTimeNanoseconds", 0)
    distributed = document.get("distributedInfo", {})
    assert facts.rank == distributed.get("rank")
    assert facts.world_size == distributed.get("world_size")
    assert facts.backend == distributed.get("backend")
    assert [device.index for device in facts.devices] == [d["id"] for d in document.get("deviceProperties", [])]
