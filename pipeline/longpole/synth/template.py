"""A step's rows by place: what never changes is written once, times and ids are put in for many steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from longpole.events import RAW_SCHEMA
from longpole.synth.made import RANKS_PER_HOST, US, group_text
from longpole.synth.rows import COMM_STREAM, COMPUTE_STREAM

Times = npt.NDArray[np.int64]
Row = dict[str, object]

FIRST_STEP = 100
"""The number of the first step of a `training` run."""

_MARKER = "ProfilerStep#"
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
    lead_ns: int = 2 * US
    """Host time before it that no operator covers."""

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


_IDS = ("correlation_id", "external_id", "sequence_id", "comm_seq", "wait_correlation_id")
"""Columns that go on from step to step; in the template they count from 1 within the step."""


class Template:
    """The rows of one rank's step. `n_rows` is how many they are."""

    def __init__(self, items: list[Item], rank: int, n_ranks: int) -> None:
        places = _Places(items, rank, n_ranks)
        self.n_rows = len(places.rows)
        self._start = np.array(places.starts)
        self._end = np.array(places.ends)
        self._is_marker = np.array([row["name"] == _MARKER for row in places.rows])
        self._ids = {name: np.array([row.get(name) or 0 for row in places.rows], np.int64) for name in _IDS}
        # A rank's ids go on where the step before ended; a wait names a call, so it counts as calls do.
        strides = {name: int(ids.max()) for name, ids in self._ids.items()}
        self._strides = strides | {"wait_correlation_id": strides["correlation_id"]}
        table = pa.Table.from_pylist(places.rows, schema=RAW_SCHEMA).combine_chunks()
        self._table = table
        name = table["name"].chunk(0)
        self._names = name.dictionary
        self._name_codes = name.indices.to_numpy()

    def rows(self, first: int, times: Times) -> pa.Table:
        """Return the rows of the steps from the `first` (of 0, 1, ...) on; `times` is by step and point."""
        start = (times[:, self._start[:, 0]] + self._start[:, 1]).ravel()
        duration = (times[:, self._end[:, 0]] + self._end[:, 1]).ravel() - start
        order = np.argsort(start, kind="stable")
        step, place = np.divmod(order, self.n_rows)

        codes = np.where(self._is_marker[place], len(self._names) + step, self._name_codes[place])
        markers = [f"{_MARKER}{FIRST_STEP + first + number}" for number in range(len(times))]
        columns = {
            "name": pa.DictionaryArray.from_arrays(
                pa.array(codes, pa.int32()), pa.concat_arrays([self._names, pa.array(markers)])
            ),
            "start_ns": pa.array(start[order]),
            "duration_ns": pa.array(duration[order]),
        }
        for name, ids in self._ids.items():
            own = ids[place]
            columns[name] = pa.array(own + (first + step) * self._strides[name], mask=own == 0)
        taken = self._table.drop_columns(list(columns)).take(pa.array(place))
        arrays = [columns[name] if name in columns else taken[name] for name in RAW_SCHEMA.names]
        return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)


