"""Stragglers of made runs over many seeds: how often the right ranks are named for the right cause, and nobody else.

Run as `python tests/bench/straggler_seeds.py [--seeds 200] [--sizes 3 5 10] [--cases compute link] [--processes 2]`.
A run of each scenario is made from each seed, taken in and analyzed as `longpole run` does it, in this process and
without the critical paths. Of jobs whose stragglers have no size nobody may be named; a rank that was late in one step
alone, which `run_stragglers` calls chance, is not counted. Of the others, each thing put in has to be found on all of
its ranks with its cause; the last column counts the runs that named, beyond chance, a rank to which nothing was done.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from longpole.analyze import analyze_run
from longpole.config import RunConfig
from longpole.discover import find
from longpole.formats.canonical import FACTS_KEY, facts_to_json, open_writer
from longpole.ingest import ingest_run
from longpole.session import Session
from longpole.store import Store
from longpole.synth.made import MadeRun
from longpole.synth.stragglers import Case, make

T = TypeVar("T")
R = TypeVar("R")

N_RANKS = {"link": 8, "stage": 8}
"""Ranks of a job where they are not 4: hosts in pairs and stages of two are the smallest that have siblings."""

N_STEPS = 12
CASES: tuple[Case, ...] = get_args(Case)


@dataclass(frozen=True)
class Task:
    """One run to be made: its case, by how much a step gets longer, in hundredths, and its seed."""

    case: Case
    percent: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What came of it: how many things were put in and found, and who was named beside them, beyond chance."""

    task: Task
    n_put_in: int
    n_found: int
    others: tuple[tuple[int, str], ...]


def outcome(task: Task) -> Outcome:
    """Make the run, analyze it, and hold what it names to what was put in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = make(task.case, N_RANKS.get(task.case, 4), N_STEPS, seed=task.seed, size=task.percent / 100)
        _write(made, folder / "dumps")
        put_in: list[dict[str, Any]] = list(made.lists["stragglers"]())
        store = Store(str(folder / "store"))
        with store.lock("made"):
            ingest_run(store, "made", find([str(folder / "dumps")]), RunConfig(), "", run_tasks=_here)
            analyze_run(store, "made", run_tasks=_without_paths)
        with Session(store) as session:
            rows = session.con.execute("SELECT rank, cause, verdict FROM run_stragglers ORDER BY rank").fetchall()
    found = {(rank, cause) for rank, cause, _ in rows}
    guilty = {rank for straggler in put_in for rank in straggler["ranks"]}
    return Outcome(
        task,
        len(put_in),
        sum(all((rank, straggler["cause"]) in found for rank in straggler["ranks"]) for straggler in put_in),
        tuple((rank, cause) for rank, cause, verdict in rows if rank not in guilty and verdict == "ok"),
    )


def _write(made: MadeRun, folder: Path) -> None:
    folder.mkdir()
    rows = [0] * len(made.facts)
    writers = [open_writer(str(folder / f"rank{rank}.parquet")) for rank in range(len(rows))]
    for rank, table in made.chunks():
        writers[rank].write_table(table)
        rows[rank] += table.num_rows
    for writer, facts, n in zip(writers, made.facts, rows, strict=True):
        told = facts_to_json(replace(facts, n_events=n, n_stored=n))
        writer.add_key_value_metadata({FACTS_KEY.decode(): told})
        writer.close()


def _here(task: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    return [task(one) for one in tasks]


def _without_paths(task: Callable[[T], list[R]], tasks: Sequence[T]) -> list[list[R]]:
    return [task(one) for one in tasks if getattr(one, "scope", "") not in ("path", "paths")]


def row(case: str, percent: int, outcomes: Sequence[Outcome]) -> str:
    """Return the line of the table for the runs of one case and size."""
    n_put_in = sum(o.n_put_in for o in outcomes)
    whole = sum(o.n_found == o.n_put_in for o in outcomes)
    named = sum(bool(o.others) for o in outcomes)
    found = f"{sum(o.n_found for o in outcomes):>7,} of {n_put_in:<7,}{whole / len(outcomes):>8.1%}"
    return f"{case:<10}{percent:>5} %{len(outcomes):>7}{found if n_put_in else ' ' * 26}{named:>14}"


def main() -> None:
    """Print the table, and every run that was not as it should be below it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sizes", type=int, nargs="*", default=[3, 5, 10], help="hundredths of the step")
    parser.add_argument("--cases", choices=CASES, nargs="*", default=list(CASES))
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()

    runs = [(case, 0) for case in given.cases if case in ("healthy", "link", "stage")]
    runs += [(case, size) for size in given.sizes for case in given.cases if case != "healthy"]
    seeds = range(given.first, given.first + given.seeds)
    print(f"{'case':<10}{'size':>7}{'runs':>7}{'found, of put in':>18}{'in runs':>8}{'others named':>14}", flush=True)
    amiss: list[Outcome] = []
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for case, percent in runs:
            outcomes = pool.map(outcome, [Task(case, percent, seed) for seed in seeds], chunksize=1)
            print(row(case, percent, outcomes), flush=True)
            amiss += [o for o in outcomes if o.n_found < o.n_put_in or o.others]
    print(f"{len(runs) * given.seeds:,} runs in {time.perf_counter() - began:,.0f} s")
    for one in amiss:
        named = ", ".join(f"rank {rank}: {cause}" for rank, cause in one.others) or "nobody"
        print(f"{one.task}: {one.n_found} of {one.n_put_in} found; beside them {named}")
    sys.exit(any(o.others for o in amiss if o.task.percent == 0))


if __name__ == "__main__":
    main()
