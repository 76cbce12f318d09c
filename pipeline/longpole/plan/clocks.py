"""The four clocks of a piece of work: arithmetic, memory, links and launches. The slowest sets the pace.

Work takes the slowest clock's time where all overlap and the sum where none does. Compute against memory is the
roofline: Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from longpole.plan import bounds
from longpole.plan.duration import FLOPS_PER_PARAM_TOKEN
from longpole.plan.exchange import ring_bytes
from longpole.plan.memory import ELEMENT_BYTES
from longpole.presets import ModelSizes

LAUNCH_S = 6e-6
"""A host's time to launch one kernel, unless told: the few microseconds that eager PyTorch takes an operator."""

LAYER_LAUNCHES = 30
"""Kernels of one decoder layer's forward pass, unfused: projections, norms, rotations, attention, sums, activations."""

TRAINING_LAUNCHES = 3 * LAYER_LAUNCHES
"""Kernels of one layer, forward and backward, which launches two for each of forward's."""

WEIGHT_PASSES = 3
"""Times that training moves a weight: read forward, read for the input's gradient, and its own gradient written."""


@dataclass(frozen=True)
class Machine:
    """One device; a link of None carries no exchange."""

    peak_flops_per_s: float  # dense, at the run's dtype
    hbm_bytes_per_s: float
    link_bytes_per_s: float | None = None  # in one direction
    launch_s: float = LAUNCH_S


@dataclass(frozen=True)
class Clocks:
    """What a piece of work is and how long each clock takes for it."""

    flops: int
    hbm_bytes: int
    comm_bytes: int
    n_launches: int
    compute_s: float
    memory_s: float
    comm_s: float | None  # None where bytes are exchanged and no link is known
    overhead_s: float
    clock: Literal["compute", "memory", "comm", "overhead"]
    overlapped_s: float  # all overlap: the slowest clock
    serial_s: float  # nothing overlaps: the sum
    flops_per_byte: float


def clocks(machine: Machine, *, flops: int, hbm_bytes: int, comm_bytes: int = 0, launches: int = 0) -> Clocks:
    """Return the four clocks of work.

    Raises:
        LongpoleError: A number out of range.
    """
    bounds.at_least_one(flops=flops, bytes=hbm_bytes)
    bounds.above_zero(peak_flops=machine.peak_flops_per_s, memory_bandwidth=machine.hbm_bytes_per_s)
    bounds.not_negative(launches=launches, launch_time=machine.launch_s)
    if machine.link_bytes_per_s is not None:
        bounds.above_zero(link_bandwidth=machine.link_bytes_per_s)
    compute_s, memory_s = flops / machine.peak_flops_per_s, hbm_bytes / machine.hbm_bytes_per_s
    overhead_s = launches * machine.launch_s
    comm_s = 0.0 if comm_bytes == 0 else None
    if comm_bytes and machine.link_bytes_per_s is not None:
        comm_s = comm_bytes / machine.link_bytes_per_s
    times: dict[Literal["compute", "memory", "comm", "overhead"], float] = {
        "compute": compute_s,
        "memory": memory_s,
        "comm": comm_s or 0.0,
        "overhead": overhead_s,
    }
    slowest = max(times, key=lambda name: times[name])
    return Clocks(
        flops=flops,
        hbm_bytes=hbm_bytes,
        comm_bytes=comm_bytes,
        n_launches=launches,
        compute_s=compute_s,
        memory_s=memory_s,
        comm_s=comm_s,
        overhead_s=overhead_s,
        clock=slowest,
        overlapped_s=times[slowest],
        serial_s=sum(times.values()),
        flops_per_byte=flops / hbm_bytes,
    )


def training(machine: Machine, *, params: int, tokens: int, ranks: int = 1, launches: int = 0) -> Clocks:
    """Return the clocks of parameters in one forward and backward pass over tokens: a layer's, or a model's.

    6·N FLOPs a token; weights in 2 bytes moved three times, activations not counted; gradients in 2 bytes in a ring of
    `ranks`.

    Raises:
        LongpoleError: A number out of range.
    """
    bounds.at_least_one(params=params, tokens=tokens, ranks=ranks)
    return clocks(
        machine,
        flops=FLOPS_PER_PARAM_TOKEN * params * tokens,
        hbm_bytes=WEIGHT_PASSES * ELEMENT_BYTES * params,
        comm_bytes=ring_bytes(ELEMENT_BYTES * params, ranks),
        launches=launches,
    )


def decode(
    machine: Machine,
    *,
    params: int,
    batch: int = 1,
    context: int = 0,
    kv_token_bytes: int = 0,
    devices: int = 1,
    launches: int = 0,
) -> Clocks:
    """Return one device's clocks for one token of each sequence in a batch, with the parameters split over devices.

    Each weight is read once, in 2 bytes, for 2 FLOPs a sequence, and each sequence's cache of keys and values is read:
    Pope et al. 2022, Efficiently Scaling Transformer Inference (arXiv 2211.05102). Attention's own FLOPs and the
    exchange between the devices are left out. It is a floor.

    Raises:
        LongpoleError: A number out of range.
    """
    bounds.at_least_one(params=params, sequences=batch, devices=devices)
    bounds.not_negative(context=context, kv_bytes=kv_token_bytes)
    weights, cache = ELEMENT_BYTES * params, batch * context * kv_token_bytes
    return clocks(
        machine,
        flops=-(-2 * params * batch // devices),
        hbm_bytes=-(-(weights + cache) // devices),
        launches=launches,
    )


def matmul(machine: Machine, *, rows: int, inner: int, columns: int) -> Clocks:
    """Return the clocks of a product of rows × inner and inner × columns: each operand and the result moved once.

    2·m·k·n FLOPs, 2-byte elements.

    Raises:
        LongpoleError: A number out of range.
    """
    bounds.at_least_one(rows=rows, inner_size=inner, columns=columns)
    return clocks(
        machine,
        flops=2 * rows * inner * columns,
        hbm_bytes=ELEMENT_BYTES * (rows * inner + inner * columns + rows * columns),
    )


def ridge(machine: Machine) -> float:
    """Return the FLOPs a byte above which arithmetic is slower than memory: peak over bandwidth.

    It is also the batch at which decoding turns from memory to compute: 2 FLOPs a sequence for each weight of 2 bytes.
    """
    bounds.above_zero(peak_flops=machine.peak_flops_per_s, memory_bandwidth=machine.hbm_bytes_per_s)
    return machine.peak_flops_per_s / machine.hbm_bytes_per_s


def layer_params(model: ModelSizes) -> int:
    """Return the parameters of one layer that a token passes through: what embedding, output and last norm leave."""
    tables = model.embedding_params * (1 if model.is_tied else 2)
    return (model.active_params - tables - model.hidden) // model.layers
