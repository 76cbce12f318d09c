"""A step's rows by place: what never changes is written once, times and ids are put in for many steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from longpole.events import RAW_SCHEMA
from longpole.synth.made import US
from longpole.synth.shapes import INPUTS

Times = npt.NDArray[np.int64]
Row = dict[str, object]
At = tuple[int, int]
"""A time of every step: a point, which is a row of the simulation's times, and nanoseconds from it."""

FIRST_STEP = 100
"""The number of the first step of a run that is made of templates."""

_MARKER = "ProfilerStep#"
_IDS = ("correlation_id", "external_id", "sequence_id", "comm_seq", "wait_correlation_id")
"""Columns that go on from step to step; in the template they count from 1 within the step."""


class Sheet:
    """The rows of one rank's step in the setting down, each with the points that it starts and ends at."""

    def __init__(self, rank: int, device: int) -> None:
        self.rows: list[Row] = []
        self.starts: list[At] = []
        self.ends: list[At] = []
        self.process = 21_000 + 100 * rank
        self.backward = self.process + 56
        self._device = device
        self._n_external = self._n_calls = 0

    def mark(self, start: At, end: At) -> None:
        """Add the step's marker."""
        self.host("annotation", _MARKER, start, end)

    def host(self, category: str, name: str, start: At, end: At, thread: int | None = None, **columns: object) -> int:
        """Add an operator or a range on a host thread (the main one) and return its external id."""
        self._n_external += 1
        self._put(
            category,
            name,
            start,
            end,
            process=self.process,
            thread=thread or self.process,
            external_id=self._n_external,
            inputs=INPUTS.get(name),
            **columns,
        )
        return self._n_external

    def call(self, name: str, start: At, end: At, operator: int, thread: int) -> int:
        """Add a runtime call and return its correlation id."""
        self._n_calls += 1
        self._put(
            "runtime",
            name,
            start,
            end,
            process=self.process,
            thread=thread,
            correlation_id=self._n_calls,
            external_id=operator,
        )
        return self._n_calls

    def wait(self, at: At, operator: int, thread: int, *, stream: int, on_stream: int, recorded_by: int) -> None:
        """Add the call that makes `stream` wait for the event that the call `recorded_by` recorded on `on_stream`."""
        point, offset = at
        correlation = self.call("cudaStreamWaitEvent", at, (point, offset + 2 * US), operator, thread)
        self._put(
            "sync",
            "Stream Wait Event",
            (point, offset + US),
            (point, offset + 2 * US),
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

    def work(
        self,
        category: str,
        name: str,
        start: At,
        end: At,
        *,
        stream: int,
        correlation: int,
        operator: int,
        **columns: object,
    ) -> None:
        """Add work on a stream of the device that the call of this correlation id launched."""
        if category == "kernel":
            is_comm = "comm_op" in columns
            columns |= {
                "grid": [24, 1, 1] if is_comm else [1024, 8, 1],
                "block": [544, 1, 1] if is_comm else [256, 1, 1],
            }
        self._put(
            category,
            name,
            start,
            end,
            device=self._device,
            stream=stream,
            process=self._device,
            thread=stream,
            context=1,
            correlation_id=correlation,
            external_id=operator,
            **columns,
        )

    def project(self, name: str, start: At, end: At, annotation: int, stream: int) -> None:
        """Add the projection of a range onto a stream: profilers begin it 1 ns early and end it 1 ns late."""
        self._put(
            "gpu_annotation",
            name,
            (start[0], start[1] - 1),
            (end[0], end[1] + 1),
            process=self._device,
            thread=stream,
            external_id=annotation,
        )

    def _put(self, category: str, name: str, start: At, end: At, **columns: object) -> None:
        self.rows.append({"category": category, "name": name, "start_ns": 0, "duration_ns": 0} | columns)
        self.starts.append(start)
        self.ends.append(end)


class Template:
    """The rows of one rank's step. `n_rows` is how many they are."""

    def __init__(self, sheet: Sheet) -> None:
        self.n_rows = len(sheet.rows)
        self._start = np.array(sheet.starts)
        self._end = np.array(sheet.ends)
        self._is_marker = np.array([row["name"] == _MARKER for row in sheet.rows])
        self._ids = {name: np.array([row.get(name) or 0 for row in sheet.rows], np.int64) for name in _IDS}
        # A rank's ids go on where the step before ended, a group's numbers for each group; a wait names a call, so it
        # counts as calls do.
        strides = {name: np.full(self.n_rows, ids.max()) for name, ids in self._ids.items()}
        groups = np.array([row.get("comm_group") or "" for row in sheet.rows])
        for group in np.unique(groups):
            mine = groups == group
            strides["comm_seq"][mine] = self._ids["comm_seq"][mine].max()
        self._strides = strides | {"wait_correlation_id": strides["correlation_id"]}
        table = pa.Table.from_pylist(sheet.rows, schema=RAW_SCHEMA).combine_chunks()
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
            columns[name] = pa.array(own + (first + step) * self._strides[name][place], mask=own == 0)
        taken = self._table.drop_columns(list(columns)).take(pa.array(place))
        arrays = [columns[name] if name in columns else taken[name] for name in RAW_SCHEMA.names]
        return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)
