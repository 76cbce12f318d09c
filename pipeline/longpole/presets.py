"""What data sheets and model papers say: sql/data/devices.csv and models.csv as typed rows, found by name.

Case and punctuation of a name do not matter. A name that is not there is an error: another device's peak is no answer.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from longpole import catalog
from longpole.errors import LongpoleError


@dataclass(frozen=True)
class Device:
    """One device, as a rank sees it: for a module of two dies that is one die."""

    name: str
    aliases: tuple[str, ...]  # as dumps and people spell it
    peak_flops: Mapping[str, float]  # dense FLOP/s by dtype: bf16, fp16, fp8, fp4, tf32, fp32
    hbm_bytes: int
    hbm_bytes_per_s: float
    link: str  # what joins all devices of a node
    link_bytes_per_s: float  # in one direction, over all links of that kind
    source: str


@dataclass(frozen=True)
class ModelSizes:
    """One published model."""

    name: str
    aliases: tuple[str, ...]
    params: int
    active_params: int  # that one token passes through; those of every model without experts
    embedding_params: int  # of the input table alone
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    seq_len: int
    is_tied: bool  # the output layer is the embedding
    experts: int
    experts_per_token: int
    source: str


@functools.cache
def devices() -> dict[str, Device]:
    """Return every known device by its name."""
    found: dict[str, Device] = {}
    for row in catalog.data("devices"):
        before = found[row["device"]].peak_flops if row["device"] in found else {}
        found[row["device"]] = Device(
            row["device"],
            tuple(row["aliases"].split("|")),
            MappingProxyType({**before, row["dtype"]: float(row["peak_flops"])}),
            int(row["hbm_bytes"]),
            float(row["hbm_bytes_per_s"]),
            row["link"],
            float(row["link_bytes_per_s"]),
            row["source"],
        )
    return found


@functools.cache
def models() -> dict[str, ModelSizes]:
    """Return every known model by its name."""
    found: dict[str, ModelSizes] = {}
    for row in catalog.data("models"):
        sizes = {name: int(row[name]) for name in _MODEL_SIZES}
        found[row["model"]] = ModelSizes(
            name=row["model"],
            aliases=tuple(row["aliases"].split("|")),
            is_tied=row["tied"] == "yes",
            source=row["source"],
            **sizes,
        )
    return found


_MODEL_SIZES = (
    *("params", "active_params", "embedding_params", "layers", "hidden", "heads", "kv_heads", "head_dim"),
    *("ffn", "vocab", "seq_len", "experts", "experts_per_token"),
)


def device(name: str) -> Device:
    """Return the device of this name or alias.

    Raises:
        LongpoleError: There is none; names the nearest.
    """
    return devices()[_found(name, {d.name: d.aliases for d in devices().values()}, "device")]


def model(name: str) -> ModelSizes:
    """Return the model of this name or alias.

    Raises:
        LongpoleError: There is none; names the nearest.
    """
    return models()[_found(name, {m.name: m.aliases for m in models().values()}, "model")]


def key(name: str) -> str:
    """Return what of a name counts: its letters and digits, in lower case."""
    return re.sub("[^a-z0-9]", "", name.lower())


def _found(name: str, known: Mapping[str, tuple[str, ...]], what: str) -> str:
    by_key = {key(spelling): own for own, aliases in known.items() for spelling in (own, *aliases)}
    if key(name) in by_key:
        return by_key[key(name)]
    near = difflib.get_close_matches(key(name), by_key, n=1, cutoff=0.5)
    cure = f"Did you mean {by_key[near[0]]!r}? " if near else ""
    raise LongpoleError(f"{what} {name!r} is not known", f"{cure}Known are {', '.join(known)}.")
