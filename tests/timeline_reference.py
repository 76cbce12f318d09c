"""A pipelined step replayed in plain Python, op by op as each becomes ready; the SQL of op timelines is held to it.

It shares nothing with the SQL but the definition: who waits for whom, who meets whom, and what each takes.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

BODY_TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv", "params-all-gather")
TAIL = (
    *("gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce", "grads-reduce-scatter"),
    *("separate-grads-all-reduce", "optimizer-clip-main-grad", "optimizer"),
)
MEETING = (
    *BODY_TRANSFERS,
    *("embedding-grads-all-reduce", "grads-reduce-scatter", "separate-grads-all-reduce", "optimizer-clip-main-grad"),
)
MEDIAN = (*MEETING, "layernorm-grads-all-reduce")


@dataclass(frozen=True)
class Op:
    """One op of one worker in one step; times in ns."""

    dp_rank: int
    stage: int
    optype: str
    seq_id: int
    start: int
    duration: int
    chunk: int = 0
    model_chunk: int | None = None
    microbatch: int | None = None
    step: int = 0

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def group(self) -> str:
        """Return the type that answers are given by."""
        direction, _, what = self.optype.partition("-")
        return f"{direction}-pp-comm" if what in ("send", "recv") else self.optype


@dataclass(frozen=True)
class Graph:
    """One step: ops by number, what each waits for, and which meet."""

    ops: tuple[Op, ...]
    after: tuple[tuple[int, ...], ...]
    meeting: tuple[tuple[int, ...], ...]  # for each op those it meets, itself too; empty for compute

    def own(self) -> list[int]:
        """Return what each op took, from when all it meets had come."""
        found = []
        for op, met in zip(self.ops, self.meeting, strict=True):
            took = op.end - max((self.ops[m].start for m in met), default=op.start)
            found.append(took if took > -10_000_000 else 0)
        return found

    def replay(self, costs: Sequence[int]) -> list[int]:
        """Return the end of each op where each takes its cost: op by op, as each becomes ready."""
        n_open = [len(a) for a in self.after]
        n_absent = [len(m) for m in self.meeting]
        leads: list[list[int]] = [[] for _ in self.ops]
        for number, after in enumerate(self.after):
            for before in after:
                leads[before].append(number)
        start = [0] * len(self.ops)
        end: list[int | None] = [None] * len(self.ops)
        ready = deque(n for n, count in enumerate(n_open) if count == 0)
        while ready:
            number = ready.popleft()
            done = [number]
            if self.meeting[number]:
                for met in self.meeting[number]:
                    n_absent[met] -= 1
                if n_absent[number]:
                    continue
                done = list(self.meeting[number])
                begin = max(start[m] for m in done)
            else:
                begin = start[number]
            for one in done:
                end[one] = begin + costs[one]
                for follower in leads[one]:
                    start[follower] = max(start[follower], begin + costs[one])
                    n_open[follower] -= 1
                    if n_open[follower] == 0:
                        ready.append(follower)
        assert None not in end, "ops wait for each other in a circle"
        return [e for e in end if e is not None]


def graph_of(ops: Sequence[Op]) -> Graph:
    """Return the graph of one step's ops."""
    numbered = {op: n for n, op in enumerate(ops)}
    after: list[set[int]] = [set() for _ in ops]
    met: dict[Hashable, list[int]] = {}
    hops: dict[int, Hashable] = {}
    n_chunks = max((o.model_chunk or 0 for o in ops), default=0) + 1
    is_overlapped = any(o.optype == "separate-grads-all-reduce" for o in ops)

    def wait(op: Op, *before: Op) -> None:
        after[numbered[op]].update(numbered[b] for b in before)

    for dp_rank, stage in sorted({(o.dp_rank, o.stage) for o in ops}):
        mine = [o for o in ops if (o.dp_rank, o.stage) == (dp_rank, stage)]

        def of(optype: str, mine: list[Op] = mine) -> list[Op]:
            return sorted((o for o in mine if o.optype == optype), key=lambda o: o.seq_id)

        passes = sorted([*of("backward-compute"), *of("forward-compute")], key=lambda o: (o.start, o.optype, o.seq_id))
        for before, later in itertools.pairwise(passes):
            wait(later, before)
        for direction, sign in (("forward", 1), ("backward", -1)):
            chain = of(f"{direction}-compute")
            sends, receives = of(f"{direction}-send"), of(f"{direction}-recv")
            for n, (send, done) in enumerate(zip(sends, chain, strict=False)):
                wait(send, done, *sends[:n][-1:])
                hops[numbered[send]] = _hand_over(done, chunk_of(done), sign, n_chunks)
            for n, receive in enumerate(receives):
                place = n + len(chain) - len(receives)
                wait(chain[place], receive)
                wait(receive, *receives[:n][-1:], *chain[:place][-1:])
                hops[numbered[receive]] = _hand_over(chain[place], chunk_of(chain[place]) - sign, sign, n_chunks)
        first = next((n for n, p in enumerate(passes) if p.optype == "backward-compute"), 0)
        receives = of("backward-recv")
        if first >= 2 and receives and len(receives) == len(of("backward-compute")):
            wait(receives[0], passes[first - 2])
        gathers = of("params-all-gather")
        for before, later in itertools.pairwise(gathers):
            wait(later, before)
        for chunk in {g.chunk for g in gathers}:
            users = [p for p in passes if p.optype == "forward-compute" and p.chunk == chunk]
            wait(users[0], [g for g in gathers if g.chunk == chunk][-1])
        reductions = of("grads-reduce-scatter") if is_overlapped else []
        tail = [o for optype in TAIL for o in of(optype) if o not in reductions]
        for before, later in itertools.pairwise(tail):
            wait(later, before)
        if tail and passes:
            wait(tail[0], max(passes, key=lambda p: p.end))
        for before, later in itertools.pairwise(reductions):
            wait(later, before)
        for chunk in {r.chunk for r in reductions}:
            done_last = max((p for p in of("backward-compute") if p.chunk == chunk), key=lambda p: p.end)
            wait(next(r for r in reductions if r.chunk == chunk), done_last)
        if reductions:
            wait(next(o for o in tail if o.optype != "gc"), reductions[-1])
    for number, op in enumerate(ops):
        if op.optype in MEETING:
            met.setdefault(hops.get(number) or _place(op), []).append(number)
    return Graph(
        tuple(ops),
        tuple(tuple(sorted(a)) for a in after),
        tuple(tuple(met[hops.get(n) or _place(o)]) if o.optype in MEETING else () for n, o in enumerate(ops)),
    )


