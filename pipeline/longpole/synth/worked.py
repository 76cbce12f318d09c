"""The worked example: one data-parallel step in whole milliseconds, so that answers can be done by hand.

All times of a `Timeline` are milliseconds from the start of the step's window. The host makes a step's calls ten
times as fast as the device works them off, then waits for the end of the backward pass before it enters the next
step: it runs ahead of the device, except where a late batch stops it. Each dump begins in the middle of the step
before the first: the last kernel of that step is in it and its marker is not, as when a profiler is switched on by
hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from longpole.synth.made import MS, ORIGIN_NS, US, MadeRun, rank_facts
from longpole.synth.rows import COMM_STREAM, COMPUTE_STREAM, Collective, RankRows

FIRST_STEP = 10
LEAD_MS = 60
"""How long before a step's window begins its first call is made."""

PACE = 10
"""How many times as fast as the device works the host makes its calls."""

_MARKER_MS = -LEAD_MS - 30
"""Where the host enters the step, from the start of its window: before the first call of the step."""

_LOADER_MS = (_MARKER_MS + 1, _MARKER_MS + 9)
_BUCKET_ELEMENTS = (6_553_600, 6_553_600, 6_553_600, 3_276_800)
_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_FORWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"
_BACKWARD = "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32"
_OPTIMIZER = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
    "at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>>"
)

Span = tuple[int, int]


@dataclass(frozen=True)
class Bucket:
    """One all-reduce and the backward kernel (from 0) whose end it waits for."""

    span: Span
    after: int


@dataclass(frozen=True)
class Timeline:
    """One step of one rank in whole milliseconds of its window, and so of every step and rank."""

    forward: tuple[Span, ...]
    backward: tuple[Span, ...]
    buckets: tuple[Bucket, ...]
    optimizer: tuple[Span, ...]
    is_input_late: bool = False

    @property
    def duration(self) -> int:
        """The step: where the optimizer ends."""
        return self.optimizer[-1][1]


def _spans(*bounds: int) -> tuple[Span, ...]:
    return tuple(itertools.pairwise(bounds))


def _later(spans: tuple[Span, ...], by: int) -> tuple[Span, ...]:
    return tuple((start + by, end + by) for start, end in spans)


WORKED = Timeline(
    forward=_spans(0, 50, 100, 150, 200),
    backward=_spans(200, 250, 300, 350, 400, 450, 500, 550, 600),
    buckets=(
        Bucket((300, 400), after=1),
        Bucket((400, 500), after=3),
        Bucket((500, 600), after=5),
        Bucket((600, 650), after=7),
    ),
    optimizer=_spans(650, 675, 700, 725, 750),
)
"""Step 750, 50 of the exchange exposed."""

CONTENDED = Timeline(
    forward=WORKED.forward,
    # From 300 on the exchange takes from the backward pass what it runs on.
    backward=_spans(200, 250, 300, 360, 420, 480, 540, 600, 680),
    buckets=(
        Bucket((300, 400), after=1),
        Bucket((420, 500), after=3),
        Bucket((540, 600), after=5),
        # The last kernel makes the gradient of the batch, which nobody exchanges.
        Bucket((600, 630), after=6),
    ),
    optimizer=_spans(680, 705, 730, 755, 780),
)
"""Exchange done at 630 and all hidden, backward stretched to 680: step 780."""

LATE_MS = 80

LATE_INPUT = Timeline(
    forward=_later(WORKED.forward, LATE_MS),
    backward=_later(WORKED.backward, LATE_MS),
    buckets=tuple(
        Bucket((bucket.span[0] + LATE_MS, bucket.span[1] + LATE_MS), bucket.after) for bucket in WORKED.buckets
    ),
    optimizer=_later(WORKED.optimizer, LATE_MS),
    is_input_late=True,
)
"""The batch comes 80 late and nothing hides it: step 830."""

_LATE_LOADER_NS = 100 * US
_LATE_CALL_NS = 20 * US
"""How long before its first kernel a late step has its batch, and makes its first call."""


