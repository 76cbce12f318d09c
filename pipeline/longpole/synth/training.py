"""Data-parallel training as arrays: all ranks of a step at once, coupled where they meet, in the all-reduces.

A step is one list of launches (`program`). Host times are running sums; the device is a scan over them (work
begins when the work before it has ended and its call was made); an all-reduce ends on every rank after the
last one began it. Only integers and raw random bits are used, so every machine makes the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from longpole.synth.made import MS, ORIGIN_NS, US, MadeRun, rank_facts
from longpole.synth.template import FIRST_STEP, Template
from longpole.synth.training_rows import Item, Points, sheet

Times = npt.NDArray[np.int64]

SEED = 20_260_401
SLOW_PERCENT = 10
LATE_NS = 8 * MS

_LOADER_NS = 300 * US
_BETWEEN_STEPS_NS = 20 * US
_SETTLE_NS = 8 * US
"""From the end of the last copy to the return of the synchronise that waits for it."""

_HOST_GAP_NS = 4 * US
_LATENCY_NS = 4 * US
"""From a call to the earliest start of what it launches."""

_TURNAROUND_NS = 900
_EVENT_NS = 1_500
"""From the end of work on another stream to the start of what waits for it."""

_CHUNK_ROWS = 65_536

_FORWARD = (
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64", "aten::linear", "aten::addmm", 140),
    (
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>",
        "aten::sdpa",
        "aten::_flash",
        170,
    ),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "aten::linear", "aten::addmm", 120),
    ("void at::native::elementwise_kernel<128, 4, GeluCUDAKernelImpl>", "aten::gelu", "aten::gelu_out", 40),
    (
        "void at::native::vectorized_layer_norm_kernel<c10::BFloat16, float>",
        "aten::layer_norm",
        "aten::native",
        30,
    ),
)
_BACKWARD = (
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x256x64", "AddmmBackward0", "aten::mm", 140),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64", "AddmmBackward0", "aten::mm", 130),
    (
        "void flash::flash_bwd_dq_dk_dv_loop_kernel<Flash_bwd_kernel_traits<128>>",
        "SdpaBackward0",
        "aten::_bwd",
        210,
    ),
    (
        "void at::native::elementwise_kernel<128, 4, GeluBackwardCUDAKernelImpl>",
        "GeluBackward0",
        "aten::mul",
        45,
    ),
    (
        "void at::native::layer_norm_grad_input_kernel<c10::BFloat16, float>",
        "LayerNormBackward0",
        "aten::sum",
        35,
    ),
)
_OPTIMIZER = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float>>"
_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class Shape:
    """How many kernels a step has; with two copies and a fill it is 295 device activities."""

    forward: int = 96
    backward: int = 160
    buckets: int = 12
    optimizer: int = 24
    graph: int = 1
    """Kernels of forward and backward that one call launches; those of a bucket are a multiple of it."""


DEFAULT_SHAPE = Shape()
GRAPHS = Shape(forward=320, backward=480, graph=20)
"""839 device activities of 67 launches: work enough to fill a store, and little text for a host to say of it."""


def make(n_ranks: int, n_steps: int, shape: Shape = DEFAULT_SHAPE) -> MadeRun:
    """Return the run: one rank computes SLOW_PERCENT slower, the last has one batch LATE_NS late."""
    slow_rank = n_ranks // 2
    late_rank, late_step = n_ranks - 1, n_steps // 2
    items = program(shape)

    def chunks(ranks: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        simulation = _Simulation(items, n_ranks, slow_rank)
        templates = {rank: Template(sheet(items, rank, n_ranks)) for rank in ranks}
        per_chunk = max(1, _CHUNK_ROWS // templates[ranks[0]].n_rows)
        for first in range(0, n_steps, per_chunk):
            steps = range(first, min(first + per_chunk, n_steps))
            times = np.stack([simulation.step(step, late_rank if step == late_step else None) for step in steps])
            for rank, template in templates.items():
                yield rank, template.rows(first, times[:, :, rank])

    known: dict[str, object] = {
        "slow": {"rank": slow_rank, "percent": SLOW_PERCENT},
        "late_input": {"rank": late_rank, "step": FIRST_STEP + late_step, "late_ns": LATE_NS},
    }
    facts = tuple(rank_facts(rank, n_ranks) for rank in range(n_ranks))
    return MadeRun(facts=facts, chunks=chunks, known=known)


def program(shape: Shape) -> list[Item]:
    """Return a step's launches in the order the host makes them."""
    items = [
        Item("memcpy", "Memcpy HtoD (Pinned -> Device)", 150 * US, ("aten::to", "aten::copy_"), n_bytes=8 << 20),
        Item("memset", "Memset (Device)", 2 * US, ("aten::zero_",), n_bytes=4_096),
    ]
    for place in range(shape.forward):
        kernel, outer, inner, us = _FORWARD[place % len(_FORWARD)]
        around = (outer, inner) if shape.graph == 1 else ("Torch-Compiled Region: 0/0", "CompiledFunction")
        items.append(Item("kernel", kernel, us * US, around, sequence=place, node=_node(shape, place)))
    due = [(number + 1) * shape.backward // shape.buckets - 1 for number in range(shape.buckets)]
    for place in range(shape.backward):
        kernel, node, inner, us = _BACKWARD[place % len(_BACKWARD)]
        node, inner = (node, inner) if shape.graph == 1 else ("CompiledFunctionBackward", "aten::detach")
        names = (f"autograd::engine::evaluate_function: {node}", node, inner)
        sequence = shape.forward - 1 - place * shape.forward // shape.backward
        own = Item("kernel", kernel, us * US, names, is_backward=True, sequence=sequence, node=_node(shape, place))
        items.append(own)
        accumulate = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        names = (accumulate, "c10d::allreduce_", "record_param_comms")
        items += [
            Item("kernel", _REDUCE, 1_100 * US, names, is_backward=True, bucket=number)
            for number, last in enumerate(due)
            if last == place
        ]
    update = Item("kernel", _OPTIMIZER, 90 * US, ("aten::_fused_adamw_",), is_update=True)
    # Before the first the backward pass is finished: a wait for each exchange, then back to Python.
    items.append(replace(update, lead_ns=(6 + 4 * shape.buckets) * US))
    items += [update] * (shape.optimizer - 1)
    items.append(Item("memcpy", "Memcpy DtoH (Device -> Pinned)", 3 * US, ("aten::item",), n_bytes=4, is_update=True))
    return items


def _node(shape: Shape, place: int) -> int | None:
    return None if shape.graph == 1 else place % shape.graph


class _Simulation:
    """Steps in order, each from where the host of every rank ended the one before."""

    def __init__(self, items: list[Item], n_ranks: int, slow_rank: int) -> None:
        self._points = Points(len(items))
        self._shape = (len(items), n_ranks)
        self._base = np.array([item.base_ns for item in items])[:, None]
        self._body = np.array([item.body_ns for item in items])[:, None]
        self._call = np.array([item.call_ns for item in items])[:, None]
        self._lead = np.array([item.lead_ns for item in items])[:, None]
        self._has_call = np.array([item.has_call for item in items])[:, None]
        self._before = [i for i, item in enumerate(items) if item.bucket is None and not item.is_update]
        self._after = [i for i, item in enumerate(items) if item.is_update]
        self._buckets = [(i, _last_compute(items, i)) for i, item in enumerate(items) if item.bucket is not None]
        percent = np.full(self._shape, 100, np.int64)
        is_kernel = np.array([item.category == "kernel" and item.bucket is None for item in items])
        percent[is_kernel, slow_rank] = 100 + SLOW_PERCENT
        self._percent = percent
        self._clock: Times = np.full(n_ranks, ORIGIN_NS + 100 * MS)

    def step(self, step: int, late_rank: int | None) -> Times:
        """Return the times of one step by point and rank (`Points` says which is which)."""
        points = self._points
        bits = np.random.PCG64(np.random.SeedSequence((SEED, step))).random_raw(self._base.size * self._shape[1])
        noise = bits.reshape(self._shape).astype(np.uint64)
        swing = (noise >> np.uint64(48)).astype(np.int64) - 32_768  # -32768..32767: 2 % of a duration
        a, b, c = (((noise >> np.uint64(shift)) & np.uint64(1_023)).astype(np.int64) for shift in (36, 25, 14))

        times = np.zeros((points.n_points, self._shape[1]), np.int64)
        times[points.marker] = self._clock
        loaded = self._clock + _LOADER_NS + 64 * a[0]
        if late_rank is not None:
            loaded[late_rank] += LATE_NS
        times[points.loaded] = loaded

        spent = (self._lead + _HOST_GAP_NS + a + self._body) * self._has_call
        begins = loaded + np.cumsum(spent, axis=0) - self._body
        ready = begins + self._call + _LATENCY_NS + b
        length = (self._base + self._base * swing // (50 * 32_768)) * self._percent // 100
        start, end = np.zeros(self._shape, np.int64), np.zeros(self._shape, np.int64)
        pace = _TURNAROUND_NS + c // 2

        _scan(self._before, ready, length, pace, start, end)
        busy = np.zeros(self._shape[1], np.int64)
        for item, waits_for in self._buckets:
            start[item] = np.maximum(np.maximum(ready[item], end[waits_for] + _EVENT_NS), busy + pace[item])
            busy = start[item].max() + length[item, 0] + c[item]
            end[item] = busy
        first = self._after[0]
        ready[first] = np.maximum(ready[first], np.maximum(busy + _EVENT_NS, end[self._before[-1]] + pace[first]))
        _scan(self._after, ready, length, pace, start, end)

        times[points.begins], times[points.starts], times[points.ends] = begins, start, end
        times[points.synchronised] = end[-1] + _SETTLE_NS
        self._clock = times[points.synchronised] + _BETWEEN_STEPS_NS
        return times


def _scan(which: list[int], ready: Times, length: Times, pace: Times, start: Times, end: Times) -> None:
    """Run items one after the other on a stream: each begins when ready and the one before has ended."""
    lengths = length[which] + pace[which]
    earlier = np.cumsum(lengths, axis=0) - lengths
    start[which] = earlier + np.maximum.accumulate(ready[which] - earlier, axis=0)
    end[which] = start[which] + length[which]


def _last_compute(items: list[Item], place: int) -> int:
    return max(i for i in range(place) if items[i].bucket is None)
