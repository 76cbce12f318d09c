"""The known answer, worked out of a scenario's events by plain interval arithmetic.

Every other number of the project is SQL. This one is Python on purpose: it is what the SQL is held to, so it
shares nothing with it. It cuts time at every bound of every interval and asks of each piece what is open.
The rules are the project's definitions: windows by launch, breakdown by unions, idle by what came next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from longpole.events import DumpFacts

Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

TURNAROUND_NS = 5_000
"""A gap up to this long before work that was already queued is the device's own pace."""

CAUSES = ("input", "host", "sync", "turnaround", "launch", "other")

_SYNC_CALLS = (
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaMalloc",
    "cudaFree",
    "cudaMemcpy",
)
_KINDS = ("compute", "comm", "copy")
_START, _END, _THREAD, _STREAM, _CORRELATION = range(5)
_CALLED = _CORRELATION
"""Columns of an array of intervals; device work has the start of its call in place of the correlation id."""

_NOTHING: Times = np.zeros((0, 5), np.int64)
SETTLE_STEPS = 64
_NO_CALL = np.iinfo(np.int64).min
"""Stands for the start of a call that is not in the dump."""


class RankTruth:
    """Takes the rows of one rank and answers its steps.

    A chunk of rows must hold whole steps: a call and what it launched come together, and nothing comes later
    that began before the last step but one was complete. So memory holds SETTLE_STEPS steps, not a run.
    """

    def __init__(self, facts: DumpFacts) -> None:
        assert facts.rank is not None
        self._rank = facts.rank
        self._base_ns = facts.base_ns
        self._has_device = bool(facts.devices)
        self._markers: list[tuple[int, int, int]] = []  # number, start, end
        self._kept: dict[str, Times] = dict.fromkeys(("input", "sync", *_KINDS), _NOTHING)
        self._completed: int | None = None
        self._settled: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        """Take the rank's next rows (RAW_SCHEMA)."""
        category, name = _text(table, "category"), _text(table, "name")
        is_annotation = pc.equal(category, "annotation")
        is_marker = pc.and_(is_annotation, pc.starts_with(name, "ProfilerStep#"))
        for row in table.filter(is_marker).select(["name", "start_ns", "duration_ns"]).to_pylist():
            number = int(row["name"].partition("#")[2])
            self._markers.append((number, row["start_ns"], row["start_ns"] + row["duration_ns"]))
        self._keep("input", _intervals(table, pc.and_(is_annotation, pc.match_substring(name, "DataLoader"))))
        if self._has_device:
            self._add_device(table, category, name)
        else:
            is_span = pc.match_substring_regex(name, "^(gloo|mpi):")
            self._keep("comm", _intervals(table, pc.and_(is_annotation, is_span)))
            # The union of all operators is that of the outermost; a collective one is no compute.
            is_collective = pc.match_substring_regex(name, "^(c10d::|record_param_comms)")
            is_operator = pc.equal(category, "cpu_op")
            self._keep("compute", _intervals(table, pc.and_(is_operator, pc.invert(is_collective))))
        if len(self._markers) > SETTLE_STEPS:
            self._settle(len(self._markers) - 1)

    def steps(self) -> pa.Table:
        """Return the rows of `rank_steps` in truth.json, in order of time; ns, the base added."""
        self._settle(len(self._markers))
        return pa.concat_tables(self._settled)

    def _add_device(self, table: pa.Table, category: pa.ChunkedArray, name: pa.ChunkedArray) -> None:
        is_call = pc.equal(category, "runtime")
        calls = _intervals(table, is_call)
        calls = calls[np.argsort(calls[:, _CORRELATION], kind="stable")]
        self._keep("sync", _intervals(table, pc.and_(is_call, pc.is_in(name, pa.array(_SYNC_CALLS)))))

        is_kernel = pc.equal(category, "kernel")
        is_comm = pc.and_(is_kernel, pc.or_(pc.starts_with(name, "nccl"), pc.is_valid(table["comm_op"])))
        masks = {
            "compute": pc.and_(is_kernel, pc.invert(is_comm)),
            "comm": is_comm,
            "copy": pc.is_in(category, pa.array(["memcpy", "memset"])),
        }
        for kind, mask in masks.items():
            work = _intervals(table, mask)
            place = np.searchsorted(calls[:, _CORRELATION], work[:, _CORRELATION])
            place = np.minimum(place, len(calls) - 1)
            is_found = calls[place, _CORRELATION] == work[:, _CORRELATION]
            work[:, _CALLED] = np.where(is_found, calls[place, _START], _NO_CALL)
            work[:, _THREAD] = np.where(is_found, calls[place, _THREAD], -1)
            self._keep(kind, work)

    def _settle(self, n_steps: int) -> None:
        """Work out the first `n_steps` steps that are held and let go of what lies before their end."""
        work = np.concatenate([self._kept[kind] for kind in _KINDS])
        work = work[np.argsort(work[:, _START], kind="stable")]
        cuts = self._windows(work) if self._has_device else self._marker_bounds()
        cuts = cuts[: n_steps + 1]
        pieces = _Pieces({kind: self._kept[kind] for kind in _KINDS}, cuts)
        idle = self._idle(pieces, work) if self._has_device else self._host_idle(pieces, work)
        columns = {
            "rank": np.full(n_steps, self._rank),
            "step": np.array([number for number, _, _ in self._markers[:n_steps]]),
            "start_ns": cuts[:-1] + self._base_ns,
            "end_ns": cuts[1:] + self._base_ns,
            "duration_ns": np.diff(cuts),
        }
        columns |= pieces.breakdown() | {f"idle_{cause}_ns": idle[cause] for cause in CAUSES}
        self._settled.append(pa.table(columns))
        self._completed = int(cuts[-1])
        self._markers = self._markers[n_steps:]
        self._kept = {name: part[part[:, _END] > cuts[-1]] for name, part in self._kept.items()}

    def _windows(self, work: Times) -> Times:
        """Return C of the step before the first held, then C of each held."""
        begins = np.array([start for _, start, _ in self._markers])
        ends = np.array([end for _, _, end in self._markers])
        called = work[:, _CALLED]
        owner = np.searchsorted(begins, called, "right") - 1
        is_owned = (owner >= 0) & (called < ends[owner])
        latest = np.full(len(begins), _NO_CALL)
        np.maximum.at(latest, owner[is_owned], work[is_owned, _END])
        completed = np.where(latest == _NO_CALL, ends, latest)
        before = self._before_first(work) if self._completed is None else self._completed
        return np.maximum.accumulate(np.concatenate([[before], completed]))

    def _before_first(self, work: Times) -> int:
        """Return C(first - 1): when all that was launched before the first step had ended, or its marker."""
        first = self._markers[0][1]
        start, end, called, stream = (work[:, column] for column in (_START, _END, _CALLED, _STREAM))
        has_call = called != _NO_CALL
        is_before = has_call & (called < first)
        is_after = has_call & (called >= first)
        for index in np.flatnonzero(~has_call):
            on_stream = is_after & (stream == stream[index])
            following = start[on_stream] if on_stream.any() else start[is_after]
            is_before[index] = not len(following) or start[index] < following.min()
        return max(first, int(end[is_before].max(initial=_NO_CALL)))

    def _idle(self, pieces: _Pieces, work: Times) -> dict[str, Times]:
        """Return the idle time of each window by cause."""
        g0, g1, window = pieces.gaps()
        following = np.searchsorted(work[:, _START], g1)
        has_next = following < len(work)
        following = np.minimum(following, len(work) - 1)
        l0 = np.where(has_next, work[following, _CALLED], _NO_CALL)
        thread = work[following, _THREAD]
        is_known = l0 != _NO_CALL
        middle = np.where(is_known, np.minimum(np.maximum(l0, g0), g1), g0)

        waited, stopped = np.zeros_like(g0), np.zeros_like(g0)
        for one in np.unique(thread):
            mine = is_known & (thread == one)
            loader, blocked = (self._of_thread(name, one) for name in ("input", "sync"))
            waited[mine] = _covered([loader], g0[mine], middle[mine])
            stopped[mine] = _covered([loader, blocked], g0[mine], middle[mine]) - waited[mine]

        queued = np.where(is_known, g1 - middle, 0)
        is_own_pace = (l0 < g0) & (g1 - g0 <= TURNAROUND_NS)
        causes = {
            "input": waited,
            "host": middle - g0 - waited - stopped,
            "sync": stopped,
            "turnaround": np.where(is_own_pace, queued, 0),
            "launch": np.where(is_own_pace, 0, queued),
            "other": np.where(is_known, 0, g1 - g0),
        }
        return {cause: pieces.by_window(window, amounts) for cause, amounts in causes.items()}

    def _marker_bounds(self) -> Times:
        """Return the windows of a dump without a device: its CPU steps."""
        return np.array([self._markers[0][1], *(end for _, _, end in self._markers)])

    def _host_idle(self, pieces: _Pieces, work: Times) -> dict[str, Times]:
        """Return the idle time of each window by cause where there is no device: nothing is launched or queued."""
        g0, g1, window = pieces.gaps()
        has_next = np.searchsorted(work[:, _START], g1) < len(work)
        waited = np.where(has_next, _covered([self._kept["input"]], g0, g1), 0)
        causes = {cause: np.zeros_like(g0) for cause in CAUSES} | {
            "input": waited,
            "host": np.where(has_next, g1 - g0 - waited, 0),
            "other": np.where(has_next, 0, g1 - g0),
        }
        return {cause: pieces.by_window(window, amounts) for cause, amounts in causes.items()}

    def _keep(self, name: str, rows: Times) -> None:
        self._kept[name] = np.concatenate([self._kept[name], rows])

    def _of_thread(self, name: str, thread: int) -> Times:
        part = self._kept[name]
        chosen: Times = part[part[:, _THREAD] == thread]
        return chosen


