"""What ranks recorded, read from linked events (`evaluation.link`) without the relations: steps, releases, instances.

Restrictions: dumps with one device and one process; collectives of one shape share their kernel's name; without
metadata a group is a stream's number. Times are aligned by a constant offset per rank; ranks are always comparable.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

_DATA = Path(__file__).parents[1] / "sql" / "data"


def _table(file: str) -> list[dict[str, str]]:
    with (_DATA / file).open(newline="") as lines:
        return list(csv.DictReader(lines))


_BLOCKING = frozenset(r["name"] for r in _table("blocking_calls.csv") if r["what"] != "allocate")
_INPUT = [re.compile(r["pattern"]) for r in _table("input_ranges.csv")]


@dataclass(frozen=True)
class Clock:
    """What turns a rank's times into the run's: aligned = own − offset; differences below 3 residuals mean nothing."""

    offset_ns: int = 0
    residual_ns: int = 0


@dataclass(frozen=True)
class Activity:
    """Work on the device; `no` is its place in order of start."""

    rank: int
    no: int
    kind: str
    name: str
    step: int | None
    start: int
    end: int
    stream: int | None
    launch: int | None
    launch_end: int | None
    thread: int | None
    group: str | None
    group_ranks: str | None
    seq: int | None

    @property
    def lane(self) -> str:
        return f"stream {self.stream}"


@dataclass(frozen=True)
class Event:
    """An operator, a call or a range on a host thread."""

    place: int
    category: str
    name: str
    thread: int
    start: int
    end: int

    @property
    def is_input(self) -> bool:
        return self.category in ("annotation", "cpu_op") and any(p.search(self.name) for p in _INPUT)

    @property
    def is_blocking(self) -> bool:
        return self.category in ("runtime", "driver") and self.name in _BLOCKING


@dataclass(frozen=True)
class Wait:
    """A recorded wait of a stream for what another one had been given before a call."""

    stream: int
    start: int
    wait_stream: int
    record: int


@dataclass(frozen=True)
class Release:
    """A blocking call that returned because an activity had ended."""

    call: Event
    by: Activity


@dataclass(frozen=True)
class RankStep:
    """A step on a rank: its marker, and from when to when the device completed it."""

    capture: int
    capture_start: int
    marker_start: int
    marker_end: int
    thread: int
    start: int
    end: int
    launched: tuple[Activity, ...]


@dataclass(frozen=True)
class Rank:
    """What one rank recorded."""

    number: int
    residual: int
    activities: tuple[Activity, ...]
    events: tuple[Event, ...]
    waits: tuple[Wait, ...]
    steps: Mapping[int, RankStep]
    launchers: frozenset[int]
    releases: tuple[Release, ...]


@dataclass(frozen=True)
class Step:
    """A step of the run."""

    start: int
    end: int
    end_rank: int
    end_before: int  # what the prediction subtracts: completion of the step before, or the capture's measured start
    follows: bool


@dataclass(frozen=True)
class Run:
    """All ranks, with the instances whose members are all there."""

    ranks: Mapping[int, Rank]
    steps: Mapping[int, Step]
    members: Mapping[tuple[int, int], tuple[Activity, ...]]


def run_of(tables: Mapping[int, pa.Table], clocks: Mapping[int, Clock] | None = None) -> Run:
    """Return the run that the ranks' linked events are."""
    clocks = clocks or {}
    ranks = {r: _rank(r, tables[r], clocks.get(r, Clock())) for r in sorted(tables)}
    return Run(ranks, _steps(ranks), _instances(ranks))


def _rank(number: int, table: pa.Table, clock: Clock) -> Rank:
    rows: list[dict[str, Any]] = sorted(table.to_pylist(), key=lambda r: r["start_ns"])
    off = clock.offset_ns
    activities: list[Activity] = []
    events: list[Event] = []
    records: dict[int, int] = {}
    for place, r in enumerate(rows):
        if r["duration_ns"] is None:
            continue
        start, end = r["start_ns"] - off, r["start_ns"] - off + r["duration_ns"]
        if r["kind"] is not None:
            linked = r["launch_ns"] is not None
            activities.append(
                Activity(
                    number, len(activities), r["kind"], r["name"], r["step"], start, end, r["stream"],
                    r["launch_ns"] - off if linked else None, r["launch_end_ns"] - off if linked else None,
                    r["launch_thread"], r["comm_group"], r["comm_group_ranks"], r["comm_seq"],
                )
            )  # fmt: skip
        elif r["category"] in ("runtime", "driver", "cpu_op", "annotation"):
            in_file = place if r["row_id"] is None else r["row_id"]
            events.append(Event(in_file, r["category"], r["name"], r["thread"], start, end))
            if r["category"] in ("runtime", "driver") and r["correlation_id"] is not None:
                records.setdefault(r["correlation_id"], start)
    waits = [
        Wait(r["stream"], r["start_ns"] - off, r["wait_stream"], records[r["wait_correlation_id"]])
        for r in rows
        if r["category"] == "sync" and r["name"] == "Stream Wait Event" and r["wait_correlation_id"] in records
    ]
    launchers = frozenset(a.thread for a in activities if a.thread is not None)
    releases = []
    for call in events:
        if call.is_blocking and call.thread in launchers:
            inside = [a for a in activities if call.start < a.end <= call.end]
            if inside:
                releases.append(Release(call, max(inside, key=lambda a: (a.end, a.no))))
    steps = _rank_steps([r for r in rows if r["category"] == "step"], activities, off)
    return Rank(
        number, clock.residual_ns, tuple(activities), tuple(events), tuple(waits), steps, launchers, tuple(releases)
    )


