"""Reads exported traces as Perfetto does: by process and named thread, slices nested or dropped."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

RUN_PID = 10_000_000
"""The process that holds the run's own steps."""

PATH_PID = 10_000_001
"""The process that holds their critical paths."""


def times(trace: Json, pid: int, track: str) -> list[tuple[str, int, int]]:
    """Return (name, start, duration) of the slices on a rank's track, in nanoseconds from the trace's base."""
    tids = {e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name" and e["pid"] == pid
            and e["args"]["name"] == track}  # fmt: skip
    return [
        (e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000))
        for e in trace["traceEvents"]
        if e["ph"] == "X" and e["pid"] == pid and e["tid"] in tids
    ]


def overlaps(trace: Json) -> list[tuple[Json, Json]]:
    """Return pairs of slices of one track of which neither holds the other, which Perfetto would drop."""
    found = []
    open_on: dict[tuple[int, int], list[tuple[int, Json]]] = {}
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    for event in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
        start = round(event["ts"] * 1000)
        end = start + round(event["dur"] * 1000)
        stack = open_on.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1][0] <= start:
            stack.pop()
        if stack and stack[-1][0] < end:
            found.append((stack[-1][1], event))
        stack.append((end, event))
    return found