class _Pieces:
    """Time from the first cut to the last, cut at every bound of every interval."""

    def __init__(self, intervals: dict[str, Times], cuts: Times) -> None:
        bounds = [cuts, *(part[:, column] for part in intervals.values() for column in (0, 1))]
        at = np.unique(np.concatenate(bounds))
        at = at[(at >= cuts[0]) & (at <= cuts[-1])]
        self._start, self._end = at[:-1], at[1:]
        self._window = np.searchsorted(cuts, self._start, "right") - 1
        self._n_windows = len(cuts) - 1
        self._open = {kind: self._is_open(part) for kind, part in intervals.items()}

    def breakdown(self) -> dict[str, Times]:
        """Return the parts of each window in the order of truth.json."""
        compute, comm, copy = (self._open[kind] for kind in _KINDS)
        return {
            "compute_ns": self._sum(compute),
            "comm_ns": self._sum(comm),
            "exposed_comm_ns": self._sum(comm & ~compute),
            "overlapped_comm_ns": self._sum(comm & compute),
            "copy_ns": self._sum(copy),
            "exposed_copy_ns": self._sum(copy & ~compute & ~comm),
            "idle_ns": self._sum(self._is_idle()),
        }

    def gaps(self) -> tuple[Times, Times, Times]:
        """Return start, end and window of each longest stretch of a window with nothing open."""
        idle = self._is_idle()
        goes_on = idle[1:] & idle[:-1] & (self._window[1:] == self._window[:-1])
        begins = idle & ~np.concatenate([[False], goes_on])
        ends = idle & ~np.concatenate([goes_on, [False]])
        return self._start[begins], self._end[ends], self._window[begins]

    def by_window(self, window: Times, amounts: Times) -> Times:
        """Return `amounts` added up by window."""
        total = np.zeros(self._n_windows, np.int64)
        np.add.at(total, window, amounts)
        return total

    def _is_open(self, part: Times) -> Flags:
        """Return of each piece whether an interval of `part` is open: more began by its start than ended."""
        began = np.searchsorted(np.sort(part[:, 0]), self._start, "right")
        ended = np.searchsorted(np.sort(part[:, 1]), self._start, "right")
        result: Flags = began > ended
        return result

    def _is_idle(self) -> Flags:
        return ~(self._open["compute"] | self._open["comm"] | self._open["copy"])

    def _sum(self, flags: Flags) -> Times:
        return self.by_window(self._window[flags], (self._end - self._start)[flags])


