"""What the profiler of one rank records of a `training` step: the operators around each launch, its call, its work."""

from __future__ import annotations

from dataclasses import dataclass

from longpole.synth.made import RANKS_PER_HOST, US, group_text
from longpole.synth.rows import COMM_STREAM, COMPUTE_STREAM
from longpole.synth.template import Row, Sheet

_CALLS = {"kernel": "cudaLaunchKernel", "memcpy": "cudaMemcpyAsync", "memset": "cudaMemsetAsync"}
_ELEMENTS = 13_107_200


@dataclass(frozen=True)
class Item:
    """One launch of a step: the operators around the call, outermost first, and the device work."""

    category: str
    name: str
    base_ns: int
    operators: tuple[str, ...]
    is_backward: bool = False
    is_update: bool = False
    """It comes after the exchange: optimizer or loss."""
    sequence: int | None = None
    bucket: int | None = None
    n_bytes: int | None = None
    node: int | None = None
    """Its place in the CUDA graph that it is launched with; the host makes one call for all, at the first."""
    lead_ns: int = 2 * US
    """Host time before it that no operator covers."""

    @property
    def has_call(self) -> bool:
        """Whether the host does anything for it."""
        return not self.node

    @property
    def body_ns(self) -> int:
        """How long the host is in its outermost operator."""
        return 14 * US if self.bucket is None else 60 * US

    @property
    def call_ns(self) -> int:
        """From the start of the outermost operator to the call."""
        return 6 * US if self.bucket is None else 20 * US


class Points:
    """The times a step's rows are measured from: rows of the array the simulation returns."""

    def __init__(self, n_items: int) -> None:
        self.begins = slice(0, n_items)  # the host enters an item's outermost operator
        self.starts = slice(n_items, 2 * n_items)
        self.ends = slice(2 * n_items, 3 * n_items)
        self.marker, self.loaded, self.synchronised = (3 * n_items + place for place in range(3))
        self.n_points = 3 * n_items + 3


def sheet(items: list[Item], rank: int, n_ranks: int) -> Sheet:
    """Return the rows of the rank's step."""
    writer = _Writer(items, rank, n_ranks)
    return writer.sheet


