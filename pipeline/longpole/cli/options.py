"""Options that several commands share, and what each command does with them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from longpole.cluster import ClusterOptions, connect, dashboard_of, has_workers, is_this_machine, run_all
from longpole.errors import UsageError
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


LogFormat = Literal["text", "json"]


class Log:
    """Progress and notes on stderr: text as it is, never markup; or one JSON object a line."""

    def __init__(self, form: LogFormat = "text") -> None:
        self.console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False)
        self._is_json = form == "json"

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches, who may be shown a bar."""
        return self.console.is_terminal and not self._is_json

    def print(self, text: str) -> None:
        """Write a note."""
        self._write({"message": text}, text)

    def milestone(self, what: str, text: str, **fields: Any) -> None:
        """Write that something is done: `text` for a person; for a machine `what` by name, and the fields."""
        self._write({"milestone": what, "message": text, **fields}, text)

    def _write(self, fields: dict[str, Any], text: str) -> None:
        self.console.print(log_line(fields) if self._is_json else text)


def log_line(fields: dict[str, Any]) -> str:
    """Return a line of the JSON log: when, and what."""
    return json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})


@Parameter(name="*")
@dataclass(frozen=True)
class ClusterFlags:
    """Where tasks run."""

    scheduler: Annotated[str | None, Parameter(help="Address of a Dask scheduler, as tcp://HOST:PORT.")] = None
    scheduler_file: Annotated[str | None, Parameter(help="Scheduler file of a Dask cluster.")] = None
    memory: Annotated[str, Parameter(help="What one task may hold in DuckDB before it spills to disk.")] = "1GiB"
    log_format: Annotated[LogFormat, Parameter(help="json: one object a line on stderr, for a batch system.")] = "text"

    def options(self) -> ClusterOptions:
        """Return them as the cluster module takes them."""
        return ClusterOptions(self.scheduler, self.scheduler_file, parse_bytes(self.memory))

    def log(self) -> Log:
        """Return where progress and notes go."""
        return Log(self.log_format)


def stderr() -> Log:
    """Return where a command without options of its own writes progress and notes."""
    return Log()


def print_table(table: Table, *, above: Sequence[str] = (), below: Sequence[str] = (), width: int = 160) -> None:
    """Print a table between lines of text: as wide as the terminal, piped `width`; no line ends in blanks."""
    console = Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else width)
    with console.capture() as capture:
        for line in above:
            console.print(line, soft_wrap=True)
        console.print(table)
        for line in below:
            console.print(line, soft_wrap=True)
    sys.stdout.write("\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n")


class Work:
    """Runs tasks on one cluster, made when the first task needs it, with progress on stderr."""

    def __init__(self, options: ClusterOptions, log: Log, expected_tasks: int = 0) -> None:
        """Take `expected_tasks` at once to size a cluster of this machine by; 0: as many as the first call has."""
        self._options = options
        self._log = log
        self._expected_tasks = expected_tasks
        self.run: str | None = None  # whose tasks they are, where a command does several runs
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
        return max(1, (os.cpu_count() or 1) // max(1, n_tasks)) if is_this_machine(self._options) else 1

    def runner(self, what: str) -> Callable[[Callable[[Any], T], list[Any]], list[T]]:
        """Return a function that runs a task function over tasks and shows `what` it does."""

        def run_tasks(task: Callable[[Any], T], tasks: list[Any]) -> list[T]:
            if self._client is None:
                n_tasks = max(len(tasks), self._expected_tasks)
                self._client = self._stack.enter_context(connect(self._options, n_tasks))
                if link := dashboard_of(self._client):
                    self._log.milestone("cluster", f"dashboard: {link}", dashboard=link)
                if not has_workers(self._client):
                    self._log.print("the scheduler has no workers yet: waiting for them")
            scope = getattr(tasks[0], "scope", "") if tasks else ""
            named = " ".join(filter(None, (what, scope)))
            with progress(self._log, named, len(tasks), self.run) as advance:
                return run_all(self._client, task, tasks, advance)

        return run_tasks


@contextlib.contextmanager
def progress(log: Log, what: str, total: int, run: str | None = None) -> Iterator[Callable[[], None]]:
    """Give a function that marks one task done: a bar on a terminal, one line at the end in batch."""
    told = f"{run}: {what}" if run else what
    if not log.is_terminal:
        yield lambda: None
        log.milestone(what, f"{told}: {total} done", n_tasks=total, **({"run": run} if run else {}))
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=log.console,
        transient=True,
    ) as progress:
        bar = progress.add_task(told, total=total)
        yield lambda: progress.advance(bar)


_MOST_STEP = 10**15
"""No marker has a greater number."""


def check_step(step: int | None) -> None:
    """Refuse what is no step's number.

    Raises:
        UsageError: It is below 0 or too large.
    """
    if step is not None and not 0 <= step <= _MOST_STEP:
        raise UsageError(f"--step {step} is no step's number", "Give one that the run has, as --step 104.")


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