def _covered(parts: list[Times], start: Times, end: Times) -> Times:
    """Return how much of each [start, end) lies under the union of all `parts`."""
    under = np.concatenate(parts)
    under = under[np.argsort(under[:, 0], kind="stable")]
    if not len(under):
        return np.zeros_like(start)
    reach = np.maximum.accumulate(under[:, 1])
    begins = np.concatenate([[True], under[1:, 0] > reach[:-1]])
    block_start = under[begins, 0]
    block_end = reach[np.concatenate([begins[1:], [True]])]
    before = np.concatenate([[0], np.cumsum(block_end - block_start)])

    def up_to(time: Times) -> Times:
        place = np.searchsorted(block_start, time, "right") - 1
        inside = np.minimum(time, block_end[place]) - block_start[place]
        result: Times = np.where(place < 0, 0, before[np.maximum(place, 0)] + inside)
        return result

    return up_to(end) - up_to(start)


def run_steps(rank_steps: pa.Table) -> pa.Table:
    """Return the rows of `steps`: from when all ranks had ended the step before to when all ended this one.

    The end rank is the lowest among equals.
    """
    by_end = rank_steps.sort_by([("step", "ascending"), ("end_ns", "descending"), ("rank", "ascending")])
    last = by_end.group_by("step", use_threads=False).aggregate(
        [("start_ns", "max"), ("end_ns", "first"), ("rank", "first")]
    )
    return pa.table(
        {
            "step": last["step"],
            "duration_ns": pc.subtract(last["end_ns_first"], last["start_ns_max"]),
            "end_rank": last["rank_first"],
        }
    )


def _intervals(table: pa.Table, mask: pa.ChunkedArray) -> Times:
    """Return start, end, thread, stream and correlation id of the rows under `mask`; 0 where NULL."""
    rows = table.select(["start_ns", "duration_ns", "thread", "stream", "correlation_id"]).filter(mask)
    columns = [pc.fill_null(column, 0).to_numpy() for column in rows.columns]
    columns[1] = columns[0] + columns[1]
    return np.stack(columns, axis=1)


def _text(table: pa.Table, column: str) -> pa.ChunkedArray:
    return table[column].cast(pa.string())
