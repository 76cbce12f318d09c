"""What a night costs: core-seconds and bytes per million events, measured on a made run, and projected to a large job.

Run as `python tests/bench/cost.py [--ranks 8] [--steps 200] [--to-ranks 16384] [--to-steps 1000] [--cores 1024]`. Every
task runs in this process, one after another; its CPU time counts for its stage. A run of all the steps and one of a
quarter are measured, and what the first takes more is taken to grow as events do, so as ranks times steps. A stage
cannot use more cores than it has tasks: one a rank, one a shard of steps, or one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from measuring import Clock

from longpole.analyze import STEPS_PER_SHARD, analyze_run
from longpole.config import RunConfig
from longpole.discover import find
from longpole.ingest import ingest_run
from longpole.store import Manifest, Store
from longpole.synth import write

Level = Literal["ingest", "rank", "run"]

RUN = "bench"

STAGES: dict[str, tuple[Level, Literal["ranks", "shards", "one"]]] = {
    "read": ("ingest", "ranks"),
    "rank": ("rank", "ranks"),
    "path": ("rank", "ranks"),
    "clock": ("run", "one"),
    "steps": ("run", "shards"),
    "paths": ("run", "shards"),
    "run": ("run", "one"),
    "priced": ("run", "one"),
    "mfu": ("run", "one"),
    "measures": ("run", "one"),
}
"""Stages of a run, the level that each belongs to, and how many tasks it has."""


@dataclass
class Meter:
    """CPU seconds of tasks by stage."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def run_tasks(self, task: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Run the tasks here, one after another."""
        answers = []
        for one in tasks:
            with Clock() as took:
                answers.append(task(one))
            self.seconds[getattr(one, "scope", "read")] += took.cpu_s
        return answers


def measure(folder: Path, ranks: int, steps: int) -> tuple[Meter, Manifest, int]:
    """Return what the tasks of a made run took, its manifest, and the bytes of its dumps."""
    write("training", folder / "dumps", ranks=ranks, steps=steps, gzip=True)
    meter, manifest = run_stages(folder, [str(folder / "dumps")])
    return meter, manifest, sum(d.n_bytes for d in find([str(folder / "dumps")]))


def run_stages(folder: Path, dumps: Sequence[str]) -> tuple[Meter, Manifest]:
    """Return what the tasks of a run of these dumps took, and its manifest; the run is RUN in folder/store."""
    store, meter = Store(str(folder / "store")), Meter()
    with store.lock(RUN):
        ingest_run(store, RUN, find(list(dumps)), RunConfig(), "", run_tasks=meter.run_tasks)
        return meter, analyze_run(store, RUN, run_tasks=meter.run_tasks, has_what_ifs=False)


@dataclass(frozen=True)
class Costs:
    """What a million events add, beyond what a task costs whatever it holds: the difference of two runs."""

    seconds: dict[str, float]  # by stage
    dump_bytes: float
    store_bytes: dict[str, float]  # by events, facts, marts
    events_per_rank_step: float


def costs(small: tuple[Meter, Manifest, int], large: tuple[Meter, Manifest, int]) -> Costs:
    """Return the difference of two measurements per million events."""
    events = [sum(f.n_rows for f in manifest.of("events")) for _, manifest, _ in (small, large)]
    millions = (events[1] - events[0]) / 1e6

    def sizes(manifest: Manifest, top: str) -> int:
        return sum(f.n_bytes for f in manifest.files if f.path.startswith(top))

    return Costs(
        {stage: max(0.0, large[0].seconds[stage] - small[0].seconds[stage]) / millions for stage in STAGES},
        (large[2] - small[2]) / millions,
        {top: (sizes(large[1], top) - sizes(small[1], top)) / millions for top in ("events", "facts", "marts")},
        events[1] / sum(d.n_steps for d in large[1].dumps),
    )


def table(cost: Costs) -> list[str]:
    """Return the figures per million events, a line a level."""
    size = cost.store_bytes
    flows: dict[Level, tuple[float, float]] = {
        "ingest": (cost.dump_bytes, size["events"]),
        "rank": (2 * size["events"], size["facts"]),  # events are read for facts, and for the paths
        "run": (size["facts"], size["marts"]),
    }
    lines = ["per million events    core-s   MB read  MB written"]
    for level, (n_read, n_written) in flows.items():
        seconds = sum(cost.seconds[stage] for stage, (of, _) in STAGES.items() if of == level)
        name = level if level == "ingest" else f"{level} level"
        lines.append(f"{name:18}{seconds:10.2f}{n_read / 1e6:10.2f}{n_written / 1e6:12.2f}")
    return lines


def projection(cost: Costs, ranks: int, steps: int, cores: int) -> list[str]:
    """Return what a job of so many ranks and steps would take on so many cores, with the arithmetic."""
    millions = ranks * steps * cost.events_per_rank_step / 1e6
    n_tasks = {"ranks": ranks, "shards": -(-steps // STEPS_PER_SHARD), "one": 1}
    lines = [
        f"{ranks:,} ranks x {steps:,} steps x {cost.events_per_rank_step:,.0f} events = {millions:,.0f} million events;"
        f" dumps {millions * cost.dump_bytes / 1e12:,.2f} TB,"
        f" store {millions * sum(cost.store_bytes.values()) / 1e12:,.2f} TB",
        f"stage    core-s/M      core-s    tasks  s on {cores:,} cores",
    ]
    total, wall = 0.0, 0.0
    for stage, (_, kind) in STAGES.items():
        seconds = cost.seconds[stage] * millions
        took = seconds / min(cores, n_tasks[kind])
        total, wall = total + seconds, wall + took
        lines.append(f"{stage:8}{cost.seconds[stage]:9.3f}{seconds:12,.0f}{n_tasks[kind]:9,}{took:10,.0f}")
    return [*lines, f"{'all':17}{total:12,.0f}{'':9}{wall:10,.0f}"]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--to-ranks", type=int, default=16_384)
    parser.add_argument("--to-steps", type=int, default=1_000)
    parser.add_argument("--cores", type=int, default=1_024)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
        first = measure(Path(small), given.ranks, given.steps // 4)
        cost = costs(first, measure(Path(large), given.ranks, given.steps))
    print("\n".join([*table(cost), *projection(cost, given.to_ranks, given.to_steps, given.cores)]))


if __name__ == "__main__":
    main()
