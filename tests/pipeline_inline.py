"""Ingest and analyze in this process, without a cluster: task functions are plain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from longpole.analyze import analyze_run
from longpole.config import RunConfig, parse
from longpole.discover import find
from longpole.ingest import ingest_run
from longpole.store import Manifest, Store

T = TypeVar("T")


def inline(task: Callable[[Any], T], tasks: Sequence[Any]) -> list[T]:
    """Run the task function over the tasks, here."""
    return [task(t) for t in tasks]


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
