"""What training keeps in device memory: state of each parameter, activations, and the cache of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from longpole.plan import bounds

Precision = Literal["mixed", "mixed-fp32-gradients", "bf16", "fp32"]
Optimizer = Literal["adam", "momentum", "sgd"]

ELEMENT_BYTES = 2
"""Of BF16 or FP16: activations, caches, and weights as matrices read them."""


@dataclass(frozen=True)
class Format:
    """Bytes that one parameter takes, by what they are for."""

    weight: int
    gradient: int
    moment: int  # of each moment of the optimizer
    master: int


FORMATS: dict[Precision, Format] = {
    "mixed": Format(weight=2, gradient=2, moment=4, master=4),
    "mixed-fp32-gradients": Format(weight=2, gradient=4, moment=4, master=4),
    "bf16": Format(weight=2, gradient=2, moment=2, master=0),
    "fp32": Format(weight=4, gradient=4, moment=4, master=0),
}
"""Mixed is ZeRO's 2 + 2 + 12 with Adam (Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1); with gradients summed
in FP32 it is Megatron-LM's 18 bytes (its documentation of the distributed optimizer)."""

MOMENTS: dict[Optimizer, int] = {"adam": 2, "momentum": 1, "sgd": 0}
"""Numbers that an optimizer keeps for each parameter."""


@dataclass(frozen=True)
class States:
    """What all parameters keep, over all devices that share them."""

    param_bytes: int
    weights_bytes: int
    gradients_bytes: int
    moments_bytes: int
    master_bytes: int
    total_bytes: int


def states(params: int, optimizer: Optimizer = "adam", precision: Precision = "mixed") -> States:
    """Return the bytes of weights, gradients, optimizer moments and master weights; no buffers, no headroom.

    Raises:
        LongpoleError: No parameters.
    """
    bounds.at_least_one(params=params)
    form = FORMATS[precision]
    each = (form.weight, form.gradient, MOMENTS[optimizer] * form.moment, form.master)
    weights, gradients, moments, master = (params * n for n in each)
    return States(sum(each), weights, gradients, moments, master, params * sum(each))


@dataclass(frozen=True)
class Activations:
    """What backward needs of forward, without recomputation."""

    layer_bytes: int
    total_bytes: int
    layer_attention_bytes: int  # more, where attention keeps its matrices: without flash attention
    total_without_flash_bytes: int


def activations(*, batch: int, seq_len: int, hidden: int, heads: int, layers: int) -> Activations:
    """Return the activations of `batch` sequences: 34·s·b·h a layer, and 5·a·s²·b more for matrices of attention.

    Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models (arXiv 2205.05198), equation
    1: a GPT block in 2-byte elements with dropout. Flash attention (Dao et al. 2022, arXiv 2205.14135) keeps no
    matrices. A block of another make, gated or without dropout, differs.

    Raises:
        LongpoleError: A number below 1.
    """
    bounds.at_least_one(sequences=batch, sequence_length=seq_len, hidden=hidden, heads=heads, layers=layers)
    layer = 34 * seq_len * batch * hidden
    attention = 5 * heads * seq_len**2 * batch
    return Activations(layer, layer * layers, attention, (layer + attention) * layers)


@dataclass(frozen=True)
class KvCache:
    """Keys and values of sequences that are generated."""

    token_bytes: int
    sequence_bytes: int
    total_bytes: int


def kv_cache(*, layers: int, kv_heads: int, head_dim: int, seq_len: int, sequences: int) -> KvCache:
    """Return the cache in 2-byte elements: a key and a value for each layer and head that has its own.

    Heads are those of keys and values, fewer than of queries where these share (Ainslie et al. 2023, arXiv 2305.13245).

    Raises:
        LongpoleError: A number below 1.
    """
    bounds.at_least_one(
        layers=layers, kv_heads=kv_heads, head_dim=head_dim, sequence_length=seq_len, sequences=sequences
    )
    token = 2 * layers * kv_heads * head_dim * ELEMENT_BYTES
    return KvCache(token, token * seq_len, token * seq_len * sequences)


@dataclass(frozen=True)
class Devices:
    """How many devices hold a number of bytes."""

    n_devices: int  # by division alone
    n_in_nodes: int  # in whole nodes


def least_devices(n_bytes: int, *, device_bytes: int, node_devices: int = 8) -> Devices:
    """Return the least devices whose memory holds bytes that are split evenly, and as many in whole nodes.

    Eight devices a node is what HGX and OAM boards have. It is a floor: activations, buffers and headroom come on top.

    Raises:
        LongpoleError: A number below 1.
    """
    bounds.at_least_one(bytes=n_bytes, device_memory=device_bytes, devices_of_a_node=node_devices)
    n = -(-n_bytes // device_bytes)
    return Devices(n, -(-n // node_devices) * node_devices)
