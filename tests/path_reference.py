"""The critical path and the what-if replay, an event at a time: slow and plain, what the relations are held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa

from path_events import Activity, Clock, Event, Rank, Release, Run, run_of

TURNAROUND_NS = 5000
EVENT_WAIT_NS = 20_000


@dataclass(frozen=True)
class Segment:
    """A stretch of a step's critical path."""

    rank: int
    lane: str
    kind: str
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Element:
    """What a scenario may change: a device duration, a piece of host time, a launch's lag or a member's transfer."""

    rank: int
    what: str  # device, host, launch or transfer
    kind: str  # compute, comm, copy; host, sync, input; launch; comm
    name: str
    step: int | None
    phase: str | None
    ns: int


Change: TypeAlias = Callable[[Element], int]


@dataclass(frozen=True)
class Candidate:
    """What an activity may have waited for: `ready` is clipped to its start, `at` is not; no source is the launch."""

    by: str  # wait, stream or launch
    ready: int
    at: int
    source: Activity | None


# Blockers and host time


def candidates(rank: Rank, n: Activity) -> list[Candidate]:
    """Return what an activity may have waited for, in the order that decides ties."""
    earlier = [a for a in rank.activities if a.no < n.no]
    previous = max((a for a in earlier if a.stream == n.stream), key=lambda a: a.no, default=None)
    found: list[Candidate] = []
    waited: list[Activity] = []
    for wait in rank.waits:
        held = [
            a for a in rank.activities if a.stream == wait.stream and a.launch is not None and a.launch >= wait.start
        ]
        if min(held, key=lambda a: (a.launch, a.no), default=None) is not n:
            continue
        given = [
            a
            for a in rank.activities
            if a.stream == wait.wait_stream and a.launch is not None and a.launch < wait.record
        ]
        last = max(given, key=lambda a: (a.launch, a.no), default=None)
        if last is not None and last.no < n.no:
            waited.append(last)
    busy_until = max((a.end for a in earlier if a.stream == n.stream), default=None)
    if not waited and (busy_until is None or n.start - busy_until > TURNAROUND_NS):
        others = [a for a in rank.activities if a.stream != n.stream and a.end <= n.start]
        source = max(others, key=lambda a: (a.end, a.no), default=None)
        if source is not None and source.no < n.no:
            late = n.start - source.end
            was_free = busy_until is not None and 10 * late <= n.start - busy_until
            if late <= TURNAROUND_NS or (late <= EVENT_WAIT_NS and was_free):
                waited = [source]
    if waited:
        source = max(waited, key=lambda a: (a.end, a.no))
        found.append(Candidate("wait", min(source.end, n.start), source.end, source))
    if previous is not None:
        found.append(Candidate("stream", min(previous.end, n.start), previous.end, previous))
    if n.launch is not None:
        found.append(Candidate("launch", min(n.launch, n.start), n.launch, None))
    return found


def blocker(rank: Rank, n: Activity) -> Candidate | None:
    """Return the candidate that was ready last; of equals the first."""
    return max(candidates(rank, n), key=lambda c: c.ready, default=None)


def _piece_kind(n: Activity, c: Candidate) -> str:
    if c.by == "launch":
        return "launch"
    if n.start - c.ready <= (EVENT_WAIT_NS if c.by == "wait" else TURNAROUND_NS):
        return "turnaround"
    return "launch" if c.by == "stream" and n.launch_end is not None and n.launch_end > c.ready else "unknown"


def _innermost(events: Sequence[Event]) -> Event:
    return max(events, key=lambda e: (e.category in ("runtime", "driver"), e.start, -e.end, e.place))


def host_pieces(rank: Rank, thread: int, a: int, b: int) -> Iterator[tuple[str, str, str, int, int]]:
    """Yield (lane, kind, name, start, end) of a thread's time from a to b, in order."""
    edges = {x for e in rank.events for x in (e.start, e.end)}
    edges |= {x for s in rank.steps.values() for x in (s.marker_start, s.marker_end)}
    cuts = [a, *sorted(x for x in edges if a < x < b), b]
    for start, end in pairwise(cuts):
        if start == end:
            continue
        covering = [e for e in rank.events if e.start <= start < e.end]
        own = [e for e in covering if e.thread == thread]
        kind = "input" if any(e.is_input for e in own) else "sync" if any(e.is_blocking for e in own) else "host"
        named, lane = own, thread
        if not any(e.category != "annotation" for e in own):
            for other in sorted(rank.launchers - {thread}):
                theirs = [e for e in covering if e.thread == other]
                if any(e.category == "cpu_op" for e in theirs):
                    named, lane = theirs, other
                    break
        yield f"thread {lane}", kind, _innermost(named).name if named else "(no event)", start, end


# The path


