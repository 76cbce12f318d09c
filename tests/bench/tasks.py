"""What the benchmark times, one whole process each: `python tasks.py NAME DUMP FOLDER` prints what it found as JSON.

Imports stand inside the functions: a process pays for what its own task needs, and peers live in another environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

Found = dict[str, int]


def stdlib_json(dump: Path, folder: Path) -> Found:
    """Parse the whole dump with the standard library; nothing is done with it."""
    import gzip

    with gzip.open(dump) as file:
        events = json.load(file)["traceEvents"]
    return {"n_events": len(events)}


def hta_parse(dump: Path, folder: Path) -> Found:
    """Parse the dump to a pandas frame with HolisticTraceAnalysis' default parser."""
    from hta.common.trace_parser import parse_trace_dataframe  # type: ignore[import-not-found]
    from hta.configs.parser_config import ParserConfig  # type: ignore[import-not-found]

    _, frame, _ = parse_trace_dataframe(str(dump), ParserConfig.get_default_cfg())
    return {"n_rows": len(frame)}


def hta_load(dump: Path, folder: Path) -> Found:
    """Load the dump as HolisticTraceAnalysis' users do, before any analysis."""
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

    analysis = TraceAnalysis(trace_files={0: str(dump)}, trace_dir=str(dump.parent))
    return {"n_rows": len(analysis.t.get_trace(0))}


def reader(dump: Path, folder: Path) -> Found:
    """Read the dump with longpole's reader and write every row to Parquet."""
    from longpole.formats import ReadOptions
    from longpole.formats.canonical import open_writer
    from longpole.formats.kineto import KinetoReader

    with dump.open("rb") as file, open_writer(str(folder / "events.parquet")) as writer:
        facts = KinetoReader().read(file, str(dump), writer.write_table, ReadOptions(threads=2))
    return {"n_events": facts.n_events, "n_rows": facts.n_stored, "n_dropped": facts.n_dropped}


def ingest(dump: Path, folder: Path) -> Found:
    """Take the dump into an empty store by the command line."""
    from longpole.cli import main

    code = main(["ingest", str(dump), "--store", str(folder / "store"), "--name", "bench"])
    if code:
        sys.exit(code)
    return {}


TASKS: dict[str, Callable[[Path, Path], Found]] = {
    task.__name__: task for task in (stdlib_json, hta_parse, hta_load, reader, ingest)
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))))
