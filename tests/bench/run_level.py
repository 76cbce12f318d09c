"""Run level: groups, clocks, waits and steps of 64 ranks x 200 steps x 100 collectives, beside the limits set for it.

The facts are made up in SQL; the tasks are those that `longpole analyze` sends to its workers, in this process, and
their CPU time is what counts. The limits are for facts in one file. The same may come from a file for each rank, as a
store has them, and with critical paths: each collective hangs on the one before it, so that a step's path goes through
all of them.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
from measuring import Clock, peak_bytes

from longpole import catalog
from longpole.analyze import STEPS_PER_SHARD, AnalyzeTask, Told, evaluate
from longpole.engine import write_ordered
from longpole.store import DumpEntry, Manifest, Store

CPU_LIMIT_S = 3.0
MEMORY_LIMIT_BYTES = 1536 << 20
"""Limits set for 64 ranks x 200 steps x 100 collectives."""

STEP_NS = 100_000_000


def make_facts(folder: Path, ranks: int, steps: int, collectives: int, n_files: int) -> None:
    """Write the facts of a data-parallel job with pairs of ranks beside the world group, in so many files each."""
    con = duckdb.connect()
    con.execute(
        f"""
        CREATE TABLE made AS
        SELECT
            r.r::INTEGER AS rank, s.s::BIGINT AS step, k.k AS k,
            s.s * {STEP_NS} + k.k * {STEP_NS // (collectives + 1)} AS base_ns,
            hash(r.r, s.s, k.k) % 200000 AS early_ns, hash(s.s, k.k, r.r) % 2000 AS jitter_ns,
            CASE WHEN k.k % 4 = 3 THEN 'pair' ELSE 'world' END AS kind
        FROM range({ranks}) AS r (r), range({steps}) AS s (s), range({collectives}) AS k (k)
        """
    )
    world = "[" + ", ".join(str(r) for r in range(ranks)) + "]"
    pair = "'[' || rank // 2 * 2 || ', ' || rank // 2 * 2 + 1 || ']'"
    place = "row_number() OVER (PARTITION BY rank, kind ORDER BY step DESC, k DESC) - 1"
    values = {
        "rank": "rank", "capture": "0", "capture_last_step": str(steps - 1), "step": "step", "shard_step": "step",
        "activity_no": f"step * {collectives} + k", "name": "'ncclDevKernel_AllReduce_Sum_bf16'", "lane": "kind",
        "queue": "CASE kind WHEN 'world' THEN 'world' ELSE 'pair ' || rank // 2 END", "op": "'all_reduce'",
        "shape": "'all_reduce bf16'", "dtype": "'BFloat16'",
        "group_name": "CASE kind WHEN 'world' THEN '0' ELSE (1 + rank // 2)::VARCHAR END",
        "group_description": "kind",
        "group_ranks": f"CASE kind WHEN 'world' THEN '{world}' ELSE {pair} END",
        "group_size": f"CASE kind WHEN 'world' THEN {ranks} ELSE 2 END", "seq": "NULL", "seq_place": "NULL",
        "from_end": place,
        "in_step": "row_number() OVER (PARTITION BY rank, kind, step ORDER BY k) - 1", "has_end": "TRUE",
        "is_anchor": f"({place}) % 64 = 0",
        "n_bytes": "1000000", "arrival_ns": "base_ns - early_ns", "end_ns": "base_ns + 300000 + jitter_ns",
        "exposed_ns": "1000",
    }  # fmt: skip
    listed = catalog.relations()["rank_collectives"].columns
    columns = ", ".join(f"({values.get(c.name, 'NULL')})::{c.type} AS {c.name}" for c in listed)
    _write(con, f"SELECT {columns} FROM made", "rank, step, activity_no", folder, "c", n_files)
    known = {
        "rank": "rank", "capture": "0", "step": "step", "start_ns": f"step * {STEP_NS}",
        "end_ns": f"(step + 1) * {STEP_NS} + rank", "duration_ns": str(STEP_NS), "verdict": "'ok'",
    }  # fmt: skip
    columns = ", ".join(
        f"({known.get(c.name, '0')})::{c.type} AS {c.name}" for c in catalog.relations()["rank_windows"].columns
    )
    _write(con, f"SELECT {columns} FROM made WHERE k = 0", "rank, step", folder, "w", n_files)
    chains = f"""
        SELECT
            rank, NULL::BIGINT AS step, step * {collectives} + k AS activity_no, step AS shard_step,
            step * {collectives} + k - 1 AS root_no,
            lag(base_ns + 300000 + jitter_ns) OVER (PARTITION BY rank ORDER BY step, k) AS root_ns
        FROM made
        QUALIFY root_ns IS NOT NULL
        UNION ALL
        SELECT
            rank, step, NULL AS activity_no, step AS shard_step, step * {collectives} + k AS root_no,
            base_ns + 300000 + jitter_ns AS root_ns
        FROM made
        WHERE k = {collectives} - 1
    """
    _write(con, chains, "rank, shard_step, activity_no, step", folder, "h", n_files)


def _write(con: duckdb.DuckDBPyConnection, select: str, order: str, folder: Path, name: str, n_files: int) -> None:
    con.execute(f"CREATE TABLE {name} AS {select}")
    for n in range(n_files):
        write_ordered(con, f"FROM {name} WHERE rank % {n_files} = {n}", order, folder / f"{name}{n}.parquet")


def measure(
    ranks: int, steps: int, collectives: int, *, n_files: int = 1, with_paths: bool = False
) -> tuple[Clock, int]:
    """Return the seconds of the clock task and all step tasks, and the peak bytes of this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Store(str(folder / "store"))
        store.publish(Manifest(run="bench"))
        run = folder / "store" / "runs" / "bench"
        facts = (run, ranks, steps, collectives, n_files)
        child = multiprocessing.get_context("spawn").Process(target=make_facts, args=facts)
        child.start()  # a process of its own: what making them takes is not measured
        child.join()
        if child.exitcode:
            raise SystemExit("the facts could not be made")
        dumps = tuple(
            DumpEntry(dump=f"{r}", path=f"{r}.json", n_bytes=1, rank=r, world_size=ranks, host=f"h{r // 8}")
            for r in range(ranks)
        )
        given = {
            "rank_collectives": tuple(f"c{n}.parquet" for n in range(n_files)),
            "rank_windows": tuple(f"w{n}.parquet" for n in range(n_files)),
            "rank_chains": tuple(f"h{n}.parquet" for n in range(n_files)) if with_paths else (),
            "rank_telemetry": (),
        }
        catalog.relations()  # parsed once in a process, as modules are imported
        sample = (("rank_collectives", given["rank_collectives"]),)
        with Clock() as took:
            clocks = evaluate(AnalyzeTask(store.url, "bench", "clock", sample, Told(dumps), "x", 1 << 30))
            tables = (*given.items(), *((f.table, (f.path,)) for f in clocks))
            for first in range(0, steps, STEPS_PER_SHARD):
                task = AnalyzeTask(store.url, "bench", "steps", tables, Told(), f"x{first}", 1 << 30)
                evaluate(replace(task, first_step=first, last_step=first + STEPS_PER_SHARD - 1))
        return took, peak_bytes()
