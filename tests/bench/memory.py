"""What tasks of many large ranks hold on two workers with little memory: none may be killed for it.

Run as `python tests/bench/memory.py [--ranks 8] [--megabytes 170] [--limit 1GiB]`. A separate scheduler and two workers
of one thread read and analyze a dump of each rank; each worker's nanny ends it at 95 % of the limit, as a cluster does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from make_dump import make_dump
from measuring import Watch

from dask_processes import dask_processes
from longpole import cli
from longpole.units import parse_bytes


def measure(folder: Path, ranks: int, megabytes: float, limit: str) -> tuple[int, int, int]:
    """Return events, the largest resident bytes of a worker, and how many times a nanny ended one for its memory."""
    dumps = folder / "dumps"
    dumps.mkdir()
    # No two of the same content: that would be one dump.
    n_events = sum(make_dump(dumps / f"rank{r}.json.gz", megabytes=megabytes * (1 - r / 200))[0] for r in range(ranks))
    store = ["--store", str(folder / "store")]
    with (
        dask_processes(folder, {}, "--memory-limit", limit) as processes,
        Watch([nanny.pid for nanny in processes.workers]) as watch,
    ):
        where = ["--scheduler-file", str(processes.scheduler_file)]
        named = ["--name", "bench", "--rank-from", r"rank(\d+)"]
        for argv in (["ingest", str(dumps), *named, *store, *where], ["analyze", "bench", *store, *where]):
            if cli.main(argv):
                raise SystemExit(f"longpole {argv[0]} failed")
    logs = [(folder / f"worker{n}.log").read_text() for n in range(len(processes.workers))]
    return n_events, watch.child_bytes, sum(log.count("memory budget. Restarting") for log in logs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--megabytes", type=float, default=170)
    parser.add_argument("--limit", default="1GiB")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        n_events, peak, n_ended = measure(Path(name), given.ranks, given.megabytes, given.limit)
    print(f"{given.ranks} ranks, {n_events:,} events, 2 workers of {given.limit}")
    print(f"largest worker {peak / 2**20:,.0f} MiB, {peak / parse_bytes(given.limit):.0%} of the limit")
    print(f"workers ended and started again: {n_ended}")


if __name__ == "__main__":
    main()
