"""Small random dumps of several ranks: host programs, streams, waits and collectives simulated forward in time.

The rows are what a profiler would have written, so causes precede effects; where a case is not causal, some times are
moved afterwards until they contradict each other. Equal arguments give equal rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation import Row, annotation, kernel, launch_call, link, operator, step

MAIN, AUTOGRAD = 1, 2
COMPUTE, SIDE = 7, 13
_COLLECTIVES = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)
_ACTIONS = (
    "op", "op", "op", "op", "side", "copy", "graph", "collective", "collective", "collective", "wait", "wait",
    "stream sync", "device sync", "blocking copy", "malloc", "input", "pause", "named pause", "autograd",
)  # fmt: skip
_Host: TypeAlias = Generator[None, None, None]


@dataclass(frozen=True)
class Case:
    """Raw rows by rank, and whether causes precede effects in them."""

    rows: Mapping[int, Sequence[Row]]
    is_causal: bool

    def tables(self) -> dict[int, pa.Table]:
        """Return the linked events by rank."""
        return {rank: link(rows) for rank, rows in self.rows.items()}


@dataclass
class _Meeting:
    """One collective: its members as they are launched, and what they share."""

    n_members: int
    transfer: int
    members: list[_Work] = field(default_factory=list)


@dataclass
class _Work:
    """One activity of a device, whose times are known once those of what it waits for are."""

    row: Row
    call: int
    lags: tuple[int, int, int, int]  # after its call, the activity before it, a wait, the others' end
    duration: int
    before: _Work | None
    waits: list[_Work]
    meeting: _Meeting | None

    def start(self) -> int | None:
        known: list[int] = []
        for other in (self.before, *self.waits):
            end = other.end() if other else 0
            if end is None:
                return None
            known.append(end)
        first = max(known[0] + (self.lags[1] if self.before else 0), self.call + self.lags[0])
        return max([first, *(t + self.lags[2] for t in known[1:])])

    def end(self) -> int | None:
        if "end" not in self.row:
            start = self.start()
            if start is None:
                return None
            self.row["start"] = start
            if self.meeting is None:
                self.row["end"] = start + self.duration
            else:
                arrivals = []
                for member in self.meeting.members:
                    if (arrival := member.start()) is None:
                        return None
                    arrivals.append(arrival)
                if len(arrivals) < self.meeting.n_members:
                    return None
                self.row["end"] = max(arrivals) + self.meeting.transfer + self.lags[3]
        end: int = self.row["end"]
        return end


@dataclass(frozen=True)
class _Plan:
    """What all ranks share: their groups and the order of what they do in each step."""

    groups: tuple[tuple[int, ...], ...]
    metadata: str  # none, order or seq
    absent: int | None  # a member of group 0 that no dump is of
    steps: tuple[tuple[int, tuple[tuple[str, int, str], ...]], ...]  # number, (action, group, collective's name)


class _Rank:
    """One rank's host, which walks through the plan, and what it gives to the device."""

    def __init__(self, rank: int, plan: _Plan, random: Random, unit: int, meetings: dict[tuple[int, int], _Meeting]):
        self.rank, self.plan, self.random, self.unit, self.meetings = rank, plan, random, unit, meetings
        self.now = 1_000_000 + self.some(0, 30)
        self.thread = MAIN
        self.rows: list[Row] = []
        self.work: list[_Work] = []
        self.last: dict[int, _Work] = {}
        self.pending: dict[int, list[_Work]] = {}
        self.met: dict[int, int] = {}

    def some(self, low: int, high: int) -> int:
        """Return a random time of low to high µs, in units."""
        return self.random.randint(low * 1000 // self.unit, high * 1000 // self.unit) * self.unit

    def lag(self) -> int:
        """Return a time that is mostly below the device's own pace, at times exactly it, at times beyond."""
        return self.random.choice((0, self.some(0, 2), self.some(0, 4), self.some(1, 4), 5000, self.some(5, 9)))

    def call(self, name: str, length: int | None = None) -> Row:
        length = self.some(1, 6) if length is None else length
        # A correlation is its call's start; a call lasts, so no two of a rank start together.
        row = launch_call(self.now, self.now + max(length, 1), thread=self.thread, name=name)
        self.rows.append(row)
        self.now += max(length, 1)
        return row

    def give(self, stream: int, call: Row, name: str, kind: str = "kernel", meeting: _Meeting | None = None) -> _Work:
        known: int = call["start_ns"]
        row: Row = {"stream": stream, "launch": known, "name": name, "category": kind}
        duration = max(self.random.choice((self.some(1, 5), self.some(2, 40), self.some(20, 120))), 1)
        lags = (self.random.choice((self.some(0, 3), self.some(1, 9))), self.lag(), self.lag(), self.some(0, 3))
        work = _Work(row, known, lags, duration, self.last.get(stream), self.pending.pop(stream, []), meeting)
        self.last[stream] = work
        self.work.append(work)
        return work

    @contextmanager
    def op(self, name: str, category: str = "cpu_op") -> Generator[None, None, None]:
        start = self.now
        self.now += self.some(1, 3) if self.random.random() < 0.8 else 1
        yield
        self.now += self.some(0, 3) + 1
        make = operator if category == "cpu_op" else annotation
        self.rows.append(make(name, start, self.now, thread=self.thread))

    def until(self, *works: _Work) -> _Host:
        """Wait, in the simulation and on the host, until all have ended."""
        while any(w.end() is None for w in works):
            yield
        self.now = max([self.now, *(e + self.some(0, 3) for w in works if (e := w.end()) is not None)])

    def blocking(self, name: str, *works: _Work, call: Row | None = None) -> _Host:
        call = call or self.call(name, self.some(1, 3))
        yield from self.until(*works)
        call["duration_ns"] = self.now - call["start_ns"]

    def record(self, source: int, target: int) -> None:
        """Let a stream wait for what another was given so far, at times without a record of it."""
        if source not in self.last:
            return
        self.pending.setdefault(target, []).append(self.last[source])
        if self.random.random() < 0.6:
            event = self.call("cudaEventRecord", self.some(1, 2))
            wait = self.call("cudaStreamWaitEvent", self.some(1, 2))
            self.last[source].row.setdefault("awaited", []).append((target, event["start_ns"], wait["start_ns"]))

    def launch(self, stream: int, *, kind: str = "kernel") -> None:
        name = self.random.choice(("gemm", "softmax", "norm"))
        with self.op(self.random.choice(("aten::mm", "aten::add", "aten::linear"))):
            if self.random.random() < 0.4:
                with self.op("aten::inner"):
                    self.give(stream, self.call("cudaLaunchKernel"), name)
            elif kind == "graph":
                call = self.call("cudaGraphLaunch")
                for n in range(self.random.randint(2, 4)):
                    self.give(self.random.choice((COMPUTE, COMPUTE, SIDE)), call, f"node {n}")
            elif kind == "memcpy":
                self.give(stream, self.call("cudaMemcpyAsync"), "Memcpy HtoD", "memcpy")
            else:
                self.give(stream, self.call("cudaLaunchKernel"), name)

    def collective(self, group: int, name: str) -> None:
        members = self.plan.groups[group]
        if self.rank not in members:
            return
        stream = 20 + group
        place = self.met[group] = self.met.get(group, -1) + 1
        meeting = self.meetings.setdefault(
            (group, place), _Meeting(len(members), max(self.random.randint(1, 60000), 1))
        )
        if self.random.random() < 0.7:
            self.record(COMPUTE, stream)
        with self.op("c10d::allreduce_"):
            work = self.give(stream, self.call("cudaLaunchKernel"), name, meeting=meeting)
        if self.plan.metadata != "none":
            listed = sorted({*members, *([self.plan.absent] if self.plan.absent is not None and group == 0 else [])})
            work.row["more"] = {
                "comm_op": "allreduce", "comm_group": str(group), "comm_group_ranks": str(listed),
                "comm_group_size": len(listed), "comm_seq": place if self.plan.metadata == "seq" else None,
            }  # fmt: skip
        meeting.members.append(work)
        if self.random.random() < 0.5:
            self.record(stream, COMPUTE)

    def act(self, action: str, group: int, name: str) -> _Host:
        streams = sorted(self.last)
        if action in ("op", "side", "copy", "graph"):
            stream = COMPUTE if action in ("op", "graph") else SIDE
            if action == "side" and self.random.random() < 0.5:
                self.record(COMPUTE, SIDE)
            self.launch(stream, kind={"copy": "memcpy", "graph": "graph"}.get(action, "kernel"))
        elif action == "collective":
            self.collective(group, name)
        elif action in ("wait", "needs it") and streams and streams != [COMPUTE]:
            source = 20 if action == "needs it" else self.random.choice([s for s in streams if s != COMPUTE])
            self.record(source, COMPUTE)
            self.launch(COMPUTE)
        elif action == "stream sync" and streams:
            yield from self.blocking("cudaStreamSynchronize", self.last[self.random.choice(streams)])
        elif action == "device sync" and streams:
            yield from self.blocking("cudaDeviceSynchronize", *(self.last[s] for s in streams))
        elif action == "blocking copy":
            with self.op("aten::item"):
                call = self.call("cudaMemcpy", self.some(1, 2))
                yield from self.blocking("", self.give(COMPUTE, call, "Memcpy DtoH", "memcpy"), call=call)
        elif action == "malloc":
            held = [self.last[s] for s in streams] if self.random.random() < 0.5 else []
            yield from self.blocking("cudaMalloc", *held)
        elif action == "input":
            name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            with self.op(*self.random.choice(((name, "cpu_op"), ("next_batch", "annotation")))):
                self.now += self.some(0, 80)
        elif action == "named pause":
            with self.op("optimizer", "annotation"):
                self.now += self.some(0, 20)
        elif action == "pause":
            self.now += self.some(0, 60)
        self.now += self.random.choice((0, 1, self.some(0, 3)))

    def run(self) -> _Host:
        """Walk through the plan."""
        for number, actions in self.plan.steps:
            start, has_annotation = self.now, self.random.random() < 0.5
            self.now += self.some(0, 2)
            for action, group, name in actions:
                if action == "autograd":
                    opened = self.now
                    self.now += self.some(0, 2)
                    self.thread = AUTOGRAD
                    for _ in range(self.random.randint(1, 3)):
                        yield from self.act(self.random.choice(("op", "op", "side", "pause", "stream sync")), 0, "")
                    self.thread = MAIN
                    if has_annotation:
                        self.rows.append(annotation("backward", opened, self.now + 1))
                        self.now += 1
                else:
                    yield from self.act(action, group, name)
            self.now += 1
            if number >= 0:
                self.rows.append(step(number, start, self.now))
            self.now += self.some(0, 4)

    def dump(self) -> list[Row]:
        """Return the rows, without some of the launches; those before the first step are the likeliest to lack."""
        marked = min((r["start_ns"] for r in self.rows if r["name"].startswith("ProfilerStep")), default=0)
        share = self.random.choice((0.0, 0.0, 0.1))
        lost = {
            r["correlation_id"]
            for r in self.rows
            if r["category"] == "runtime"
            and r["name"] in ("cudaLaunchKernel", "cudaGraphLaunch", "cudaEventRecord")
            and self.random.random() < (0.5 if r["start_ns"] < marked else share)
        }
        rows = [r for r in self.rows if r.get("correlation_id") not in lost]
        ends = [w.end() for w in self.work]
        for w, end in zip(self.work, ends, strict=True):
            r = w.row
            assert end is not None
            rows.append(
                kernel(r["start"], end, stream=r["stream"], launch=r["launch"], name=r["name"], **r.get("more", {}))
                | {"category": r["category"]}
            )
            for target, record, at in r.get("awaited", []):
                rows.append(stream_wait(at, stream=target, wait_stream=r["stream"], record=record))
        return rows


def stream_wait(at: int, *, stream: int, wait_stream: int, record: int) -> Row:
    """Return the record of a call at which a stream was told to wait for what another was given before `record`."""
    return {
        "category": "sync", "name": "Stream Wait Event", "device": 0, "stream": stream, "wait_stream": wait_stream,
        "start_ns": at, "duration_ns": 0, "wait_correlation_id": record,
    }  # fmt: skip


def make_case(
    seed: int, n_ranks: int = 2, n_steps: int = 2, n_actions: int = 5, is_causal: bool = True, is_coarse: bool = False
) -> Case:
    """Return the case of these sizes; `is_coarse` draws times in whole µs, which makes many of them equal."""
    random = Random(seed)  # noqa: S311
    groups = [tuple(range(n_ranks))]
    if n_ranks > 1 and random.random() < 0.6:
        groups.append(tuple(sorted(random.sample(range(n_ranks), random.randint(2, n_ranks)))))
    metadata = random.choice(("order", "seq") if len(groups) > 1 else ("none", "none", "order", "seq"))
    number, steps = random.randint(0, 9), []
    for place in range(n_steps + 1):
        actions = tuple(
            (random.choice(_ACTIONS), random.randrange(len(groups)), random.choice(_COLLECTIVES))
            for _ in range(random.randint(1, n_actions))
        )
        if place and random.random() < 0.12:
            actions = (("pause", 0, ""),)
        elif random.random() < 0.5:
            # What training does: exchange, then a step of the optimizer that needs it.
            actions += (("collective", 0, _COLLECTIVES[0]), ("needs it", 0, ""))
        steps.append((number if place else -1, actions))
        number += 3 if place and random.random() < 0.05 else 1
    absent = n_ranks if random.random() < 0.1 else None
    plan = _Plan(tuple(groups), metadata, absent, tuple(steps))
    meetings: dict[tuple[int, int], _Meeting] = {}
    ranks = [_Rank(r, plan, Random(random.random()), 1000 if is_coarse else 1, meetings) for r in range(n_ranks)]  # noqa: S311
    hosts = [rank.run() for rank in ranks]
    running = list(range(n_ranks))
    while running:
        running = [r for r in running if next(hosts[r], r) != r]
    rows = {rank.rank: rank.dump() for rank in ranks}
    for r in rows if random.random() < 0.3 else ():
        # A rank's recording may begin later than another's: what had ended before is not in its dump.
        begun = ranks[r].random.choice([row["start_ns"] for row in rows[r]][:20])
        first = min(row["start_ns"] for row in rows[r] if row["name"].startswith("ProfilerStep"))
        rows[r] = [row for row in rows[r] if row["start_ns"] >= min(begun, first)]
    if not is_causal:
        rows = {r: [_moved(row, ranks[r].random) for row in rows[r]] for r in rows}
    return Case(rows, is_causal)


def _moved(row: Row, random: Random) -> Row:
    """Return a row that may have been moved or stretched; markers stay, and so does what joins a call to its work."""
    if row["name"].startswith("ProfilerStep") or random.random() < 0.7:
        return row
    start = max(0, row["start_ns"] + random.choice((0, 1, -1, random.randint(-20000, 20000))))
    length = max(0, row["duration_ns"] + random.choice((0, 0, -row["duration_ns"], random.randint(-9000, 9000))))
    return row | {"start_ns": start, "duration_ns": length}


def cases(*, only_causal: bool = False) -> st.SearchStrategy[Case]:
    """Return the strategy of all cases: three in four are causal; sizes shrink, what fills them follows from a seed."""
    return st.builds(
        make_case,
        st.integers(0, 2**32 - 1),
        st.integers(1, 4),
        st.integers(1, 3),
        st.integers(1, 12),
        st.just(True) if only_causal else st.sampled_from((True, True, True, False)),
        st.booleans(),
    )


def for_each(check: Callable[[Case], None], n_examples: int = 30, *, only_causal: bool = False) -> None:
    """Hold a check against random cases, the same each time; it fails with the smallest sizes that break it."""
    slow = (HealthCheck.too_slow, HealthCheck.data_too_large)
    settings(max_examples=n_examples, deadline=None, derandomize=True, suppress_health_check=slow)(
        given(cases(only_causal=only_causal))(check)
    )()
