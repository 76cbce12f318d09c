"""NVTX domains and payloads are there for the run's step marker, and for nothing else."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from formats.nsys_files import CUPTI, Row, kernel, marked, pid, read_both, write
from longpole.config import parse
from longpole.discover import find
from longpole.ingest import ingest_run
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import inline

NONE = dict.fromkeys(
    (
        *("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue"),
        *("jsonTextId", "jsonText", "binaryData", "domainId"),
    )
)
NAMES = {1: "gemm", 4: "registered", 8: '{"at":{"step":12}}', 9: "trainer"}


def steps(tmp_path: Path, marker: str, ranges: list[Row], **tables: list[Row]) -> list[tuple[Any, ...]]:
    """Return the steps' numbers and their markers' names, once SQLite and Parquet have given the same."""
    all_tables = {CUPTI + "KERNEL": [kernel(1_000, 1_250)], "NVTX_EVENTS": ranges, **tables}
    database = write(tmp_path / "a.sqlite", all_tables, names=NAMES)
    config = f"[steps]\nmarker = '{marker}'\n"
    read_both(database, marker)
    store = Store(str(tmp_path / "store"))
    with store.lock("job"):
        ingest_run(store, "job", find([str(database)]), parse(config, "run.toml"), config, run_tasks=inline)
    with Session(store) as session:
        return session.con.execute(
            "SELECT step, name, category FROM events WHERE category IN ('step', 'annotation', 'cpu_op')"
            " ORDER BY start_ns"
        ).fetchall()


def carried(start: int, text: str | None, **payload: Any) -> Row:
    return marked(start, start + 50, text, **{**NONE, **payload})


def test_a_number_in_a_payload_numbers_the_step(tmp_path: Path) -> None:
    payloads: list[Row] = [
        {"int64Value": 17},
        {"uint64Value": 18},
        {"int32Value": 19},
        {"uint32Value": 20},
        {"doubleValue": 21.0},
        {"floatValue": 22.0},
        {"int64Value": 23, "uint64Value": 0, "int32Value": 0, "uint32Value": 0},  # an older exporter's zeros
        {"int64Value": 0, "uint64Value": 0},
    ]
    found = steps(
        tmp_path,
        r"^train, payload = (\d+)$",
        [
            *(carried(100 * place, "train", **payload) for place, payload in enumerate(payloads)),
            carried(1_000, "size", int64Value=4_096),
            carried(1_100, "plain"),
            carried(1_200, "train", uint64Value=-1),
        ],
    )

    assert found == [
        *((number, f"train, payload = {number}", "step") for number in (17, 18, 19, 20, 21, 22, 23, 0)),
        (None, "size", "annotation"),
        (None, "plain", "annotation"),
        (None, "train, payload = 18446744073709551615", "annotation"),  # beyond any step
    ]


def test_json_in_a_payload_is_matched_as_it_stands(tmp_path: Path) -> None:
    found = steps(
        tmp_path,
        r'^train, payload = .*"step":\s*(\d+)',
        [
            carried(100, "train", jsonText='{"loss": 0.5, "step": 11}'),
            carried(200, "train", jsonTextId=8),
            carried(300, "train", jsonText="{"),
        ],
    )

    assert found == [
        (11, 'train, payload = {"loss": 0.5, "step": 11}', "step"),
        (12, 'train, payload = {"at":{"step":12}}', "step"),
        (None, "train", "annotation"),
    ]


def blob(schema: int, body: bytes, domain: int = 3) -> bytes:
    return struct.pack("<QQQQ", domain, schema, len(body), 32) + body


def entry(schema: int, name: str, kind: int, offset: int | None) -> Row:
    return {"domainId": 3, "schemaId": schema, "type": kind, "name": name, "offset": offset}


def test_bytes_in_a_payload_are_read_by_their_schema(tmp_path: Path) -> None:
    body = struct.pack("<Qid", 0xABC, 31, 0.25)
    found = steps(
        tmp_path,
        r'^train, payload = .*"step":(\d+)',
        [
            carried(100, "train", domainId=3, binaryData=blob(70, body)),
            carried(200, "train", domainId=3, binaryData=blob(70, body[:9])),  # ends within the step
            carried(300, "train", domainId=3, binaryData=blob(71, body)),  # no such schema
            carried(400, "train", domainId=3, binaryData=b"short"),
        ],
        NVTX_PAYLOAD_SCHEMA_ENTRIES=[
            entry(70, "id", 18, None),
            entry(70, "step", 5, 8),
            entry(70, "loss", 20, 12),
            entry(70, "kind", 16_777_232, 0),
            entry(70, "before", 5, -4),
        ],
    )

    assert found == [
        (31, 'train, payload = {"id":2748,"step":31,"loss":0.25}', "step"),
        (None, "train", "annotation"),
        (None, "train", "annotation"),
        (None, "train", "annotation"),
    ]


def test_the_name_of_a_domain_tells_markers_apart(tmp_path: Path) -> None:
    made = {"eventType": 75, "textId": None}
    found = steps(
        tmp_path,
        r"^trainer:step(?: |, payload = )(\d+)",
        [
            marked(10, None, "data", **{**NONE, **made, "domainId": 2}),
            marked(11, None, None, **{**NONE, **made, "domainId": 3, "textId": 9}),
            marked(12, None, "trainer", **{**NONE, **made, "domainId": 2, "globalTid": pid(9) + 1}),
            carried(100, "step 5", domainId=2),
            carried(200, "step 6", domainId=3),
            carried(300, "step", domainId=3, int64Value=7),
            carried(400, "step 8"),
        ],
    )

    assert found == [
        (None, "step 5", "annotation"),
        (6, "trainer:step 6", "step"),
        (7, "trainer:step, payload = 7", "step"),
        (None, "step 8", "annotation"),
    ]


def test_ranges_by_start_and_end_mark_steps_and_marks_do_not(tmp_path: Path) -> None:
    found = steps(
        tmp_path,
        r"^step (\d+)$",
        [
            marked(100, 150, "step 1", eventType=60, rangeId=1),
            marked(200, 250, "step 2", eventType=59, rangeId=None),
            marked(300, None, "step 3", eventType=34, rangeId=None),
            marked(400, 450, None, eventType=60, rangeId=2, textId=4),
        ],
    )

    assert found == [(1, "step 1", "step"), (2, "step 2", "step"), (None, "registered", "annotation")]