class _Writer:
    def __init__(self, items: list[Item], rank: int, n_ranks: int) -> None:
        self.sheet = Sheet(rank, rank % RANKS_PER_HOST)
        self._n_ranks = n_ranks
        self._points = points = Points(len(items))
        self._finished: list[int] = []
        self._graph = (0, 0)  # the call that launched the latest CUDA graph, and its operator

        self.sheet.mark((points.marker, 0), (points.synchronised, 5 * US))
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        self.sheet.host("annotation", loader, (points.marker, 10 * US), (points.loaded, 0))
        for place, item in enumerate(items):
            if item.bucket is None:
                self._work(place, item)
            else:
                self._exchange(place, item)
        updates = [place for place, item in enumerate(items) if item.is_update]
        self._finish(updates[0], items[updates[0]].lead_ns)
        self._optimizer(updates[0], updates[-2])

    def _work(self, place: int, item: Item) -> None:
        sheet, points = self.sheet, self._points
        if not item.has_call:
            self._on_device(place, item, COMPUTE_STREAM, *self._graph, graph_node_id=item.node)
            return
        thread = sheet.backward if item.is_backward else sheet.process
        is_last = item.operators == ("aten::item",)
        operator = 0
        for depth, name in enumerate(item.operators):
            # Autograd puts the number on the node and its evaluation, the forward pass on what made the node.
            is_numbered = item.sequence is not None and (
                depth < 2 if item.is_backward else depth == len(item.operators) - 1
            )
            end = (points.synchronised, 2 * US) if is_last else (place, item.body_ns - depth * US)
            operator = sheet.host(
                "cpu_op",
                name,
                (place, depth * US),
                end,
                thread,
                sequence_id=1 + (item.sequence or 0) if is_numbered else None,
                forward_thread=int(item.is_backward) if is_numbered else None,
            )
        name = _CALLS[item.category] if item.node is None else "cudaGraphLaunch"
        self._graph = (self._call(name, place, item.call_ns, 5 * US, operator, thread), operator)
        self._on_device(place, item, COMPUTE_STREAM, *self._graph, graph_node_id=item.node)
        if is_last:
            begins = (place, item.call_ns + 6 * US)
            sheet.call("cudaStreamSynchronize", begins, (points.synchronised, 0), operator, thread)

    def _exchange(self, place: int, item: Item) -> None:
        sheet, body = self.sheet, item.body_ns
        thread, comm = sheet.backward, self._comm(item)
        accumulate, collective, record = item.operators
        sheet.host("cpu_op", accumulate, (place, 0), (place, body), thread)
        sheet.host("cpu_op", collective, (place, 4 * US), (place, body - 2 * US), thread)
        operator = sheet.host("cpu_op", record, (place, 6 * US), (place, body - 4 * US), thread, **comm)
        annotation = sheet.host("annotation", "nccl:all_reduce", (place, 8 * US), (place, 50 * US), thread)
        ready = self._call("cudaEventRecord", place, 10 * US, 2 * US, operator, thread)
        self._wait(place, 14 * US, operator, COMM_STREAM, COMPUTE_STREAM, ready)
        correlation = self._call("cudaLaunchKernelExC", place, item.call_ns, 6 * US, operator, thread)
        self._on_device(place, item, COMM_STREAM, correlation, operator, **comm)
        self._project("nccl:all_reduce", place, place, annotation, COMM_STREAM)
        self._finished.append(self._call("cudaEventRecord", place, 30 * US, 2 * US, operator, thread))

    def _finish(self, place: int, lead_ns: int) -> None:
        """The compute stream waits for every exchange, in host time before the first update."""
        begins, step = -lead_ns, (lead_ns - 4 * US) // max(1, len(self._finished))
        name = "torch::distributed::reducer::finalize_backward"
        operator = self.sheet.host("cpu_op", name, (place, begins), (place, -2 * US), self.sheet.backward)
        for number, recorded_by in enumerate(self._finished):
            at = begins + US + number * step
            self._wait(place, at, operator, COMPUTE_STREAM, COMM_STREAM, recorded_by)

    def _optimizer(self, first: int, last: int) -> None:
        name = "Optimizer.step#AdamW.step"
        annotation = self.sheet.host("annotation", name, (first, -US), (last, 15 * US))
        self._project(name, first, last, annotation, COMPUTE_STREAM)

    def _comm(self, item: Item) -> Row:
        return {
            "comm_op": "allreduce",
            "comm_dtype": "BFloat16",
            "comm_in_elements": _ELEMENTS,
            "comm_out_elements": _ELEMENTS,
            "comm_group": "0",
            "comm_group_description": "default_pg",
            "comm_group_ranks": group_text(range(self._n_ranks)),
            "comm_group_size": self._n_ranks,
            "comm_seq": 1 + (item.bucket or 0),
        }

    def _wait(self, place: int, at: int, operator: int, stream: int, on_stream: int, recorded_by: int) -> None:
        thread = self.sheet.backward
        self.sheet.wait((place, at), operator, thread, stream=stream, on_stream=on_stream, recorded_by=recorded_by)

    def _on_device(
        self, place: int, item: Item, stream: int, correlation: int, operator: int, **columns: object
    ) -> None:
        self.sheet.work(
            item.category,
            item.name,
            (self._points.starts.start + place, 0),
            (self._points.ends.start + place, 0),
            stream=stream,
            correlation=correlation,
            operator=operator,
            n_bytes=item.n_bytes,
            **columns,
        )

    def _project(self, name: str, first: int, last: int, annotation: int, stream: int) -> None:
        start, end = (self._points.starts.start + first, 0), (self._points.ends.start + last, 0)
        self.sheet.project(name, start, end, annotation, stream)

    def _call(self, name: str, place: int, at: int, lasts: int, operator: int, thread: int) -> int:
        return self.sheet.call(name, (place, at), (place, at + lasts), operator, thread)
