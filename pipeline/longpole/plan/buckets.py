"""The queue of gradient buckets: they become ready over backward and are exchanged one after the other on one channel.

PyTorch DDP does so (Li et al. 2020, PyTorch Distributed, arXiv 2006.15704, section 3.2). Small buckets begin early and
pay the cost of a call more often; large ones begin late. What the exchange takes from backward is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from longpole.errors import LongpoleError
from longpole.plan import bounds
from longpole.plan.exchange import ring_bytes

MOST_BUCKETS = 10_000
"""More buckets than this are not served: a call each would take longer than any backward."""


@dataclass(frozen=True)
class Served:
    """When one bucket was ready and when it was exchanged."""

    ready_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Queue:
    """How the buckets of one backward pass were served."""

    buckets: tuple[Served, ...]
    backward_end_ns: int
    end_ns: int
    tail_ns: int  # after backward's end


def queue(ready_ns: Sequence[int], service_ns: Sequence[int], *, backward_end_ns: int | None = None) -> Queue:
    """Return when each bucket is served, in the order given; backward ends when the last is ready, unless told.

    Raises:
        LongpoleError: No bucket, as many services as buckets not given, or a negative time.
    """
    if not ready_ns or len(ready_ns) != len(service_ns):
        raise LongpoleError(
            f"{len(ready_ns)} buckets are ready and {len(service_ns)} have a service time",
            "Give one ready time and one service time for each bucket.",
        )
    backward_end = max(ready_ns) if backward_end_ns is None else backward_end_ns
    bounds.not_negative(ready_time=min(ready_ns), service_time=min(service_ns), backward_end=backward_end)
    served: list[Served] = []
    free = 0
    for ready, service in zip(ready_ns, service_ns, strict=True):
        start = max(ready, free)
        free = start + service
        served.append(Served(ready, start, free))
    return Queue(tuple(served), backward_end, free, max(0, free - backward_end))


@dataclass(frozen=True)
class Exchange:
    """Gradients that become ready evenly over backward, and the channel that they are all-reduced on."""

    n_bytes: int
    backward_ns: int
    ranks: int
    bytes_per_s: float  # in one direction
    overhead_ns: int  # of one call, whatever its size

    def __post_init__(self) -> None:
        bounds.at_least_one(bytes=self.n_bytes, backward=self.backward_ns, ranks=self.ranks)
        bounds.above_zero(bandwidth=self.bytes_per_s)
        bounds.not_negative(overhead=self.overhead_ns)

    def service_ns(self, n_bytes: int) -> int:
        """Return what a bucket's all-reduce takes: a call, and its ring's bytes over the bandwidth."""
        return self.overhead_ns + round(ring_bytes(n_bytes, self.ranks) / self.bytes_per_s * 10**9)


def gradient_queue(exchange: Exchange, bucket_bytes: int) -> Queue:
    """Return how buckets of a size are served; the last one holds what is left.

    Raises:
        LongpoleError: A bucket without bytes, or too many buckets.
    """
    bounds.at_least_one(bucket_bytes=bucket_bytes)
    n = -(-exchange.n_bytes // bucket_bytes)
    if n > MOST_BUCKETS:
        raise LongpoleError(
            f"buckets of {bucket_bytes:,} B are {n:,}", f"Give a size that makes {MOST_BUCKETS:,} or less."
        )
    ends = [min((i + 1) * bucket_bytes, exchange.n_bytes) for i in range(n)]
    sizes = [end - i * bucket_bytes for i, end in enumerate(ends)]
    ready = [exchange.backward_ns * end // exchange.n_bytes for end in ends]
    return queue(ready, [exchange.service_ns(size) for size in sizes], backward_end_ns=exchange.backward_ns)


@dataclass(frozen=True)
class Best:
    """The size of equal buckets that leaves the shortest tail."""

    n_buckets: int
    bucket_bytes: int
    tail_ns: int


def best_bucket(exchange: Exchange) -> Best:
    """Return the bucket size with the shortest tail; of equals the largest.

    For k equal buckets, backward T, transfers of C in all and o a call, the queue ends with the last bucket alone, or
    was never empty: tail = max(o + C/k, T/k + k·o + C − T). The first falls with k and rules up to k = (T − C)/o, where
    they meet; the second is least at sqrt(T/o). So the best k is one of these two, or 1.
    """
    backward, overhead = exchange.backward_ns, exchange.overhead_ns
    transfer = exchange.service_ns(exchange.n_bytes) - overhead
    most = min(MOST_BUCKETS, exchange.n_bytes)
    turns = [(backward - transfer) / overhead, math.sqrt(backward / overhead)] if overhead else [float(most)]
    whole = {min(max(k, 1), most) for turn in turns for k in (math.floor(turn), math.ceil(turn))}

    def tail_of(k: int) -> float:
        return max(overhead + transfer / k, backward / k + k * overhead + transfer - backward)

    n = min(sorted({1} | whole), key=tail_of)
    size = -(-exchange.n_bytes // n)
    served = gradient_queue(exchange, size)
    return Best(len(served.buckets), size, served.tail_ns)
