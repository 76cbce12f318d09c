"""Training without a device: operators and gloo spans on host threads, all bounds whole milliseconds.

A step is 100 ms. Odd ranks wait 5 ms longer for their batch, so their first exchange begins 5 ms later, and
leave it 1 ms later: gloo's members do not leave together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from longpole.synth.made import MS, ORIGIN_NS, US, MadeRun, rank_facts
from longpole.synth.rows import RankRows

FIRST_STEP = 3
STEP_MS = 100
_FIRST_STEP_NS = ORIGIN_NS + 100 * MS


def make(n_ranks: int, n_steps: int) -> MadeRun:
    """Return `n_steps` steps; even ranks are alike and odd ranks are alike."""

    def chunks(ranks: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        chosen = [RankRows(rank) for rank in ranks]
        for index in range(n_steps):
            for rows in chosen:
                _write_step(rows, index)
                yield rows.rank, rows.take()

    facts = tuple(rank_facts(rank, n_ranks, has_device=False) for rank in range(n_ranks))
    return MadeRun(facts=facts, chunks=chunks)


def _write_step(rows: RankRows, index: int) -> None:
    window = _FIRST_STEP_NS + index * STEP_MS * MS
    late = 5 if rows.rank % 2 else 0

    def at(ms: int) -> int:
        return window + ms * MS

    rows.annotate(f"ProfilerStep#{FIRST_STEP + index}", at(0), at(STEP_MS))
    loaded = 10 + late
    rows.annotate("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at(0), at(loaded))

    rows.annotate("DistributedDataParallel.forward", at(loaded), at(loaded + 20))
    for layer in range(2):
        start = at(loaded + 10 * layer)
        rows.operate("aten::linear", start, start + 10 * MS)
        rows.operate("aten::addmm", start + 20 * US, start + 9_990 * US, sequence=100 * index + layer)

    for layer, (start, end) in ((1, (20, 29)), (0, (30, 49))):
        _backward(rows, at(loaded + start), at(loaded + end), sequence=100 * index + layer)
        # The last millisecond hands the layer's bucket to the worker thread.
        name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        rows.operate(name, at(loaded + end), at(loaded + end + 1))
        rows.operate("c10d::allreduce_", at(loaded + end) + 500 * US, at(loaded + end) + 900 * US)
    rows.annotate("gloo:all_reduce", at(loaded + 30), at(61 if late else 60), rows.worker)
    rows.annotate("gloo:all_reduce", at(loaded + 50), at(75), rows.worker)

    rows.annotate("Optimizer.step#SGD.step", at(78), at(96))
    rows.operate("aten::_foreach_add_", at(80), at(95))


def _backward(rows: RankRows, start: int, end: int, *, sequence: int) -> None:
    name = "autograd::engine::evaluate_function: AddmmBackward0"
    rows.operate(name, start, end, sequence=sequence)
    rows.operate("AddmmBackward0", start + 10 * US, end - 10 * US, sequence=sequence)
    rows.operate("aten::mm", start + 20 * US, end - 20 * US)
