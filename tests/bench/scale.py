"""A large made run end to end: written on Dask without JSON, read, analyzed, drawn, asked; and one rank of it as text.

    python tests/bench/scale.py [--ranks 64] [--steps 2000] [--folder DIR]

Each stage is the command that a user would give, in processes of its own, with the default memory budget. The
queries are what one asks of a run while looking for something; each is asked in this process, as `longpole.api` does,
three times, and the quickest counts. The rank that goes through JSON must give the very facts of the rank that did not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
from measuring import Clock, Ran, machine
from measuring import run as run_command

from longpole.api import open_store
from longpole.cluster import DEFAULT_TASK_MEMORY
from longpole.store import Store
from longpole.synth import Part, write_part
from longpole.units import bytes_text

SCENARIO = "graphs"
MOST_QUERY_S = 1.0
BESIDE_DUCKDB_BYTES = 512 << 20
"""Of a worker beyond what DuckDB may hold: the interpreter and its modules, and Arrow's buffers."""

COMPARED = ("rank_windows", "rank_captures", "rank_collectives", "kernels", "phases")
"""Facts of a rank that must not depend on what its dump was written as."""

QUERIES: dict[str, str] = {
    "one step of one rank, its events": "SELECT category, name, start_ns, duration_ns FROM events"
    " WHERE rank = $rank AND step = $step ORDER BY start_ns",
    "kernels of one step of one rank": "SELECT name, count(*), sum(duration_ns) FROM events"
    " WHERE rank = $rank AND step = $step AND category = 'kernel' GROUP BY name ORDER BY 3 DESC",
    "one step of all ranks, idle by cause": "FROM rank_steps WHERE step = $step ORDER BY rank",
    "one kernel's median over steps, one rank": "SELECT name, median(total_ns / n_calls) FROM kernels"
    " WHERE rank = $rank AND name ILIKE '%flash_fwd%' GROUP BY name",
    "one kernel's median of all its calls, one rank": "SELECT name, count(*), median(duration_ns) FROM events"
    " WHERE rank = $rank AND category = 'kernel' AND name ILIKE '%flash_fwd%' GROUP BY name",
    "step times and their percentiles": "SELECT quantile_cont(duration_ns, [0.5, 0.95, 0.99]) FROM steps",
    "slowest steps": "SELECT step, duration_ns, straggler_rank FROM steps ORDER BY duration_ns DESC LIMIT 10",
    "stragglers": "FROM run_stragglers ORDER BY late_ns DESC LIMIT 10",
    "one rank's steps": "SELECT step, idle_ns, exposed_comm_ns FROM rank_steps WHERE rank = $rank ORDER BY step",
    "collectives of one step": "FROM collectives WHERE step = $step ORDER BY seq, rank",
    "who waited, all ranks and steps": "SELECT rank, sum(wait_ns) FROM rank_steps GROUP BY rank ORDER BY 2 DESC",
    "critical path of one step": "FROM step_critical_path WHERE step = $step ORDER BY seq",
    "critical path by kind, all steps": "SELECT kind, sum(duration_ns) FROM step_path_kinds GROUP BY kind ORDER BY 2",
}


def ask(store: Path, name: str, rank: int, step: int) -> list[tuple[str, Clock, int]]:
    """Return each query's name, what the quickest of three took, and its rows; opening the session is not counted."""
    rows = []
    with open_store(str(store)) as opened:
        opened.query("SELECT 1", run=name)
        for told, sql in QUERIES.items():
            values = {"rank": rank, "step": step}
            given = {key: value for key, value in values.items() if f"${key}" in sql}
            took = []
            for _ in range(3):
                with Clock() as one:
                    found = opened.query(sql, run=name, parameters=given)
                took.append(one)
            rows.append((told, min(took, key=lambda one: one.wall_s), len(found)))
    return rows


def differing(store: Path, one: str, other: str, rank: int) -> tuple[int, int]:
    """Return how many facts of a rank the second of two runs has, and how many are in one of them only."""
    n_rows = n_apart = 0
    opened = Store(str(store))
    for table in COMPARED:
        paths = (
            [opened.path("runs", run, f.path) for f in opened.manifest(run).of(table) if f.rank == rank]
            for run in (one, other)
        )
        first, second = (f"(FROM read_parquet({of_run}))" for of_run in paths)
        found = (
            duckdb.connect()
            .execute(
                f"SELECT (SELECT count(*) FROM {second}), (SELECT count(*) FROM ({first} EXCEPT ALL {second})),"
                f" (SELECT count(*) FROM ({second} EXCEPT ALL {first}))"
            )
            .fetchall()[0]
        )
        n_rows, n_apart = n_rows + found[0], n_apart + found[1] + found[2]
    return n_rows, n_apart