def paths(ranks: Mapping[int, pa.Table], clocks: Mapping[int, Clock] | None = None) -> dict[int, list[Segment]]:
    """Return each step's critical path in order of time; adjacent pieces that are alike are one."""
    run = run_of(ranks, clocks)
    return {n: merged(_walk(run, n)) for n in run.steps}


def merged(pieces: Sequence[Segment]) -> list[Segment]:
    """Return pieces in order with adjacent ones joined that are alike in all but their times."""
    joined: list[Segment] = []
    for p in pieces:
        last = joined[-1] if joined else None
        if last and (last.rank, last.lane, last.kind, last.name) == (p.rank, p.lane, p.kind, p.name):
            joined[-1] = Segment(p.rank, p.lane, p.kind, p.name, last.start_ns, p.end_ns)
        else:
            joined.append(p)
    return joined


def last_arriver(run: Run, m: Activity) -> Activity:
    """Return the member whose story explains what was before a collective: the last one, unless by too little."""
    members = run.members.get((m.rank, m.no), (m,))
    last = min(members, key=lambda a: (-a.start, a.rank))
    residual = max(run.ranks[m.rank].residual, run.ranks[last.rank].residual)
    return last if last.start - m.start > max(TURNAROUND_NS, 3 * residual) else m


def _walk(run: Run, number: int) -> list[Segment]:
    step = run.steps[number]
    cursor = step.end
    backwards: list[Segment] = []

    def emit(rank: int, lane: str, kind: str, name: str, start: int) -> None:
        nonlocal cursor
        start = max(start, step.start)
        if start < cursor:
            backwards.append(Segment(rank, lane, kind, name, start, cursor))
            cursor = start

    rank = run.ranks[step.end_rank]
    at = max((a for a in rank.activities if a.end == cursor), key=lambda a: a.no, default=None)
    thread = rank.steps[number].thread
    seen: set[tuple[int, int, int]] = set()
    while cursor > step.start:
        if at is None:
            release = max(
                (r for r in rank.releases if r.call.end <= cursor),
                key=lambda r: (r.call.end, r.call.start),
                default=None,
            )
            since = max(step.start, release.call.end) if release else step.start
            for lane, kind, name, start, _ in reversed(list(host_pieces(rank, thread, since, cursor))):
                emit(rank.number, lane, kind, name, start)
            if release:
                emit(rank.number, f"thread {release.call.thread}", "sync", release.call.name, release.by.end)
                at = release.by
            continue
        # Times that contradict each other can lead in a circle without time passing; what is left has no evidence.
        is_circle = (at.rank, at.no, cursor) in seen
        seen.add((at.rank, at.no, cursor))
        last = last_arriver(run, at) if at.kind == "comm" else at
        if not is_circle:
            emit(at.rank, at.lane, at.kind, at.name, last.start)
        rank = run.ranks[last.rank]
        by = None if is_circle else blocker(rank, last)
        if by is None:
            emit(last.rank, last.lane, "unknown", last.name, step.start)
            break
        emit(last.rank, last.lane, _piece_kind(last, by), last.name, by.ready)
        at = by.source
        if at is None:
            assert last.thread is not None
            thread = last.thread
    return backwards[::-1]


# The replay

Node: TypeAlias = tuple[
    str, int, int
]  # S, E of an activity, H of a host point, I of an instance, C of a step; rank, number
Edges: TypeAlias = dict[Node, list[tuple[Node | None, int]]]


@dataclass(frozen=True)
class _Point:
    """A moment of a rank's host timeline."""

    at: int
    order: int  # of equal times: release end, release start, launch, marker end
    thread: int
    release: Release | None


def replay(
    ranks: Mapping[int, pa.Table], change: Change | None = None, clocks: Mapping[int, Clock] | None = None
) -> dict[int, int]:
    """Return each step's predicted time; a step behind a circle of times that contradict each other is left out."""
    run = run_of(ranks, clocks)
    at = _longest(graph(run, change))
    done: dict[int, int] = {}
    for n in run.steps:
        ends = [at.get(("C", r, n)) for r, rank in run.ranks.items() if n in rank.steps]
        if None not in ends:
            done[n] = max(e for e in ends if e is not None)
    predicted = {}
    for n, step in run.steps.items():
        before = done.get(n - 1) if step.follows else step.end_before
        if n in done and before is not None:
            predicted[n] = max(0, done[n] - before)
    return predicted


