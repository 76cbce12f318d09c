"""One gap for each reason a device can be idle, on one rank in one step.

Each gap but the last three ends 10 µs after the call that launches the next activity, so those 10 µs are
`launch` and the rest is exactly the cause; the numbers are in fixtures/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from longpole.synth.made import MS, ORIGIN_NS, US, MadeRun, rank_facts
from longpole.synth.rows import RankRows

FIRST_STEP = 10
_WINDOW_NS = ORIGIN_NS + 100 * MS
_UNRECORDED_CALL = 900
"""A correlation id that no call in the dump has."""

_PATH_US = {
    "compute": 59_956,
    "host": 33_020,
    "input": 15_000,
    "sync": 6_000,
    "unknown": 5_000,
    "copy": 1_000,
    "launch": 20,
    "turnaround": 4,
}
"""The critical path of the step by kind; fixtures/README.md walks it."""


def make() -> MadeRun:
    """Return the one rank and step; the window is [0, 120) ms from _WINDOW_NS."""

    def chunks(ranks: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        rows = RankRows(0)
        _write(rows)
        yield 0, rows.take()

    def path() -> Iterator[dict[str, object]]:
        for kind, us in _PATH_US.items():
            yield {"step": FIRST_STEP, "rank": 0, "kind": kind, "duration_ns": us * US}

    return MadeRun(facts=(rank_facts(0, 1),), chunks=chunks, lists={"path": path})


def _write(rows: RankRows) -> None:
    # The end of the step before, launched before the marker: the window begins where it ends.
    _kernel(rows, "before_the_step", -25_000, 0, called=-45_000)
    rows.annotate(f"ProfilerStep#{FIRST_STEP}", _us(-40_000), _us(110_000))

    _kernel(rows, "after_nothing", 0, 10_000, called=-20_000)
    # input, 10 ms: the loader itself queues the batch once it has it.
    loader = rows.annotate("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", _us(5_000), _us(20_100))
    rows.copy_in(_us(20_010), _us(21_010), called_ns=_us(20_000), external_id=loader, n_bytes=48 * 1024 * 1024)
    _kernel(rows, "after_input", 21_010, 31_010, called=20_200)

    # sync, 6 ms: the thread comes back from a synchronise long after the stream ran dry.
    item = rows.operate("aten::item", _us(24_990), _us(37_010))
    rows.call("cudaStreamSynchronize", _us(25_000), _us(37_010), item)
    _kernel(rows, "after_sync", 37_020, 47_020, called=37_010)

    # sync, 2 ms: an allocation that stops the thread.
    empty = rows.operate("aten::empty", _us(44_990), _us(49_020))
    rows.call("cudaMalloc", _us(45_000), _us(49_020), empty)
    _kernel(rows, "after_malloc", 49_030, 59_030, called=49_020)

    # host, 6 ms: nothing stops the thread, it only comes late.
    _kernel(rows, "after_host", 65_040, 75_040, called=65_030)

    # launch, 3 ms: queued before the device ran dry and not begun.
    _kernel(rows, "after_launch", 78_040, 88_040, called=70_000)

    # turnaround, 4 µs: queued, and begun at the device's own pace.
    _kernel(rows, "after_turnaround", 88_044, 98_044, called=80_000)

    # other, 2 ms: the next activity's call is not in the dump.
    rows.kernel("after_other", _us(100_044), _us(105_044), correlation_id=_UNRECORDED_CALL)
    _kernel(rows, "the_last", 105_044, 120_000, called=100_100)


def _us(us: int) -> int:
    return _WINDOW_NS + us * US


def _kernel(rows: RankRows, name: str, start: int, end: int, *, called: int) -> None:
    operator = rows.operate("aten::addmm", _us(called), _us(called + 14))
    rows.launch(name, _us(start), _us(end), called_ns=_us(called), external_id=operator)