class _Places:
    """Sets down the rows of a step, each with the point and the offset it starts and ends at."""

    def __init__(self, items: list[Item], rank: int, n_ranks: int) -> None:
        self.rows: list[Row] = []
        self.starts: list[tuple[int, int]] = []
        self.ends: list[tuple[int, int]] = []
        self._n_external = self._n_calls = 0
        self._device = rank % RANKS_PER_HOST
        self._process = 21_000 + 100 * rank
        self._backward = self._process + 56
        self._n_ranks = n_ranks
        self._points = points = Points(len(items))
        self._finished: list[int] = []

        self._host("annotation", _MARKER, (points.marker, 0), (points.synchronised, 5 * US))
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        self._host("annotation", loader, (points.marker, 10 * US), (points.loaded, 0))
        for place, item in enumerate(items):
            if item.bucket is None:
                self._work(place, item)
            else:
                self._exchange(place, item)
        updates = [place for place, item in enumerate(items) if item.is_update]
        self._finish(updates[0], items[updates[0]].lead_ns)
        self._optimizer(updates[0], updates[-2])

    def _work(self, place: int, item: Item) -> None:
        begins = place
        thread = self._backward if item.is_backward else self._process
        is_last = item.operators == ("aten::item",)
        operator = 0
        for depth, name in enumerate(item.operators):
            # Autograd puts the number on the node and its evaluation, the forward pass on what made the node.
            is_numbered = item.sequence is not None and (
                depth < 2 if item.is_backward else depth == len(item.operators) - 1
            )
            end = (self._points.synchronised, 2 * US) if is_last else (begins, item.body_ns - depth * US)
            operator = self._host(
                "cpu_op",
                name,
                (begins, depth * US),
                end,
                thread,
                sequence_id=1 + (item.sequence or 0) if is_numbered else None,
                forward_thread=int(item.is_backward) if is_numbered else None,
            )
        correlation = self._call(_CALLS[item.category], begins, item.call_ns, 5 * US, operator, thread)
        self._on_device(place, item, COMPUTE_STREAM, correlation, operator)
        if is_last:
            self._n_calls += 1
            self._put(
                "runtime",
                "cudaStreamSynchronize",
                (begins, item.call_ns + 6 * US),
                (self._points.synchronised, 0),
                process=self._process,
                thread=thread,
                correlation_id=self._n_calls,
                external_id=operator,
            )

    def _exchange(self, place: int, item: Item) -> None:
        thread, body = self._backward, item.body_ns
        comm = self._comm(item)
        accumulate, collective, record = item.operators
        self._host("cpu_op", accumulate, (place, 0), (place, body), thread)
        self._host("cpu_op", collective, (place, 4 * US), (place, body - 2 * US), thread)
        operator = self._host("cpu_op", record, (place, 6 * US), (place, body - 4 * US), thread, **comm)
        annotation = self._host("annotation", "nccl:all_reduce", (place, 8 * US), (place, 50 * US), thread)
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
        operator = self._host("cpu_op", name, (place, begins), (place, -2 * US), self._backward)
        for number, recorded_by in enumerate(self._finished):
            at = begins + US + number * step
            self._wait(place, at, operator, COMPUTE_STREAM, COMM_STREAM, recorded_by)

    def _optimizer(self, first: int, last: int) -> None:
        name = "Optimizer.step#AdamW.step"
        annotation = self._host("annotation", name, (first, -US), (last, 15 * US))
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
        correlation = self._call("cudaStreamWaitEvent", place, at, 2 * US, operator, self._backward)
        self._put(
            "sync",
            "Stream Wait Event",
            (place, at + US),
            (place, at + 2 * US),
            device=self._device,
            stream=stream,
            process=self._device,
            thread=stream,
            context=1,
            correlation_id=correlation,
            external_id=operator,
            wait_stream=on_stream,
            wait_event_id=1 + recorded_by % 64,
            wait_correlation_id=recorded_by,
        )

    def _on_device(
        self, place: int, item: Item, stream: int, correlation: int, operator: int, **columns: object
    ) -> None:
        is_kernel = item.category == "kernel"
        self._put(
            item.category,
            item.name,
            (self._points.starts.start + place, 0),
            (self._points.ends.start + place, 0),
            device=self._device,
            stream=stream,
            process=self._device,
            thread=stream,
            context=1,
            correlation_id=correlation,
            external_id=operator,
            n_bytes=item.n_bytes,
            grid=[24, 1, 1] if columns else [1024, 8, 1] if is_kernel else None,
            block=[544, 1, 1] if columns else [256, 1, 1] if is_kernel else None,
            **columns,
        )

    def _project(self, name: str, first: int, last: int, annotation: int, stream: int) -> None:
        self._put(
            "gpu_annotation",
            name,
            (self._points.starts.start + first, -1),
            (self._points.ends.start + last, 1),
            process=self._device,
            thread=stream,
            external_id=annotation,
        )

    def _call(self, name: str, place: int, at: int, lasts: int, operator: int, thread: int) -> int:
        self._n_calls += 1
        self._put(
            "runtime",
            name,
            (place, at),
            (place, at + lasts),
            process=self._process,
            thread=thread,
            correlation_id=self._n_calls,
            external_id=operator,
        )
        return self._n_calls

    def _host(
        self,
        category: str,
        name: str,
        start: tuple[int, int],
        end: tuple[int, int],
        thread: int | None = None,
        **columns: object,
    ) -> int:
        self._n_external += 1
        thread = thread or self._process
        self._put(
            category,
            name,
            start,
            end,
            process=self._process,
            thread=thread,
            external_id=self._n_external,
            **columns,
        )
        return self._n_external

    def _put(self, category: str, name: str, start: tuple[int, int], end: tuple[int, int], **columns: object) -> None:
        self.rows.append({"category": category, "name": name, "start_ns": 0, "duration_ns": 0} | columns)
        self.starts.append(start)
        self.ends.append(end)
