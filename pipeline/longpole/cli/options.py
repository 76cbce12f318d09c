"""Options that several commands share, and what each command does with them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from longpole.cluster import ClusterOptions, connect, has_workers, run_all
from longpole.errors import UsageError
from longpole.store import Store
from longpole.units import parse_bytes

T = TypeVar("T")

StoreOption = Annotated[
    str | None,
    Parameter(name="--store", help="Folder or URL of the store. Default: $LONGPOLE_STORE, else ./longpole-store."),
]
WhatIfOption = Annotated[
    bool | None,
    Parameter(
        help="Replay the run for what stragglers cost and what to fix first. Default: of up to 5 million events."
    ),
]
RunArgument = Annotated[str, Parameter(help="Name of a run in the store.")]


@Parameter(name="*")
@dataclass(frozen=True)
class ClusterFlags:
    """Where tasks run."""

    scheduler: Annotated[str | None, Parameter(help="Address of a Dask scheduler, as tcp://HOST:PORT.")] = None
    scheduler_file: Annotated[str | None, Parameter(help="Scheduler file of a Dask cluster.")] = None
    memory: Annotated[str, Parameter(help="What one task may hold in DuckDB before it spills to disk.")] = "1GiB"

    def options(self) -> ClusterOptions:
        """Return them as the cluster module takes them."""
        return ClusterOptions(self.scheduler, self.scheduler_file, parse_bytes(self.memory))


def open_store(url: str | None) -> Store:
    """Return the store that the option, the environment or the default names."""
    return Store(url or os.environ.get("LONGPOLE_STORE") or "./longpole-store")


def stderr() -> Console:
    """Return a console for progress and notes; text from dumps is printed as it is, never as markup."""
    return Console(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False)


class Work:
    """Runs tasks on one cluster, made when the first task needs it, with progress on stderr."""

    def __init__(self, options: ClusterOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._stack = contextlib.ExitStack()
        self._client: Any = None

    def __enter__(self) -> Work:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def task_memory(self) -> int:
        """What one task may hold in DuckDB."""
        return self._options.task_memory

    def threads_for(self, n_tasks: int) -> int:
        """Return the threads a task may use here: the cores that fewer tasks than cores leave free."""
        is_local = self._options.scheduler is None and self._options.scheduler_file is None
        return max(1, (os.cpu_count() or 1) // max(1, n_tasks)) if is_local else 1

    def runner(self, what: str) -> Callable[[Callable[[Any], T], list[Any]], list[T]]:
        """Return a function that runs a task function over tasks and shows `what` it does."""

        def run_tasks(task: Callable[[Any], T], tasks: list[Any]) -> list[T]:
            if self._client is None:
                self._client = self._stack.enter_context(connect(self._options, len(tasks)))
                if not has_workers(self._client):
                    self._console.print("the scheduler has no workers yet: waiting for them")
            with progress(self._console, what, len(tasks)) as advance:
                return run_all(self._client, task, tasks, advance)

        return run_tasks


@contextlib.contextmanager
def progress(console: Console, what: str, total: int) -> Iterator[Callable[[], None]]:
    """Give a function that marks one task done: a bar on a terminal, one line at the end in batch."""
    if not console.is_terminal:
        yield lambda: None
        console.print(f"{what}: {total} done")
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda: progress.advance(bar)


def parse_steps(text: str | None) -> tuple[int | None, int | None] | None:
    """Return the first and the last step that "A:B", "A:", ":B" or "A" means.

    Raises:
        UsageError: The text means no steps.
    """
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{0,18}):([0-9]{0,18})|([0-9]{1,18})", text)
    if match and match[3]:
        return int(match[3]), int(match[3])
    first, last = (int(end) if end else None for end in match.group(1, 2)) if match else (None, None)
    if (first is None and last is None) or (first is not None and last is not None and last < first):
        raise UsageError(f"{text!r} is no range of steps", "Give the first and the last, as --steps 100:104.")
    return first, last
