"""The Dask client that work runs on: one made for this machine, or the cluster that a person names."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import importlib.util
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from longpole import __version__
from longpole.errors import LongpoleError, UsageError

T = TypeVar("T")

DEFAULT_TASK_MEMORY = 1 << 30
"""Bytes that DuckDB may hold in one task before it spills: a rank of two million device activities stays within."""


CONNECT_SECONDS = 20
"""How long a scheduler may take to answer, or its file to appear."""


@dataclass(frozen=True)
class ClusterOptions:
    """Where tasks run; nothing set means a LocalCluster sized to this machine."""

    scheduler: str | None = None
    scheduler_file: str | None = None
    task_memory: int = DEFAULT_TASK_MEMORY


@contextlib.contextmanager
def connect(options: ClusterOptions, n_tasks: int) -> Iterator[Any]:
    """Give a distributed.Client for about `n_tasks` independent tasks.

    Where nothing says which, it is the one that this process has already, as a program that calls longpole may, else
    of a local cluster, whose scheduler, workers and dashboard listen on 127.0.0.1 alone.

    Raises:
        UsageError: Both a scheduler and a scheduler file are given.
        LongpoleError: The scheduler does not answer, or its workers have another longpole or none.
    """
    import dask
    from distributed import Client, LocalCluster

    if options.scheduler and options.scheduler_file:
        raise UsageError("--scheduler and --scheduler-file cannot both be given", "Give the one your cluster has.")
    address = _address(options)
    if address or options.scheduler_file:
        where = address or options.scheduler_file
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what is wrong is said once, in words
        try:
            client = _started(
                functools.partial(Client, address or _address_in(str(options.scheduler_file)), timeout=CONNECT_SECONDS)
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise LongpoleError(
                f"the Dask scheduler {where} does not answer: {error}", "Check the address and that it runs."
            ) from error
        with client:
            _refuse_strangers(client, str(where))
            yield client
        return
    current = _current()
    if current is not None:
        _refuse_strangers(current, "this program's Dask client")
        yield current
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            dask.config.set({"distributed.worker.memory.spill": False, "distributed.worker.memory.target": False})
        )
        with _children_without_interrupts():
            cluster = LocalCluster(
                # One task gains nothing from a process of its own, and would wait seconds for it to start.
                processes=n_tasks > 1,
                n_workers=max(1, min(n_tasks, os.cpu_count() or 1)),
                threads_per_worker=1 if n_tasks > 1 else os.cpu_count() or 1,
                protocol="tcp://",
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            )
            client = stack.enter_context(_started(functools.partial(Client, stack.enter_context(cluster))))
        yield client


def is_this_machine(options: ClusterOptions) -> bool:
    """Return whether `connect` would make a cluster of this machine."""
    return not _address(options) and options.scheduler_file is None and _current() is None


def _address(options: ClusterOptions) -> str | None:
    import dask

    named = options.scheduler or options.scheduler_file
    return options.scheduler if named else dask.config.get("scheduler-address", None)


def _current() -> Any:
    """Return the client that this process works with; None without."""
    from distributed import Client

    try:
        return Client.current()
    except ValueError:
        return None


def _started(make_client: Callable[[], Any]) -> Any:
    """Return the client, tried twice: distributed gives its event loop's thread ten seconds to start, then asserts."""
    try:
        return make_client()
    except AssertionError:  # a machine that stalls for so long is not a scheduler that does not answer
        return make_client()


@contextlib.contextmanager
def _children_without_interrupts() -> Iterator[None]:
    """Let processes that start within ignore Ctrl-C: it is this process's to handle, and it ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _address_in(scheduler_file: str) -> str:
    """Return the address that a scheduler file says, once it does: a job may start before its scheduler has."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return str(json.loads(Path(scheduler_file).read_text(encoding="utf-8"))["address"])
        except OSError:
            if time.monotonic() >= deadline:
                raise
        except (ValueError, LookupError, TypeError) as error:
            if time.monotonic() >= deadline:
                raise ValueError("it is no scheduler file of Dask") from error
        time.sleep(0.1)


