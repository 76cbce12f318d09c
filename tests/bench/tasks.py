"""What the benchmarks time, one whole process each: `python tasks.py NAME ARGUMENT...` prints what it found as JSON.

Imports stand inside the functions: a process pays for what its own task needs, and peers live in another environment.
Seconds that a task prints are CPU seconds of its parts; what the whole process takes is measured from outside.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Found = dict[str, Any]


def stdlib_json(dump: str, folder: str) -> Found:
    """Parse the whole dump with the standard library; nothing is done with it."""
    import gzip

    with gzip.open(dump) as file:
        events = json.load(file)["traceEvents"]
    return {"n_events": len(events)}


def orjson_parse(dump: str, folder: str) -> Found:
    """Parse the whole dump with orjson; nothing is done with it."""
    import gzip

    import orjson  # type: ignore[import-not-found,unused-ignore]

    with gzip.open(dump) as file:
        events = orjson.loads(file.read())["traceEvents"]
    return {"n_events": len(events)}


def duckdb_json(dump: str, folder: str) -> Found:
    """Read the dump with DuckDB's read_json, whose types are its guess, and write the events to Parquet."""
    import duckdb

    con = duckdb.connect()
    con.execute("SET threads = 2")
    con.execute(f"SET temp_directory = '{folder}'")
    read = f"read_json('{dump}', maximum_object_size = 2147483647)"
    row = con.execute(
        f"COPY (SELECT unnest(traceEvents, recursive := false) AS event FROM {read})"
        f" TO '{folder}/events.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
    ).fetchone()
    return {"n_events": row[0] if row else 0}


def hta_parse(dump: str, folder: str) -> Found:
    """Parse the dump to a pandas frame with HolisticTraceAnalysis' default parser."""
    from hta.common.trace_parser import parse_trace_dataframe  # type: ignore[import-not-found]
    from hta.configs.parser_config import ParserConfig  # type: ignore[import-not-found]

    _, frame, _ = parse_trace_dataframe(dump, ParserConfig.get_default_cfg())
    return {"n_rows": len(frame)}


def hta_load(dump: str, folder: str) -> Found:
    """Load the dump as HolisticTraceAnalysis' users do, before any analysis."""
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

    analysis = TraceAnalysis(trace_files={0: dump}, trace_dir=str(Path(dump).parent))
    return {"n_rows": len(analysis.t.get_trace(0))}


def hta_set(folder: str) -> Found:
    """Load every rank of a folder with HolisticTraceAnalysis, its overlap, and each rank's path of its first step."""
    import logging

    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.WARNING)  # an edge that it ignores is a line each
    paths = {rank: str(path) for rank, path in enumerate(sorted(Path(folder).glob("*.json*")))}
    took = {}
    before = _cpu()
    analysis = TraceAnalysis(trace_files=paths, trace_dir=folder)
    took["load_s"], before = _cpu() - before, _cpu()
    analysis.get_comm_comp_overlap(visualize=False)
    took["overlap_s"], before = _cpu() - before, _cpu()
    for rank in paths:
        analysis.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=0)
    return {**took, "path_s": _cpu() - before, "n_rank_steps": len(paths)}


def _cpu() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def reader(dump: str, folder: str) -> Found:
    """Read the dump with longpole's reader and write every row to Parquet."""
    from longpole.formats import ReadOptions
    from longpole.formats.canonical import open_writer
    from longpole.formats.kineto import KinetoReader

    with Path(dump).open("rb") as file, open_writer(f"{folder}/events.parquet") as writer:
        facts = KinetoReader().read(file, dump, writer.write_table, ReadOptions(threads=2))
    return {"n_events": facts.n_events, "n_rows": facts.n_stored, "n_dropped": facts.n_dropped}


def ingest(dump: str, folder: str) -> Found:
    """Take the dump into an empty store by the command line."""
    from longpole.cli import main

    code = main(["ingest", dump, "--store", f"{folder}/store", "--name", "bench"])
    if code:
        sys.exit(code)
    return {}


def report(store: str, run: str, page: str) -> Found:
    """Write a run's overview page by the command line."""
    from longpole.cli import main

    code = main(["report", run, "--store", store, "-o", page])
    if code:
        sys.exit(code)
    return {"n_bytes": Path(page).stat().st_size}


def longpole_set(dumps: str, folder: str) -> Found:
    """Ingest and analyze every rank of a folder, tasks one after the other: all facts, and every step's path."""
    from cost import run_stages

    meter, manifest = run_stages(Path(folder), [dumps])
    seconds = meter.seconds
    return {
        "load_s": seconds["read"],
        "facts_s": seconds["rank"],
        "path_s": sum(seconds[stage] for stage in ("rank", "clock", "steps", "path", "paths")),
        "n_rank_steps": sum(d.n_steps for d in manifest.dumps),
    }


def clocks(ranks: str, steps: str, collectives: str, n_files: str, with_paths: str = "") -> Found:
    """Run the tasks of the run level on made facts."""
    from run_level import measure

    sizes = (int(ranks), int(steps), int(collectives))
    took, peak = measure(*sizes, n_files=int(n_files), with_paths=bool(with_paths))
    return {"cpu_s": took.cpu_s, "wall_s": took.wall_s, "peak_bytes": peak}


def whatif(steps: str, replicas: str, stages: str, microbatches: str, folder: str) -> Found:
    """Answer every what-if of a made pipelined job by longpole's tasks and by a replay in plain Python."""
    from whatif import both

    sql, python = both(Path(folder), int(steps), int(replicas), int(stages), int(microbatches))
    apart = sum(sql.durations.get(answer) != duration for answer, duration in python.durations.items())
    return {
        "cpu_s": sql.cpu_s,
        "wall_s": sql.wall_s,
        "python_cpu_s": python.cpu_s,
        "python_wall_s": python.wall_s,
        "n_apart": apart,
    }


def queries(store: str, run: str, rank: str, step: str) -> Found:
    """Ask what one asks of a run while looking for something; the quickest of three counts."""
    from scale import ask

    return {told: (took.cpu_s, took.wall_s) for told, took, _ in ask(Path(store), run, int(rank), int(step))}


def growth(folder: str, *sizes: str) -> Found:
    """Make, ingest and analyze runs of sizes like 4x25, ranks x steps; CPU seconds of each, but for the making."""
    from cost import measure

    return {
        size: sum(measure(Path(folder) / size, *(int(n) for n in size.split("x")))[0].seconds.values())
        for size in sizes
    }


TASKS: dict[str, Callable[..., Found]] = {
    task.__name__: task
    for task in (stdlib_json, orjson_parse, duckdb_json, hta_parse, hta_load, hta_set, reader, ingest, longpole_set)
} | {task.__name__: task for task in (report, clocks, whatif, queries, growth)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
