"""How fast a dump becomes events, beside the peer that people use today: whole processes, one dump, one table.

    python tests/bench/ingest.py [--megabytes 340] [--peers] [--repeat 3]

Wall time is the least of the repeats, CPU time (user and system, of the whole process tree) that of the same repeat.
On a machine that others use, CPU time is the figure to trust.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from make_dump import make_dump

HERE = Path(__file__).resolve().parent
PIPELINE = HERE.parents[1] / "pipeline"
PEER = ["HolisticTraceAnalysis==0.5.0", "pandas<3"]
"""With pandas 3, which pip would take, the peer's critical path fails."""

BASE = "hta_load"
"""The row that the others are measured against: what a user of the peer waits for."""

NAMES = {
    "hta_load": "HolisticTraceAnalysis 0.5.0, TraceAnalysis(...)",
    "hta_parse": "HolisticTraceAnalysis 0.5.0, parse only",
    "stdlib_json": "json of the standard library, parse only",
    "reader": "longpole, reader: dump in, Parquet out",
    "ingest": "longpole ingest, whole command",
}
MOST_CPU, MOST_WALL, MOST_RSS_MIB = 1 / 7, 1 / 12, 350
"""Design targets of the reader, against BASE on idle cores; the last whatever the size of the dump."""


@dataclass(frozen=True)
class Measured:
    """One row of the table; `reason` says why the rest is missing."""

    task: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    rss_mib: float = 0.0
    found: dict[str, int] | None = None
    reason: str = ""


def measure(task: str, python: Path, dump: Path, repeat: int) -> Measured:
    """Run the task `repeat` times, each in a process of its own and an empty folder, and return the quickest."""
    runs = []
    for _ in range(repeat):
        run = _once(task, python, dump)
        if run.reason:
            return run
        runs.append(run)
    return min(runs, key=lambda run: run.wall_s)


def _once(task: str, python: Path, dump: Path) -> Measured:
    environment = {**os.environ, "PYTHONPATH": str(PIPELINE)} if task in ("reader", "ingest") else {**os.environ}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = [str(python), str(HERE / "tasks.py"), task, str(dump), folder]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        # wait4 counts the process and all of its children that it waited for.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        lines = out.read().decode().splitlines()
        if process.returncode:
            last = (err.read().decode().strip().splitlines() or ["no message"])[-1]
            return Measured(task, reason=f"exit {process.returncode}: {last[:120]}")
    return Measured(
        task,
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        rss_mib=usage.ru_maxrss / 1024,
        found=json.loads(lines[-1]),
    )


def peer_python(folder: Path) -> tuple[Path | None, str]:
    """Return the interpreter of the peer's environment, made where it is not yet, or why there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PEER]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return None, f"not installed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:120]}"
    return python, ""


def table(rows: Sequence[Measured], n_bytes: int) -> str:
    """Return the rows as text, with their ratios to BASE where it was measured."""
    base = next((row for row in rows if row.task == BASE and not row.reason), None)
    lines = [
        f"{'':<48} {'wall s':>8} {'CPU s':>8} {'RSS MiB':>8} {'MB/s':>6} {'wall':>8} {'CPU':>8}",
    ]
    for row in rows:
        name = NAMES[row.task]
        if row.reason:
            lines.append(f"{name:<48} n/a: {row.reason}")
            continue
        ratios = f"{'':>8} {'':>8}"
        if base is not None:
            ratios = f"{_ratio(row.wall_s, base.wall_s):>8} {_ratio(row.cpu_s, base.cpu_s):>8}"
        rate = n_bytes / 1e6 / row.wall_s
        lines.append(f"{name:<48} {row.wall_s:8.2f} {row.cpu_s:8.2f} {row.rss_mib:8.0f} {rate:6.0f} {ratios}")
    target = f"{'':>8} {'':>8} {MOST_RSS_MIB:8d} {'':>6} {_ratio(MOST_WALL, 1):>8} {_ratio(MOST_CPU, 1):>8}"
    lines.append(f"{'target of the reader, at most':<48} {target}")
    lines.append(f"wall and CPU at the right: share of {NAMES[BASE]}; RSS: the largest process")
    return "\n".join(lines)


def _ratio(part: float, whole: float) -> str:
    return f"1/{whole / part:.1f}" if part < whole else f"{part / whole:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the dump, time the tasks, print the table; 0 whatever the figures are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=340, help="of text, uncompressed (10^6 bytes)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each of ours; peers run once")
    parser.add_argument("--peers", action="store_true", help="measure HolisticTraceAnalysis too")
    parser.add_argument("--peer-venv", type=Path, help="its environment; made where it does not exist")
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "rank3.pt.trace.json.gz"
        n_events, n_bytes = make_dump(dump, megabytes=options.megabytes)
        size = f"{n_bytes / 1e6:.1f} MB of text, {dump.stat().st_size / 1e6:.1f} MB compressed"
        print(f"{n_events:,} events, {size}, {os.cpu_count()} cores", flush=True)

        ours = Path(sys.executable)
        rows = []
        if options.peers:
            python, reason = peer_python(options.peer_venv or Path(folder) / "peer")
            for task in ("hta_load", "hta_parse"):
                rows.append(measure(task, python, dump, 1) if python else Measured(task, reason=reason))
        rows.append(measure("stdlib_json", ours, dump, 1))
        rows.append(measure("reader", ours, dump, options.repeat))
        rows.append(measure("ingest", ours, dump, options.repeat))
        print(table(rows, n_bytes))
        if options.json:
            report = {"n_events": n_events, "n_bytes": n_bytes, "rows": [asdict(row) for row in rows]}
            options.json.write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
