"""Two runs of a job side by side as plain data: which part of a step grew, and whether by more than noise."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import duckdb
import polars as pl

from longpole import config
from longpole.report import answers
from longpole.store import Manifest

MAX_ITEMS = 40
"""Parts of one dimension that are listed, those beyond the noise first."""

MAX_KERNELS_BESIDE = 15
"""Kernels that are listed with their time beside comm and alone."""


@dataclass(frozen=True)
class Head:
    """The row of sql/pages/compare_head.sql, whose header says what each value means."""

    baseline: str
    run: str
    baseline_steps: int
    n_steps: int
    baseline_ranks: int | None
    n_ranks: int | None
    baseline_device: str | None
    device: str | None
    baseline_ns: int | None
    value_ns: int | None
    change_ns: int | None
    change_ratio: float | None
    noise_ns: int | None
    verdict: str
    reasons: tuple[str, ...]
    cause_item: str | None
    cause_ns: int | None
    cause_ratio: float | None
    cause: str | None
    contention_ns: int
    other_kernels_ns: int
    calls_ns: int
    waits_ns: int
    transfers_ns: int
    alike_ratio: float | None
    n_changed: int


@dataclass(frozen=True)
class Part:
    """A row of sql/pages/compare_parts.sql."""

    dimension: str
    place: int
    item: str
    kind: str | None
    baseline_ns: int
    value_ns: int
    change_ns: int
    change_ratio: float | None
    step_ratio: float | None
    noise_ns: int | None
    verdict: str
    baseline_calls_per_step: float | None
    calls_per_step: float | None
    n_items: int
    n_changed: int

    @property
    def is_changed(self) -> bool:
        """Whether it changed beyond the noise, came or went."""
        return self.verdict in ("grew", "shrank", "appeared", "vanished")


@dataclass(frozen=True)
class Contention:
    """A row of sql/pages/compare_contention.sql."""

    name: str
    baseline_beside_ns: int | None
    baseline_alone_ns: int | None
    baseline_contention_ns: int
    beside_ns: int | None
    alone_ns: int | None
    contention_ns: int
    change_ns: int
    noise_ns: int | None
    verdict: str
    n_names: int


@dataclass(frozen=True)
class Comparison:
    """Everything that is told; `steps` is the answer of compare_steps."""

    head: Head
    parts: tuple[Part, ...]
    contention: tuple[Contention, ...]
    steps: pl.DataFrame

    def of(self, dimension: str) -> tuple[Part, ...]:
        """Return the parts of one way to take a step apart, in their order."""
        return tuple(part for part in self.parts if part.dimension == dimension)


def build(con: duckdb.DuckDBPyConnection, baseline: Manifest, run: Manifest) -> Comparison:
    """Return the comparison of a run with its baseline, both of the store behind `con`."""
    names = {"run": run.run, "baseline": baseline.run}
    workloads = {"workload": _workload(run), "baseline_workload": _workload(baseline)}
    (head,) = answers.rows(con, "compare_head", **names, **workloads)
    parts = answers.rows(con, "compare_parts", **names, max_items=MAX_ITEMS)
    contention = answers.rows(con, "compare_contention", **names, max_items=MAX_KERNELS_BESIDE)
    return Comparison(
        head=Head(**head | {"reasons": tuple(head["reasons"])}),
        parts=tuple(Part(**row) for row in parts),
        contention=tuple(Contention(**row) for row in contention),
        steps=answers.frame(con, "compare_steps", **names),
    )


def json_text(comparison: Comparison) -> str:
    """Return the comparison as one JSON object, ASCII; its keys are documented in the README."""
    parts = [asdict(part) for part in comparison.parts]
    contention = [asdict(row) for row in comparison.contention]
    return json.dumps({**asdict(comparison.head), "parts": parts, "contention": contention}, indent=1)


def _workload(manifest: Manifest) -> str | None:
    """Return what the run's config says of its work; None where it says nothing."""
    return config.parse(manifest.config, "config.toml").workload()