def chunk_of(done: Op) -> int:
    """Return the model chunk of a pass."""
    assert done.model_chunk is not None
    return done.model_chunk


def _hand_over(done: Op, source: int, sign: int, n_chunks: int) -> Hashable:
    """Return where a result changes hands: between which chunks, of which microbatch; alone at the ends."""
    if not (0 <= source < n_chunks and 0 <= source + sign < n_chunks):
        return ("nobody", done)
    return (done.dp_rank, sign, done.microbatch, source)


def _place(op: Op) -> Hashable:
    if op.optype == "embedding-grads-all-reduce":
        return (op.optype, op.seq_id, op.dp_rank)
    if op.optype == "optimizer-clip-main-grad":
        return (op.optype, op.seq_id)
    return (op.optype, op.seq_id, op.stage)


def typical(graphs: Sequence[Graph]) -> dict[str, int]:
    """Return the ideal duration of each type: mean of compute, median of what ranks do together, in whole ns."""
    took: dict[str, list[int]] = {}
    for graph in graphs:
        for op, own in zip(graph.ops, graph.own(), strict=True):
            took.setdefault(op.optype, []).append(own)
    return {
        optype: _rounded(Fraction(median(values)) if optype in MEDIAN else Fraction(sum(values), len(values)))
        for optype, values in took.items()
    }


def step_time(graph: Graph, ideal: dict[str, int], is_own: Callable[[Op], bool]) -> int:
    """Return how long the step takes where those ops keep their durations that are said to, and others are ideal."""
    costs = [own if is_own(op) else ideal[op.optype] for op, own in zip(graph.ops, graph.own(), strict=True)]
    return max(graph.replay(costs))


def _rounded(value: Fraction) -> int:
    """Return the nearest whole number, halves away from zero, as SQL rounds."""
    whole = int(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole
