"""Ingest and analyze in this process, without a cluster: task functions are plain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from longpole.analyze import analyze_run
from longpole.cli import options
from longpole.config import RunConfig, parse
from longpole.discover import find
from longpole.ingest import ingest_run
from longpole.store import Manifest, Store

T = TypeVar("T")

Done = list[tuple[str, str, int | None, int | None]]
"""Tasks that ran: function, scope or file, rank, first step."""


def inline(task: Callable[[Any], T], tasks: Sequence[Any]) -> list[T]:
    """Run the task function over the tasks, here."""
    return [task(t) for t in tasks]


def inline_commands(monkeypatch: pytest.MonkeyPatch) -> Done:
    """Have commands run their tasks here; return the list that tasks enter as they run."""
    ran: Done = []

    def runner(self: options.Work, what: str) -> Callable[[Callable[[Any], T], Sequence[Any]], list[T]]:
        def run(task: Callable[[Any], T], tasks: Sequence[Any]) -> list[T]:
            for t in tasks:
                name = Path(t.dump.name).name if task.__name__ == "read_dump" else getattr(t, "scope", "whatif")
                ran.append((task.__name__, name, getattr(t, "rank", None), getattr(t, "first_step", None)))
            return inline(task, tasks)

        return run

    monkeypatch.setattr(options.Work, "runner", runner)
    return ran


def make_run(
    store: Store,
    run: str,
    dumps: Sequence[Path | str],
    *,
    config: str = "",
    rank_pattern: str | None = None,
    has_what_ifs: bool = False,
) -> Manifest:
    """Return the manifest of a run made of these dumps, analyzed."""
    settings = parse(config, "run.toml") if config else RunConfig()
    with store.lock(run):
        ingest_run(
            store, run, find([str(d) for d in dumps]), settings, config, run_tasks=inline, rank_pattern=rank_pattern
        )
        return analyze_run(store, run, run_tasks=inline, has_what_ifs=has_what_ifs)
