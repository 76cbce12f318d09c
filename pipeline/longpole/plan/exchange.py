"""What a ring all-reduce moves, and how long links take for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from longpole.plan import bounds


@dataclass(frozen=True)
class LinkTime:
    """One link's time for the exchange; no latency, no contention."""

    link: str
    bytes_per_s: float  # in one direction
    ring_s: float | None  # None where the number of ranks is not known
    limit_s: float


@dataclass(frozen=True)
class AllReduce:
    """What each rank sends, and receives as much: exactly for its ring, and in the limit of many ranks."""

    ring_bytes: int | None
    limit_bytes: int
    links: tuple[LinkTime, ...]


def ring_bytes(n_bytes: int, ranks: int) -> int:
    """Return what each rank sends: 2(n−1)/n of the bytes, a part of a byte counted whole.

    Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations; nccl-tests'
    doc/PERFORMANCE.md has the same factor. One rank sends nothing.
    """
    return -(-2 * (ranks - 1) * n_bytes // ranks)


def all_reduce(n_bytes: int, *, ranks: int | None, links: Mapping[str, float]) -> AllReduce:
    """Return what an all-reduce of bytes moves and takes on each link, of bytes/s in one direction.

    Raises:
        LongpoleError: No bytes, no ranks, or a link without bandwidth.
    """
    bounds.at_least_one(bytes=n_bytes, ranks=1 if ranks is None else ranks)
    for name, rate in links.items():
        bounds.above_zero(**{f"link {name}": rate})
    ring = None if ranks is None else ring_bytes(n_bytes, ranks)
    limit = 2 * n_bytes
    times = tuple(
        LinkTime(name, rate, None if ring is None else ring / rate, limit / rate) for name, rate in links.items()
    )
    return AllReduce(ring, limit, times)