def make(timeline: Timeline, n_ranks: int, n_steps: int) -> MadeRun:
    """Return `n_steps` steps of `timeline` on every rank, clocks aligned."""

    def chunks(ranks: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        chosen = [RankRows(rank) for rank in ranks]
        for index in range(n_steps):
            for rows in chosen:
                if index == 0:
                    _step_before(rows, timeline)
                _Step(rows, timeline, index, n_ranks).write()
                yield rows.rank, rows.take()

    def path() -> Iterator[dict[str, object]]:
        for index in range(n_steps):
            for kind, duration_ns in _path(timeline).items():
                yield {"step": FIRST_STEP + index, "rank": 0, "kind": kind, "duration_ns": duration_ns}

    facts = tuple(rank_facts(rank, n_ranks) for rank in range(n_ranks))
    return MadeRun(facts=facts, chunks=chunks, lists={"path": path})


def _path(timeline: Timeline) -> dict[str, int]:
    """Return the time of each kind on a step's critical path, in ns; all ranks are alike, so it is the lowest's.

    Kernels follow each other, so it is every compute kernel, and of the exchange what the optimizer waits for.
    """
    exposed = timeline.optimizer[0][0] - timeline.backward[-1][1]
    path = {"compute": (timeline.duration - timeline.forward[0][0] - exposed) * MS}
    if exposed:
        path["comm"] = exposed * MS
    if timeline.is_input_late:
        path["input"] = timeline.forward[0][0] * MS - _LATE_LOADER_NS
        path["host"] = _LATE_LOADER_NS - _LATE_CALL_NS
        path["launch"] = _LATE_CALL_NS
    return path


_FIRST_WINDOW_NS = ORIGIN_NS + 100 * MS


def _step_before(rows: RankRows, timeline: Timeline) -> None:
    """Add the end of the step before the first: its last kernel ends where the first window begins."""
    start, end = timeline.optimizer[-1]
    begins = _FIRST_WINDOW_NS - (end - start) * MS
    called = _FIRST_WINDOW_NS + (_MARKER_MS - 10) * MS
    operator = rows.operate("aten::_fused_adamw_", called - 30 * US, called + 20 * US)
    rows.launch(_OPTIMIZER, begins, _FIRST_WINDOW_NS, called_ns=called, external_id=operator)


class _Step:
    """Writes one step of one rank."""

    def __init__(self, rows: RankRows, timeline: Timeline, index: int, n_ranks: int) -> None:
        self.rows = rows
        self.timeline = timeline
        self.index = index
        self.n_ranks = n_ranks
        self.window = _FIRST_WINDOW_NS + index * timeline.duration * MS
        self.waits: list[int] = []

    def write(self) -> None:
        rows, timeline = self.rows, self.timeline
        begins = self._at(_MARKER_MS)
        rows.annotate(f"ProfilerStep#{FIRST_STEP + self.index}", begins, begins + timeline.duration * MS)
        start, end = _LOADER_MS
        rows.annotate(
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            self._at(start),
            self._at(timeline.forward[0][0]) - _LATE_LOADER_NS if timeline.is_input_late else self._at(end),
        )
        for layer, span in enumerate(timeline.forward):
            self._forward(layer, span)
        for place, span in enumerate(timeline.backward):
            self._backward(place, span)
            for number, bucket in enumerate(timeline.buckets):
                if bucket.after == place:
                    self._exchange(number, bucket, self._called(span) + 60 * US)
        self._wait_for_exchange(self._called(timeline.backward[-1]) + 300 * US)
        self._optimize()
        self._wait_for_backward()

    def _at(self, ms: int) -> int:
        return self.window + ms * MS

    def _called(self, span: Span) -> int:
        """When the call for a kernel of `span` is made."""
        first = self.timeline.forward[0][0]
        lead = _LATE_CALL_NS if self.timeline.is_input_late else LEAD_MS * MS
        return self._at(first) - lead + (span[0] - first) * MS // PACE

    def _sequence(self, layer: int) -> int:
        return 100 * (FIRST_STEP + self.index) + layer

    def _forward(self, layer: int, span: Span) -> None:
        rows, called = self.rows, self._called(span)
        rows.operate("aten::linear", called - 30 * US, called + 24 * US)
        operator = rows.operate("aten::addmm", called - 20 * US, called + 20 * US, sequence=self._sequence(layer))
        rows.launch(_FORWARD, self._at(span[0]), self._at(span[1]), called_ns=called, external_id=operator)

    def _backward(self, place: int, span: Span) -> None:
        """Two kernels a layer, the last layer first: the gradient of the input, then of the weights."""
        rows, called, thread = self.rows, self._called(span), self.rows.backward
        sequence = self._sequence(len(self.timeline.forward) - 1 - place // 2)
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        rows.operate(name, called - 40 * US, called + 30 * US, thread, sequence=sequence)
        rows.operate("AddmmBackward0", called - 30 * US, called + 24 * US, thread, sequence=sequence)
        operator = rows.operate("aten::mm", called - 20 * US, called + 20 * US, thread)
        rows.launch(
            _BACKWARD,
            self._at(span[0]),
            self._at(span[1]),
            called_ns=called,
            external_id=operator,
            thread=thread,
        )

    def _exchange(self, number: int, bucket: Bucket, begins: int) -> None:
        """The communication stream waits for the backward kernel just launched, then runs the all-reduce."""
        rows, thread = self.rows, self.rows.backward
        comm = Collective(
            op="allreduce",
            seq=1 + self.index * len(self.timeline.buckets) + number,
            n_elements=_BUCKET_ELEMENTS[number],
            n_ranks=self.n_ranks,
        )
        accumulate = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        rows.operate(accumulate, begins, begins + 180 * US, thread)
        rows.operate("c10d::allreduce_", begins + 20 * US, begins + 170 * US, thread)
        record = rows.operate("record_param_comms", begins + 30 * US, begins + 160 * US, thread, comm=comm)
        annotation = rows.annotate("nccl:all_reduce", begins + 40 * US, begins + 140 * US, thread)
        ready = rows.record_event(begins + 50 * US, record, thread)
        rows.wait_event(
            begins + 60 * US,
            record,
            thread,
            stream=COMM_STREAM,
            on_stream=COMPUTE_STREAM,
            recorded_by=ready,
        )
        start, end = self._at(bucket.span[0]), self._at(bucket.span[1])
        rows.launch(
            _REDUCE,
            start,
            end,
            called_ns=begins + 70 * US,
            external_id=record,
            thread=thread,
            stream=COMM_STREAM,
            comm=comm,
        )
        rows.project("nccl:all_reduce", start, end, annotation, COMM_STREAM)
        self.waits.append(rows.record_event(begins + 90 * US, record, thread))

    def _wait_for_exchange(self, begins: int) -> None:
        """The compute stream waits for each all-reduce before anything later on it."""
        rows, thread = self.rows, self.rows.backward
        name = "torch::distributed::reducer::finalize_backward"
        operator = rows.operate(name, begins, begins + 100 * US, thread)
        for place, recorded_by in enumerate(self.waits):
            rows.wait_event(
                begins + (10 + 20 * place) * US,
                operator,
                thread,
                stream=COMPUTE_STREAM,
                on_stream=COMM_STREAM,
                recorded_by=recorded_by,
            )

    def _optimize(self) -> None:
        rows, spans = self.rows, self.timeline.optimizer
        last = self._called(spans[-1])
        annotation = rows.annotate("Optimizer.step#AdamW.step", self._called(spans[0]) - 100 * US, last + 100 * US)
        for span in spans:
            called = self._called(span)
            operator = rows.operate("aten::_fused_adamw_", called - 30 * US, called + 20 * US)
            rows.launch(_OPTIMIZER, self._at(span[0]), self._at(span[1]), called_ns=called, external_id=operator)
        rows.project(
            "Optimizer.step#AdamW.step",
            self._at(spans[0][0]),
            self._at(spans[-1][1]),
            annotation,
            COMPUTE_STREAM,
        )
        rows.annotate("Optimizer.zero_grad#AdamW.zero_grad", last + 1_000 * US, last + 1_040 * US)

    def _wait_for_backward(self) -> None:
        """The host waits for the gradients, as to look at their norm, before it leaves the step."""
        begins = self._called(self.timeline.optimizer[-1]) + 2_000 * US
        ends = self._at(self.timeline.backward[-1][1]) + 10 * US
        operator = self.rows.operate("aten::item", begins, ends + 10 * US)
        self.rows.call("cudaStreamSynchronize", begins + 10 * US, ends, operator)