def _refuse_strangers(client: Any, where: str) -> None:
    """Workers run this very package: one without it takes a task and never answers, another version's facts differ."""
    try:
        versions = set(client.run(importlib.metadata.version, "longpole").values())
    except importlib.metadata.PackageNotFoundError as error:
        raise LongpoleError(
            f"the workers of {where} have no longpole", f"Install longpole {__version__} where they run."
        ) from error
    if versions - {__version__}:
        raise LongpoleError(
            f"the workers of {where} have longpole {', '.join(sorted(versions))}, this is {__version__}",
            f"Install longpole {__version__} where they run.",
        )


def run_all(
    client: Any, task: Callable[..., T], arguments: Sequence[Any], on_done: Callable[[], None] = lambda: None
) -> list[T]:
    """Return task(argument) for each argument, in their order.

    The first task that fails ends the rest and raises its own error.

    Raises:
        LongpoleError: DuckDB ran out of memory or failed in a task, a worker died, or the scheduler did.
    """
    from distributed import as_completed
    from distributed.client import ClosedClientError, FutureCancelledError
    from distributed.scheduler import KilledWorker

    futures: list[Any] = []
    try:
        futures += [client.submit(task, argument, pure=False) for argument in _fitted(client, arguments)]
        for future in as_completed(futures):
            if future.status == "error":
                future.result()
            on_done()
        return list(client.gather(futures))
    except duckdb.OutOfMemoryException as error:
        raise LongpoleError(
            f"{task.__name__} needs more memory than it may hold: {str(error).splitlines()[0]}",
            "Give each task more with --memory.",
        ) from error
    except duckdb.Error as error:
        raise LongpoleError(
            f"{task.__name__} failed: {error}", "A full disk or a damaged file can be why; the run is as it was before."
        ) from error
    except KilledWorker as error:
        raise LongpoleError(
            f"a worker died while it ran {task.__name__}: {error}",
            "It ran out of memory or was killed. Lower --memory, or give the workers more.",
        ) from error
    except (FutureCancelledError, ClosedClientError) as error:
        raise LongpoleError(
            f"the Dask scheduler was lost while it ran {task.__name__}",
            "Give the same command again when it runs: what was finished is kept.",
        ) from error
    finally:
        if client.status == "running":
            client.cancel(futures)


_BESIDE_DUCKDB = 256 << 20
"""Bytes of a worker that are not DuckDB's: 180 MiB of modules, and Arrow's own."""

_LEAST_MEMORY = 64 << 20


def _fitted(client: Any, arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments of tasks with no more `memory` than the workers leave.

    Dask pauses a worker at 80 % of its limit and ends it at 95 %; tasks of its threads share what is below.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    shares = [
        max(_LEAST_MEMORY, (w["memory_limit"] * 4 // 5 - _BESIDE_DUCKDB) // w["nthreads"])
        for w in workers
        if w["memory_limit"]
    ]
    if not shares:
        return list(arguments)
    return [_with_memory(argument, min(shares)) for argument in arguments]


def _with_memory(argument: Any, most: int) -> Any:
    if not dataclasses.is_dataclass(argument) or isinstance(argument, type) or not hasattr(argument, "memory"):
        return argument
    return dataclasses.replace(argument, memory=min(argument.memory, most))


def dashboard_of(client: Any) -> str | None:
    """Return the link of the scheduler's dashboard; None where it has none, or no bokeh to draw it."""
    if importlib.util.find_spec("bokeh") is None or "dashboard" not in client.scheduler_info(n_workers=0)["services"]:
        return None
    return str(client.dashboard_link)


def has_workers(client: Any) -> bool:
    """Return whether any worker has joined; a cluster that grows on demand may have none yet."""
    return bool(client.scheduler_info(n_workers=-1)["workers"])
