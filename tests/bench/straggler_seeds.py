"""Stragglers of made runs over many seeds: how often the right ranks are named for the right cause, and nobody else.

Run as `python tests/bench/straggler_seeds.py [--seeds 200] [--sizes 3 5 10] [--cases compute link] [--processes 2]`.
Of jobs whose stragglers have no size nobody may be named; a rank that was late in one step alone, which
`straggler_ranks` calls chance, is not counted. Of the others, each thing put in has to be found on all of its ranks
with its cause, where it makes one step at least that much longer; the last column counts the runs that named, beyond
chance, a rank to which nothing was done.

To be quick, each rank writes one dump for several seeds: recordings far apart, of steps that do not follow each other.
It is ingested, and its rank's SQL runs once; what sees several ranks, from the clocks on, runs for each seed alone.
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

import duckdb
import pyarrow as pa

from longpole import catalog
from longpole.analyze import AnalyzeTask, Told, evaluate
from longpole.config import RunConfig
from longpole.discover import find
from longpole.engine import connection, reading
from longpole.formats.canonical import FACTS_KEY, facts_to_json, open_writer
from longpole.ingest import ingest_run
from longpole.store import Manifest, Store, dumps_table
from longpole.synth.made import MadeRun
from longpole.synth.stragglers import Case, make

T = TypeVar("T")
R = TypeVar("R")

N_RANKS = {"link": 8, "stage": 8}
"""Ranks of a job where they are not 4: hosts in pairs and stages of two are the smallest that have siblings."""

N_STEPS = 12
SEEDS_A_DUMP = 20
STEPS_APART, NS_APART, IDS_APART = 1_000, 10**12, 10**9
"""Between the recordings of two seeds in a dump: of steps, of time, and of what joins calls to what they launch."""

MEMORY = 1 << 30
CASES: tuple[Case, ...] = get_args(Case)
_FACTS = ("rank_windows", "rank_collectives", "rank_chains")


@dataclass(frozen=True)
class Task:
    """The runs of one dump a rank: their case, by how much a step gets longer, in hundredths, and their seeds."""

    case: Case
    percent: int
    seeds: range


@dataclass(frozen=True)
class Outcome:
    """What came of a run: how many things were put in and found, and who was named beside them, beyond chance."""

    case: str
    percent: int
    seed: int
    n_put_in: int
    n_found: int
    others: tuple[tuple[int, str], ...]


def outcomes(task: Task) -> list[Outcome]:
    """Make the runs, analyze them, and hold what each names to what was put in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [
            make(task.case, N_RANKS.get(task.case, 4), N_STEPS, seed=seed, size=task.percent / 100)
            for seed in task.seeds
        ]
        _write(runs, folder / "dumps")
        store = Store(str(folder / "store"))
        with store.lock("made"):
            manifest = ingest_run(store, "made", find([str(folder / "dumps")]), RunConfig(), "", run_tasks=_here)
        _rank_facts(store, manifest)
        found = []
        for number, (seed, run) in enumerate(zip(task.seeds, runs, strict=True)):
            # Sizes vary in some scenarios: of what is smaller than the size asked for, nothing is promised.
            every: list[dict[str, Any]] = list(run.lists["stragglers"]())
            rows = _stragglers(folder, dumps_table(manifest.dumps), number)
            found.append(_outcome(task, seed, every, rows))
    return found


def _outcome(task: Task, seed: int, every: list[dict[str, Any]], rows: list[tuple[int, str, str]]) -> Outcome:
    named = {(rank, cause) for rank, cause, _ in rows}
    guilty = {rank for straggler in every for rank in straggler["ranks"]}
    put_in = [straggler for straggler in every if straggler["largest_ratio"] >= task.percent / 100]
    return Outcome(
        task.case,
        task.percent,
        seed,
        len(put_in),
        sum(all((rank, straggler["cause"]) in named for rank in straggler["ranks"]) for straggler in put_in),
        tuple((rank, cause) for rank, cause, verdict in rows if rank not in guilty and verdict == "ok"),
    )


def _write(runs: Sequence[MadeRun], folder: Path) -> None:
    """Write a dump for each rank, in which the runs follow each other."""
    folder.mkdir()
    first = runs[0]
    writers = [open_writer(str(folder / f"rank{rank}.parquet")) for rank in range(len(first.facts))]
    n_rows = [0] * len(writers)
    con = duckdb.connect()
    con.execute("SET threads = 1")
    for number, run in enumerate(runs):
        for rank, table in run.chunks(range(len(writers))):
            moved = _moved(con, table, number)
            writers[rank].write_table(moved)
            n_rows[rank] += moved.num_rows
    for writer, facts, n in zip(writers, first.facts, n_rows, strict=True):
        told = facts_to_json(replace(facts, n_events=n, n_stored=n))
        writer.add_key_value_metadata({FACTS_KEY.decode(): told})
        writer.close()


