"""A Dask scheduler and two workers in processes of their own, each with its own temporary folder and working folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 120
"""How long to wait for what must come: no test hangs on it, and none passes by it."""


@dataclass(frozen=True)
class Processes:
    """A running scheduler and its workers."""

    scheduler_file: Path
    scheduler: subprocess.Popen[bytes]
    workers: tuple[subprocess.Popen[bytes], ...]


def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


@contextlib.contextmanager
def dask_processes(folder: Path, environment: Mapping[str, str], *worker_options: str) -> Iterator[Processes]:
    """Give a scheduler with two workers of one thread, all of them gone afterwards; their words are in `folder`."""
    scheduler_file = folder / "scheduler.json"

    def start(name: str, module: str, *argv: str) -> subprocess.Popen[bytes]:
        own = folder / name
        own.mkdir()
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(scheduler_file)]
        with (folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--no-dashboard", *argv],
                cwd=own,
                env={**os.environ, **environment, "TMPDIR": str(own)},
                stdout=log,
                stderr=log,
            )

    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(start("scheduler", "dask_scheduler", "--port", "0"))
        for n in range(2):
            options = ("--nthreads", "1", "--local-directory", str(folder / f"worker{n}"), *worker_options)
            started.append(start(f"worker{n}", "dask_worker", *options))
        until(scheduler_file.exists)
        yield Processes(scheduler_file, started[0], tuple(started[1:]))
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
