"""Every field that PyTorch documents of a flight recorder's record, whichever version wrote it, in both forms."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from longpole.formats.flight_recorder import RAW_FLIGHT, read_flight

ENTRY: dict[str, Any] = {
    "frames": [{"name": "step", "filename": "/job/train.py", "line": 12}],
    "record_id": 4,
    "pg_id": 0,
    "process_group": ("7", "tp"),
    "collective_seq_id": 3,
    "p2p_seq_id": 2,
    "op_id": 5,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1724779239936775119,
    "duration_ms": 0.25,
    "input_sizes": [[3, 4]],
    "input_dtypes": ["Float"],
    "output_sizes": [[3, 4], [2]],
    "output_dtypes": ["Float", "Half"],
    "state": "started",
    "time_discovered_started_ns": 1724779239936775120,
    "time_discovered_completed_ns": 1724779239975811724,
    "retired": True,
    "timeout_ms": 600000,
    "is_p2p": False,
}

ROW = {
    "frame": "train.py:12 step",
    "record_id": 4,
    "group_id": "7",
    "group_description": "tp",
    "group_ranks": "0-1",
    "collective_seq": 3,
    "p2p_seq": 2,
    "op_id": 5,
    "name": "nccl:all_reduce",
    "created_ns": 1724779239936775119,
    "duration_ms": 0.25,
    "input_sizes": "[[3,4]]",
    "input_dtypes": "Float",
    "output_sizes": "[[3,4],[2]]",
    "output_dtypes": "Float;Half",
    "state": "started",
    "started_ns": 1724779239936775120,
    "completed_ns": 1724779239975811724,
    "is_retired": True,
    "timeout_ms": 600000,
    "is_p2p": False,
}

LOST = {
    **{"frames": ["frame"], "record_id": ["record_id"], "pg_id": [], "op_id": ["op_id"], "p2p_seq_id": ["p2p_seq"]},
    **{"collective_seq_id": ["collective_seq"], "profiling_name": ["name"], "time_created_ns": ["created_ns"]},
    **{"duration_ms": ["duration_ms"], "input_sizes": ["input_sizes"], "input_dtypes": ["input_dtypes"]},
    **{"output_sizes": ["output_sizes"], "output_dtypes": ["output_dtypes"], "state": ["state"]},
    **{"time_discovered_started_ns": ["started_ns"], "time_discovered_completed_ns": ["completed_ns"]},
    **{"retired": ["is_retired"], "timeout_ms": ["timeout_ms"], "is_p2p": ["is_p2p"]},
    **{"process_group": ["group_id", "group_description", "group_ranks"]},
}
"""Which columns each field gives."""


def rows(entry: dict[str, Any], version: str, form: str) -> list[dict[str, Any]]:
    told = {
        "version": version,
        "pg_config": {"7": {"name": "7", "desc": "tp", "ranks": "[0, 1]"}},
        "pg_status": {
            "0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 2}
        },
        "entries": [entry],
    }
    flight = read_flight(json.dumps(told).encode() if form == "JSON" else pickle.dumps(told, 2), "dump")
    assert flight.schema == f"{form}, version {version}"
    found: list[dict[str, Any]] = flight.records.to_pylist()
    return found


def test_the_fields_are_all_that_a_record_has() -> None:
    assert set(LOST) == set(ENTRY)
    assert set(ROW) == set(RAW_FLIGHT.names)


@pytest.mark.parametrize("form", ["pickle", "JSON"])
@pytest.mark.parametrize("version", [f"2.{n}" for n in range(11)])
def test_every_field_is_read_in_every_version(version: str, form: str) -> None:
    assert rows(ENTRY, version, form) == [ROW]


@pytest.mark.parametrize("field", ENTRY)
def test_a_version_without_a_field_gives_all_the_others(field: str) -> None:
    without = {key: value for key, value in ENTRY.items() if key != field}
    (found,) = rows(without, "2.0", "pickle")
    lost = dict.fromkeys(LOST[field])
    if field == "process_group":  # the number of the group stands in for its name
        lost["group_id"] = "0"
    assert found == ROW | lost


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e300, "soon", True, [1]])
def test_a_duration_that_is_none_is_left_out(value: object) -> None:
    (found,) = rows(ENTRY | {"duration_ms": value}, "2.5", "pickle")
    assert found["duration_ms"] is None