def graph(run: Run, change: Change | None) -> Edges:
    """Return what each node waits for and how long after; no source: at that time."""
    edges: Edges = {}
    for rank in run.ranks.values():
        host = _host_edges(rank, change, edges)
        chosen = {n.no: blocker(rank, n) for n in rank.activities}
        medians = _median_lags(rank, chosen)
        for n in rank.activities:
            into: list[tuple[Node | None, int]] = []
            for c in candidates(rank, n):
                lag = n.start - c.at
                if c != chosen[n.no]:
                    lag = min(lag, medians.get(c.by, 0))
                if c.source is None:
                    assert n.launch is not None and n.thread is not None
                    lag = _changed(change, Element(n.rank, "launch", "launch", n.name, n.step, None, lag))
                    into.append((host[n.launch, n.thread], lag))
                elif c.by == "stream" and c.source.end > n.start:
                    into.append((("S", n.rank, c.source.no), n.start - c.source.start))
                else:
                    into.append((("E", n.rank, c.source.no), lag))
            edges["S", n.rank, n.no] = into or [(None, n.start)]
            edges["E", n.rank, n.no] = [_end(run, n, change, edges)]
        for number, s in rank.steps.items():
            before = rank.steps.get(number - 1)
            follows = before is not None and before.capture == s.capture
            into = [(("C", rank.number, number - 1), 0) if follows else (None, s.capture_start)]
            for stream in {a.stream for a in s.launched}:
                last = max((a for a in s.launched if a.stream == stream), key=lambda a: (a.end, a.no))
                into.append((("E", rank.number, last.no), 0))
            if not s.launched:
                into.append((host[s.marker_end, s.thread], 0))
            edges["C", rank.number, number] = into
    return edges


def _end(run: Run, n: Activity, change: Change | None, edges: Edges) -> tuple[Node, int]:
    members = run.members.get((n.rank, n.no)) if n.kind == "comm" else None
    if members is None:
        return ("S", n.rank, n.no), _changed(
            change, Element(n.rank, "device", n.kind, n.name, n.step, None, n.end - n.start)
        )
    first = min(members, key=lambda a: (a.rank, a.no))
    met: Node = ("I", first.rank, first.no)
    edges[met] = [(("S", a.rank, a.no), 0) for a in members]
    median = sorted(a.end for a in members)[(len(members) - 1) // 2]
    transfer = median - max(a.start for a in members)
    return met, _changed(change, Element(n.rank, "transfer", "comm", n.name, n.step, None, transfer)) + n.end - median


def _median_lags(rank: Rank, chosen: Mapping[int, Candidate | None]) -> dict[str, int]:
    lags: dict[str, list[int]] = defaultdict(list)
    for n in rank.activities:
        c = chosen[n.no]
        if c is not None and not (c.by == "stream" and c.at > n.start):
            lags[c.by].append(n.start - c.at)
    return {by: min(sorted(values)[(len(values) - 1) // 2], EVENT_WAIT_NS) for by, values in lags.items()}


def _host_edges(rank: Rank, change: Change | None, edges: Edges) -> dict[tuple[int, int], Node]:
    """Add the host's timeline; return the nodes of launches and of markers' ends by (time, thread)."""
    points = {
        _Point(a.launch, 2, a.thread, None) for a in rank.activities if a.launch is not None and a.thread is not None
    }
    points |= {_Point(s.marker_end, 3, s.thread, None) for s in rank.steps.values() if not s.launched}
    points |= {_Point(r.call.start, 1, r.call.thread, None) for r in rank.releases}
    points |= {_Point(r.call.end, 0, r.call.thread, r) for r in rank.releases}
    nodes: dict[tuple[int, int], Node] = {}
    before: _Point | None = None
    for number, p in enumerate(sorted(points, key=lambda p: (p.at, p.order, p.thread))):
        node: Node = ("H", rank.number, number)
        if before is None:
            edges[node] = [(None, p.at)]
        elif p.release is not None:
            by = p.release.by
            edges[node] = [(("H", rank.number, number - 1), 0), (("E", rank.number, by.no), p.at - by.end)]
        else:
            edges[node] = [(("H", rank.number, number - 1), _interval(rank, p.thread, before.at, p.at, change))]
        if p.order >= 2:
            nodes[p.at, p.thread] = node
        before = p
    return nodes


def _interval(rank: Rank, thread: int, a: int, b: int, change: Change | None) -> int:
    total = 0
    for _, kind, name, start, end in host_pieces(rank, thread, a, b):
        step = max((n for n, s in rank.steps.items() if s.marker_start <= start < s.marker_end), default=None)
        total += _changed(change, Element(rank.number, "host", kind, name, step, None, end - start))
    return total


def _changed(change: Change | None, element: Element) -> int:
    return change(element) if change is not None and element.ns > 0 else element.ns


def _longest(edges: Edges) -> dict[Node, int]:
    at: dict[Node, int] = {}
    waiting = dict(edges)
    while True:
        ready = [n for n, into in waiting.items() if all(s is None or s in at for s, _ in into)]
        if not ready:
            return at
        for node in ready:
            at[node] = max(ns + (0 if s is None else at[s]) for s, ns in waiting.pop(node))