def _moved(con: duckdb.DuckDBPyConnection, rows: pa.Table, number: int) -> pa.Table:
    """Return the rows with times, steps and ids that no other run of the dump has."""
    con.register("rows", rows)
    moved = con.sql(
        "SELECT * REPLACE (start_ns + $ns AS start_ns, CASE WHEN name LIKE 'ProfilerStep#%' THEN"
        " 'ProfilerStep#' || (substr(name, 14)::BIGINT + $steps) ELSE name END AS name,"
        " correlation_id + $ids AS correlation_id, external_id + $ids AS external_id,"
        " sequence_id + $ids AS sequence_id, wait_correlation_id + $ids AS wait_correlation_id) FROM rows",
        params={"ns": number * NS_APART, "steps": number * STEPS_APART, "ids": number * IDS_APART},
    ).to_arrow_table()
    return moved.cast(rows.schema)


def _rank_facts(store: Store, manifest: Manifest) -> None:
    """Evaluate each rank's SQL, as `longpole analyze` does."""
    for file in manifest.of("events"):
        dumps = tuple(dump for dump in manifest.dumps if dump.rank == file.rank)
        told = Told(dumps, figures=RunConfig().figures())
        read = (("events", (file.path,)), ("memory_events", ()))
        evaluate(AnalyzeTask(store.url, "made", "rank", read, told, "made", MEMORY, rank=file.rank))


def _stragglers(folder: Path, dumps: pa.Table, number: int) -> list[tuple[int, str, str]]:
    """Return rank, cause and verdict of the rows of straggler_ranks, of one run of the dumps."""
    first = number * STEPS_APART
    with connection(folder, MEMORY) as con:
        con.register("dumps", dumps)
        con.execute("CREATE TABLE topology (rank INTEGER, host VARCHAR, node VARCHAR, rack VARCHAR, rail VARCHAR)")
        con.execute("CREATE TABLE parallel (dp INTEGER, tp INTEGER, pp INTEGER, ep INTEGER, cp INTEGER)")
        con.execute(
            "CREATE TABLE shard AS SELECT $1::BIGINT AS first_step, $2::BIGINT AS last_step",
            [first, first + STEPS_APART - 1],
        )
        for fact in _FACTS:
            step = "step" if fact == "rank_windows" else "shard_step"
            # A run of its own has fewer than the sample that anchors are taken from, so each is one.
            columns = "* REPLACE (TRUE AS is_anchor)" if fact == "rank_collectives" else "*"
            files = str(folder / "store" / "runs" / "made" / "facts" / fact / "*.parquet")
            con.execute(
                f"CREATE TABLE {fact} AS SELECT {columns} FROM read_parquet($1) WHERE {step} // $2 = $3 ORDER BY ALL",
                [files, STEPS_APART, number],
            )
        con.execute(f"CREATE VIEW rank_telemetry AS {reading('rank_telemetry', [])}")
        given = {*_FACTS, "rank_telemetry", "dumps", "topology", "parallel", "shard", *catalog.data_names()}
        relations = catalog.leading_to(["straggler_ranks"], given)
        catalog.load_data_of(con, relations)
        for relation in relations:
            con.execute(f"CREATE TEMP TABLE {relation.name} AS {relation.sql}")
        rows: list[tuple[int, str, str]] = con.execute(
            "SELECT rank, cause, verdict FROM straggler_ranks ORDER BY rank"
        ).fetchall()
    return rows


def _here(task: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    return [task(one) for one in tasks]


def row(case: str, percent: int, found: Sequence[Outcome]) -> str:
    """Return the line of the table for the runs of one case and size."""
    n_put_in = sum(o.n_put_in for o in found)
    n_whole = sum(o.n_found == o.n_put_in for o in found)
    n_named = sum(bool(o.others) for o in found)
    shares = f"{sum(o.n_found for o in found):>7,} of {n_put_in:<7,}{n_whole / len(found):>8.1%}"
    return f"{case:<10}{percent:>5} %{len(found):>7}{shares if n_put_in else ' ' * 26}{n_named:>14}"


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
            parts = [seeds[n : n + SEEDS_A_DUMP] for n in range(0, len(seeds), SEEDS_A_DUMP)]
            done = pool.map(outcomes, [Task(case, percent, part) for part in parts], chunksize=1)
            found = [o for part in done for o in part]
            print(row(case, percent, found), flush=True)
            amiss += [o for o in found if o.n_found < o.n_put_in or o.others]
    print(f"{len(runs) * given.seeds:,} runs in {time.perf_counter() - began:,.0f} s")
    for one in amiss:
        named = ", ".join(f"rank {rank}: {cause}" for rank, cause in one.others) or "nobody"
        print(f"{one.case} {one.percent} % seed {one.seed}: {one.n_found} of {one.n_put_in} found; besides {named}")
    sys.exit(any(o.others for o in amiss if o.percent == 0))


if __name__ == "__main__":
    main()
