"""What tasks of many large ranks hold on two workers with little memory: none may be killed for it.

Run as `python tests/bench/memory.py [--ranks 8] [--megabytes 170] [--limit 1GiB]`. A separate scheduler and two workers
of one thread read and analyze a dump of each rank; each worker's nanny ends it at 95 % of the limit, as a cluster does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parents[1]))

from make_dump import make_dump

from dask_processes import Processes, dask_processes
from longpole import cli
from longpole.units import parse_bytes


class Watch:
    """The largest resident size of any worker, looked at ten times a second."""

    def __init__(self, processes: Processes) -> None:
        self.peak = 0
        self._nannies = [psutil.Process(w.pid) for w in processes.workers]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            for worker in (c for nanny in self._nannies for c in nanny.children(recursive=True)):
                try:
                    self.peak = max(self.peak, worker.memory_info().rss)
                except psutil.Error:
                    continue


def measure(folder: Path, ranks: int, megabytes: float, limit: str) -> tuple[int, int, int]:
    """Return events, the largest resident bytes of a worker, and how many times a nanny ended one for its memory."""
    dumps = folder / "dumps"
    dumps.mkdir()
    # No two of the same content: that would be one dump.
    n_events = sum(make_dump(dumps / f"rank{r}.json.gz", megabytes=megabytes * (1 - r / 200))[0] for r in range(ranks))
    store = ["--store", str(folder / "store")]
    with dask_processes(folder, {}, "--memory-limit", limit) as processes, Watch(processes) as watch:
        where = ["--scheduler-file", str(processes.scheduler_file)]
        named = ["--name", "bench", "--rank-from", r"rank(\d+)"]
        for argv in (["ingest", str(dumps), *named, *store, *where], ["analyze", "bench", *store, *where]):
            if cli.main(argv):
                raise SystemExit(f"longpole {argv[0]} failed")
    logs = [(folder / f"worker{n}.log").read_text() for n in range(len(processes.workers))]
    return n_events, watch.peak, sum(log.count("memory budget. Restarting") for log in logs)


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
