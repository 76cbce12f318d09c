"""What a scenario makes: facts per rank and rows in chunks; both written forms and the truth read this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from longpole.events import Device, DumpFacts

MS = 1_000_000
US = 1_000
"""Nanoseconds in a millisecond and in a microsecond."""

BASE_NS = 1_790_857_026_000_000_000
"""`baseTimeNanoseconds` of every made dump: an instant of 2026 in whole seconds."""

ORIGIN_NS = 5_101_077_000_000_000
"""Where made dumps begin after BASE_NS: real ones lie about 59 days from theirs."""

RANKS_PER_HOST = 8
_H100_BYTES = 85_028_372_480
_TRACE_ID = "6C0F9A3E51D84B7786A2{rank:012X}"


def _as_they_are(rank_steps: pa.Table) -> pa.Table:
    return rank_steps


@dataclass(frozen=True)
class MadeRun:
    """One made run.

    `chunks(ranks)` may be called again and gives the same (rank, rows) of these ranks each time, whichever others are
    asked for: rows ordered by start, every chunk of a rank later than its earlier ones, all together its whole dump.
    """

    facts: tuple[DumpFacts, ...]
    chunks: Callable[[Sequence[int]], Iterator[tuple[int, pa.Table]]]
    known: dict[str, object] = field(default_factory=dict)
    """What was put in on purpose and no interval arithmetic would find: the slow rank, the late step."""
    lists: dict[str, Callable[[], Iterator[dict[str, object]]]] = field(default_factory=dict)
    """Of the same, what is a row each of truth.json."""
    telemetry: Callable[[], Iterator[str]] | None = None
    """Lines of a CSV of the devices' clocks, header first; None for a run without."""
    aligned: Callable[[pa.Table], pa.Table] = _as_they_are
    """Brings the `start_ns` and `end_ns` of `rank_steps` to the run's clock."""


def rank_facts(rank: int, n_ranks: int, *, has_device: bool = True, ranks_per_host: int = RANKS_PER_HOST) -> DumpFacts:
    """Return what a profiler would say of `rank` of `n_ranks`: hosts of eight unless told, one group over all."""
    backend = "nccl" if has_device else "gloo"
    config = "cuda:nccl" if has_device else "cpu:gloo,cuda:gloo"
    members = ", ".join(str(member) for member in range(n_ranks))
    n_devices = min(ranks_per_host, n_ranks - rank // ranks_per_host * ranks_per_host)
    return DumpFacts(
        format="longpole-events",
        schema="longpole-events 1",
        base_ns=BASE_NS,
        rank=rank,
        world_size=n_ranks,
        backend=backend,
        host=f"node{rank // ranks_per_host}",
        devices=tuple(
            Device(index=index, name="NVIDIA H100 80GB HBM3", memory_bytes=_H100_BYTES)
            for index in range(n_devices if has_device else 0)
        ),
        process_groups=(
            f'[{{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "{config}", '
            f'"pg_size": {n_ranks}, "ranks": [{members}]}}]'
        ),
        trace_id=_TRACE_ID.format(rank=rank),
    )


def group_text(members: Sequence[int]) -> str:
    """Return how a collective record prints a group's ranks: all up to 30, then dots."""
    shown = [str(rank) for rank in members[:30]]
    return f"[{', '.join(shown if len(members) <= 30 else [*shown, '...'])}]"
