"""Clocks that disagree: what a host's clock shows at a time of the run's, and back, in whole nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from longpole.synth.made import BASE_NS, MS, ORIGIN_NS, RANKS_PER_HOST

Times = npt.NDArray[np.int64]

REFERENCE_NS = ORIGIN_NS + 100 * MS
"""When, by a clock's own hands, it is ahead by its offset alone; without BASE_NS, as times here are."""

_OFFSET_NS = 10 * 10**9
_DRIFT_PPB = 50_000
"""A clock is off by up to this: seconds as without NTP, 50 parts per million as a cheap crystal may run."""


@dataclass(frozen=True)
class Clock:
    """A host's clock: what it shows is t, the run's time is t - offset - drift * (t - REFERENCE_NS) / 10**9."""

    host: str
    offset_ns: int
    drift_ppb: int

    def shows(self, true_ns: Times) -> Times:
        """Return what it shows at times of the run, to the nearest nanosecond."""
        ahead = true_ns + self.offset_ns
        return ahead + _nearest(self.drift_ppb * (ahead - REFERENCE_NS), 10**9 - self.drift_ppb)

    def true(self, shown_ns: Times) -> Times:
        """Return the times of the run at which it shows `shown_ns`, to the nearest nanosecond."""
        return shown_ns - self.offset_ns - _nearest(self.drift_ppb * (shown_ns - REFERENCE_NS), 10**9)


def host_clocks(n_ranks: int, seed: int | Sequence[int], ranks_per_host: int = RANKS_PER_HOST) -> tuple[Clock, ...]:
    """Return the clock of each rank: the first host's is the run's, each other host's is off by amounts of its own."""
    n_hosts = -(-n_ranks // ranks_per_host)
    bits = [int(word) >> 16 for word in np.random.PCG64(np.random.SeedSequence(seed)).random_raw(2 * n_hosts)]
    hosts = [Clock("node0", 0, 0)] + [
        Clock(
            f"node{host}",
            bits[2 * host] % (2 * _OFFSET_NS) - _OFFSET_NS,
            bits[2 * host + 1] % (2 * _DRIFT_PPB) - _DRIFT_PPB,
        )
        for host in range(1, n_hosts)
    ]
    return tuple(hosts[rank // ranks_per_host] for rank in range(n_ranks))


def shown(rows: pa.Table, clock: Clock) -> pa.Table:
    """Return events of the run's time as the clock times them: both ends are read from it."""
    true_ns = rows["start_ns"].to_numpy()
    start = clock.shows(true_ns)
    length = clock.shows(true_ns + rows["duration_ns"].to_numpy()) - start
    place = rows.column_names.index("start_ns")
    rows = rows.set_column(place, rows.schema.field(place), pa.array(start))
    place = rows.column_names.index("duration_ns")
    return rows.set_column(place, rows.schema.field(place), pa.array(length))


def aligned(rank_steps: pa.Table, clocks: Sequence[Clock]) -> pa.Table:
    """Return `rank_steps` with `start_ns` and `end_ns` in the run's time; these hold BASE_NS."""
    rank = rank_steps["rank"].to_numpy()
    for name in ("start_ns", "end_ns"):
        times = rank_steps[name].to_numpy().copy()
        for number, clock in enumerate(clocks):
            mine = rank == number
            times[mine] = clock.true(times[mine] - BASE_NS) + BASE_NS
        place = rank_steps.column_names.index(name)
        rank_steps = rank_steps.set_column(place, rank_steps.schema.field(place), pa.array(times))
    return rank_steps


def _nearest(numerator: Times, denominator: int) -> Times:
    result: Times = (2 * numerator + denominator) // (2 * denominator)
    return result