def _rank_steps(rows: list[dict[str, Any]], activities: Sequence[Activity], off: int) -> dict[int, RankStep]:
    markers: dict[int, tuple[int, int, int]] = {}
    for r in rows:
        start, end = r["start_ns"] - off, r["start_ns"] - off + r["duration_ns"]
        old = markers.get(r["step"], (start, end, r["thread"]))
        markers[r["step"]] = (min(old[0], start), max(old[1], end), r["thread"] if end > old[1] else old[2])
    captures: list[list[int]] = []
    for n in sorted(markers, key=lambda n: (markers[n][0], n)):
        if captures and captures[-1][-1] == n - 1:
            captures[-1].append(n)
        else:
            captures.append([n])
    steps: dict[int, RankStep] = {}
    for capture, numbers in enumerate(captures):
        host_start = min(markers[n][0] for n in numbers)
        firsts: dict[int | None, int] = {}
        for a in activities:
            if a.launch is not None and a.launch >= host_start:
                firsts[a.stream] = min(a.start, firsts.get(a.stream, a.start))
        capture_start = host_start
        for a in activities:
            if a.launch is not None:
                is_before = a.launch < host_start
            else:
                bound = firsts.get(a.stream, min(firsts.values(), default=None))
                is_before = bound is not None and a.start < bound
            if is_before:
                capture_start = max(capture_start, a.end)
        done = capture_start
        for n in numbers:
            launched = tuple(a for a in activities if a.step == n)
            begin, done = done, max(done, max((a.end for a in launched), default=markers[n][1]))
            steps[n] = RankStep(capture, capture_start, *markers[n], begin, done, launched)
    return steps


def _steps(ranks: Mapping[int, Rank]) -> dict[int, Step]:
    steps: dict[int, Step] = {}
    before: tuple[int, int, int] | None = None  # step, capture, end
    for n in sorted({n for rank in ranks.values() for n in rank.steps}):
        present = {r: rank.steps[n] for r, rank in ranks.items() if n in rank.steps}
        end = max(s.end for s in present.values())
        capture = min(s.capture for s in present.values())
        follows = before is not None and before[:2] == (n - 1, capture)
        start = before[2] if before is not None and follows else max(s.start for s in present.values())
        end_rank = min(r for r, s in present.items() if s.end == end)
        steps[n] = Step(start, max(start, end), end_rank, start, follows)
        before = (n, capture, end)
    return steps


def _instances(ranks: Mapping[int, Rank]) -> dict[tuple[int, int], tuple[Activity, ...]]:
    groups: dict[Any, list[Activity]] = defaultdict(list)
    for rank in ranks.values():
        comm = [a for a in rank.activities if a.kind == "comm"]
        for a in comm:
            named = {(b.group, b.group_ranks) for b in comm if b.stream == a.stream and b.group is not None}
            own = (a.group, a.group_ranks) if a.group is not None else named.pop() if len(named) == 1 else None
            groups[own or f"stream {a.stream}"].append(a)
    complete: dict[tuple[int, int], tuple[Activity, ...]] = {}
    for group, rows in groups.items():
        listed = group[1] if isinstance(group, tuple) else None
        n_members = len(re.findall(r"\d+", listed)) if listed else len({a.rank for a in rows})
        by_seq = all(a.seq is not None for a in rows)
        met: dict[Any, list[Activity]] = defaultdict(list)
        alike: dict[Any, int] = defaultdict(int)
        for a in rows if by_seq else sorted(rows, key=lambda a: (a.start, a.no), reverse=True):
            likeness = (a.seq if by_seq else _last_step(ranks[a.rank], a), a.name)
            met[likeness, alike[a.rank, likeness]].append(a)
            alike[a.rank, likeness] += 1
        for members in met.values():
            if len(members) == n_members:
                complete |= {(a.rank, a.no): tuple(members) for a in members}
    return complete


def _last_step(rank: Rank, a: Activity) -> int:
    """Return the last step of the capture in which an activity was launched."""
    at = a.start if a.launch is None else a.launch
    begun = [s.capture for s in rank.steps.values() if s.marker_start <= at]
    capture = max(begun, default=0)
    return max(n for n, s in rank.steps.items() if s.capture == capture)
