"""What-if of an op timeline: the tasks of `longpole analyze` beside a replay of the same steps in plain Python.

Run as `python tests/bench/whatif.py [DUMP] [--steps 44]`. DUMP is an op timeline, such as a published one; without it
a job is made up: 4 replicas x 4 stages x 32 microbatches a step. Both get the ops as they are in the store, answer the
same scenarios for every step, and must agree to the nanosecond. CPU time is the figure to trust on a shared machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from measuring import Clock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from longpole import timelines
from longpole.config import RunConfig
from longpole.discover import find
from longpole.ingest import ingest_run
from longpole.store import PublishedFile, Store
from pipeline_inline import inline
from timeline_cases import pipeline, write_job
from timeline_reference import Op, graph_of, step_time, typical

MEMORY = 1 << 30
Answer = tuple[int, int]
"""Scenario and step."""


@dataclass(frozen=True)
class Measured:
    """What one way of answering took."""

    cpu_s: float
    wall_s: float
    n_ops: int
    durations: dict[Answer, int]


def make_job(path: Path, n_steps: int, n_dp: int, n_stages: int, n_microbatches: int) -> None:
    """Write an op timeline whose ops take 1 to 20 ms, by their place, and one replica of which is slow."""

    def takes(op: Op) -> int:
        spread = hash((op.step, op.dp_rank, op.stage, op.optype.startswith("forward"), op.seq_id)) % 19_000_000
        return 1_000_000 + spread + 15_000_000 * (op.dp_rank == 1 and op.optype.endswith("compute"))

    ops = [op for step in range(n_steps) for op in pipeline(n_dp, n_stages, n_microbatches, takes, step=step)]
    write_job(path, ops)


def by_sql(store: Store, run: str) -> Measured:
    """Return every scenario's step times as `longpole analyze` computes them, tasks one after the other here."""
    with Clock() as took:
        files = timelines.answers(store, store.manifest(run), {}, inline, MEMORY)
    found = _rows(store, run, files, "timeline_replays", "scenario, step, duration_ns")
    return Measured(
        took.cpu_s, took.wall_s, _n_ops(store, run), {(scenario, step): duration for scenario, step, duration in found}
    )


def _n_ops(store: Store, run: str) -> int:
    return sum(f.n_rows for f in store.manifest(run).of(timelines.TABLE))


def by_python(store: Store, run: str) -> Measured:
    """Return the same by replaying op after op; the slowest workers are taken from what SQL found."""
    manifest = store.manifest(run)
    columns = "dp_rank, stage, optype, seq_id, start_ns, duration_ns, coalesce(chunk, 0), model_chunk, microbatch, step"
    rows = _rows(store, run, manifest.of(timelines.TABLE), timelines.TABLE, columns)
    files = timelines.answers(store, manifest, {}, inline, MEMORY)
    scenarios = _rows(store, run, files, "timeline_scenarios", "scenario, change, dimension, group_key")
    slow = set(_rows(store, run, files, "timeline_workers", "dp_rank, stage", " WHERE is_slowest"))

    with Clock() as took:
        steps: dict[int, list[Op]] = {}
        for row in rows:
            is_pass = row[2].endswith("-compute")
            dp_rank, stage, optype, seq_id, start, duration, chunk, model_chunk, microbatch, number = row
            op = Op(
                *(dp_rank, stage, optype, seq_id, start, duration, chunk),
                model_chunk=model_chunk if is_pass else None,
                microbatch=microbatch if is_pass else None,
                step=number,
            )
            steps.setdefault(op.step, []).append(op)
        graphs = {step: graph_of(ops) for step, ops in steps.items()}
        ideal = typical(list(graphs.values()))
        durations = {
            (scenario, step): step_time(graph, ideal, _keeps(change, dimension, key, slow))
            for scenario, change, dimension, key in scenarios
            for step, graph in graphs.items()
        }
    return Measured(took.cpu_s, took.wall_s, len(rows), durations)


def _keeps(change: str, dimension: str | None, key: str | None, slow: set[tuple[int, int]]) -> Callable[[Op], bool]:
    def belongs(op: Op) -> bool:
        if dimension == "worker":
            return (op.dp_rank, op.stage) in slow
        return (op.group if dimension == "op_type" else str(getattr(op, str(dimension)))) == key

    if change in ("retimed", "ideal"):
        return lambda op: change == "retimed"
    return lambda op: belongs(op) == (change == "only")


def _rows(
    store: Store, run: str, files: Sequence[PublishedFile], table: str, columns: str, where: str = ""
) -> list[tuple[Any, ...]]:
    paths = [store.path("runs", run, f.path) for f in files if f.table == table]
    return duckdb.connect().execute(f"SELECT {columns} FROM read_parquet($1){where}", [paths]).fetchall()


def both(
    folder: Path, steps: int, replicas: int, stages: int, microbatches: int, dump: Path | None = None
) -> tuple[Measured, Measured]:
    """Return what longpole's tasks and what plain Python took and answered, of a dump or of a made job."""
    if dump is None:
        dump = folder / "trace-made.parquet"
        make_job(dump, steps, replicas, stages, microbatches)
    store = Store(str(folder / "store"))
    with store.lock("job"):
        ingest_run(store, "job", find([str(dump)]), RunConfig(), "", run_tasks=inline)
    return by_sql(store, "job"), by_python(store, "job")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where the two do not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=44)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=32)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        size = (given.steps, given.replicas, given.stages, given.microbatches)
        sql, python = both(Path(name), *size, dump=given.dump)
    n_steps = len({step for _, step in python.durations})
    n_scenarios = len({scenario for scenario, _ in python.durations})
    print(f"{sql.n_ops:,} ops in {n_steps} steps, {n_scenarios} scenarios of each")
    print(f"{'':<40} {'CPU s':>8} {'wall s':>8} {'CPU':>8}")
    for way, took in (("plain Python, op by op", python), ("longpole, tasks one after the other", sql)):
        print(f"{way:<40} {took.cpu_s:8.2f} {took.wall_s:8.2f} {took.cpu_s / python.cpu_s:8.2f}")
    apart = sum(sql.durations.get(answer) != duration for answer, duration in python.durations.items())
    print(f"{apart} of {len(python.durations):,} step times differ")
    return int(apart > 0 or sql.durations.keys() != python.durations.keys())


if __name__ == "__main__":
    sys.exit(main())