def stage(name: str, argv: Sequence[str | Path]) -> Ran:
    """Run a command of longpole's, print its row, and stop where it fails."""
    ran = run_command([sys.executable, "-m", "longpole", *argv])
    if ran.reason:
        raise SystemExit(f"longpole {argv[0]}: {ran.reason}")
    sizes = (bytes_text(n) for n in (ran.driver_bytes, ran.worker_bytes, ran.temporary_bytes))
    print(f"{name:24}{ran.cpu_s:10.1f}{ran.wall_s:10.1f}" + "".join(f"{size:>12}" for size in sizes), flush=True)
    return ran


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the stages, the queries and whether the text of a rank agrees; 1 where it does not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--folder", type=Path, help="where to work; without it a temporary folder")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        return measure(Path(name), given.ranks, given.steps)


def measure(folder: Path, ranks: int, steps: int) -> int:
    """Do it all in the folder; 1 where the rank that went through JSON has other facts."""
    store = folder / "store"
    where: list[str | Path] = ["--store", store]
    size: list[str | Path] = ["--ranks", str(ranks), "--steps", str(steps)]
    print(f"{SCENARIO}: {ranks} ranks x {steps} steps; {machine()}; {bytes_text(DEFAULT_TASK_MEMORY)} a task")
    print(f"{'':24}{'CPU s':>10}{'wall s':>10}{'driver':>12}{'worker':>12}{'temporary':>12}")
    stages = [
        stage("synth --as events", ["synth", SCENARIO, "--as", "events", *size, "-o", folder / "dumps"]),
        stage("ingest", ["ingest", folder / "dumps", "--name", "scale", *where]),
        stage("analyze", ["analyze", "scale", "--no-what-if", *where]),
        stage("report", ["report", "scale", "-o", folder / "scale.html", *where]),
    ]
    manifest = Store(str(store)).manifest("scale")
    events = [store / "runs" / "scale" / f.path for f in manifest.of("events")]
    n_events = sum(f.n_rows for f in manifest.of("events"))
    wanted = "category IN ('kernel', 'memcpy', 'memset')"
    counted = (
        duckdb.connect()
        .execute(f"SELECT count(*) FROM read_parquet({[str(p) for p in events]}) WHERE {wanted}")
        .fetchall()
    )
    budget = DEFAULT_TASK_MEMORY + BESIDE_DUCKDB_BYTES
    worker = max(ran.worker_bytes for ran in stages)
    print(
        f"{n_events:,} events, {counted[0][0]:,} of them device activities; store"
        f" {bytes_text(sum(f.n_bytes for f in manifest.files))}, of it events"
        f" {bytes_text(sum(f.n_bytes for f in manifest.of('events')))}; page"
        f" {bytes_text((folder / 'scale.html').stat().st_size)}"
    )
    print(f"largest worker {bytes_text(worker)} of {bytes_text(budget)}: {worker / budget:.0%}")
    print(f"CPU {sum(r.cpu_s for r in stages):,.0f} s, wall {sum(r.wall_s for r in stages):,.0f} s")

    rank, step = ranks // 2, 100 + steps // 2
    print(f"\n{'query':48}{'CPU s':>8}{'wall s':>8}{'rows':>10}   limit {MOST_QUERY_S:.0f} s")
    for told, one, n_rows in ask(store, "scale", rank, step):
        over = "" if one.wall_s < MOST_QUERY_S else "over"
        print(f"{told:48}{one.cpu_s:8.3f}{one.wall_s:8.3f}{n_rows:10,}   {over}".rstrip(), flush=True)

    (folder / "text").mkdir()
    with Clock() as took:
        (text,) = write_part(Part(SCENARIO, str(folder / "text"), "kineto", ranks, steps, True, None, (rank,)))
    print(f"\nrank {rank} as JSON, {bytes_text(text.stat().st_size)} compressed")
    print(f"{'written':24}{took.cpu_s:10.1f}{took.wall_s:10.1f}")
    stage("ingest", ["ingest", text, "--name", "text", *where])
    stage("analyze", ["analyze", "text", "--no-what-if", *where])
    n_rows, n_apart = differing(store, "scale", "text", rank)
    print(f"{n_rows:,} facts of rank {rank}, {n_apart} differ")
    return int(n_apart > 0 or n_rows == 0)


if __name__ == "__main__":
    sys.exit(main())
