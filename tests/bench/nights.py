"""What nights of many runs cost: the first does all, the second nothing, the third what one grown run touches.

Run as `python tests/bench/nights.py [--runs 20] [--ranks 4] [--steps 20] [--traces DIR]`. Each night is a process of
its own, as a batch system starts it, and its CPU seconds are those of its workers too. The ROOT has as many made runs
as said, of three jobs, and each run of a folder of real dumps; before the third night a rank gets a second capture.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measuring import run

from longpole.synth import write

JOBS = ("healthy", "straggler-compute", "slow-exchange")
"""Scenarios of the made runs, in turn: each is a job with runs before it to be compared with."""

GROWING = "made-00"


@dataclass(frozen=True)
class Night:
    """What one night took and did."""

    wall: float
    cpu: float
    code: int
    statuses: dict[str, int]
    tasks: dict[str, int]
    """Tasks by what they did, over all runs."""


def make_root(root: Path, runs: int, ranks: int, steps: int) -> None:
    """Write the made runs."""
    for number in range(runs):
        folder, job = root / f"made-{number:02}", JOBS[number % len(JOBS)]
        write(job, folder, ranks=ranks, steps=steps, gzip=True, seed=number)
        (folder / "run.toml").write_text(f'[run]\njob = "{job}"\n')


def copy_real(traces: Path, root: Path) -> None:
    """Copy each run of a folder of real dumps: a folder of ranks, one dump, or an op timeline with its metadata."""
    for folder in sorted(p for p in traces.iterdir() if p.is_dir()):
        if folder.name == "single":
            for dump in sorted(folder.iterdir()):
                _copy(root / dump.name.split(".")[0], dump)
        elif folder.name == "straggler-whatif":
            for timeline in sorted(folder.glob("trace-*.parquet")):
                job = timeline.stem.removeprefix("trace-")
                _copy(root / f"timeline-{job}", timeline, folder / f"meta-{job}.yaml")
        elif folder.name == "flight-recorder":
            for case in sorted(p for p in folder.iterdir() if p.is_dir()):
                _copy(root / f"flight-{case.name}", *sorted(case.iterdir()))
        else:
            _copy(root / folder.name, *sorted(p for p in folder.iterdir() if p.is_file()))


def _copy(folder: Path, *files: Path) -> None:
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy2(file, folder / file.name)


def grow(root: Path) -> Path:
    """Write a second capture of one rank of the growing run: its dump a thousand steps and a minute later."""
    dump = root / GROWING / "rank1.pt.trace.json.gz"
    with gzip.open(dump) as file:
        whole = json.load(file)
    for event in whole["traceEvents"]:
        event["name"] = re.sub(r"(?<=^ProfilerStep#)\d+", lambda m: str(1000 + int(m[0])), event.get("name", ""))
        if "ts" in event:
            event["ts"] += 60_000_000
    later = dump.with_name("rank1.later.pt.trace.json.gz")
    with gzip.open(later, "wt") as file:
        json.dump(whole, file)
    return later


def night(root: Path, work: Path) -> Night:
    """Run a night as a process, and return what it took and did."""
    command = [sys.executable, "-m", "longpole", "nightly", str(root), "--settle", "0s", "--log-format", "json"]
    where = ["--store", str(work / "store"), "-o", str(work / "pages")]
    ran = run([*command, *where])
    lines = [json.loads(line) for line in ran.err.splitlines()]
    tasks: dict[str, int] = {}
    for line in lines:
        if "n_tasks" in line:
            tasks[line["milestone"]] = tasks.get(line["milestone"], 0) + line["n_tasks"]
    (last,) = (line for line in lines if line.get("milestone") == "night done")
    statuses = {k: last[k] for k in ("changed", "unchanged", "waiting", "failed") if last[k]}
    return Night(ran.wall_s, ran.cpu_s, ran.code, statuses, tasks)


def main() -> None:
    """Print a line a night, and what the later ones take of the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--traces", type=Path, help="A folder of real dumps.")
    parser.add_argument("--work", type=Path, help="Where root, store and pages stay; else they go.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = given.work or Path(name)
        root = work / "root"
        make_root(root, given.runs, given.ranks, given.steps)
        if given.traces is not None:
            copy_real(given.traces, root)
        nights = [night(root, work), night(root, work)]
        grow(root)
        nights.append(night(root, work))
    print("night   wall s   CPU s  of the first  exit  runs")
    for number, one in enumerate(nights, 1):
        runs = ", ".join(f"{n} {status}" for status, n in one.statuses.items())
        print(f"{number:5}{one.wall:9.1f}{one.cpu:8.1f}{one.cpu / nights[0].cpu:14.1%}{one.code:6}  {runs}")
    for number, one in enumerate(nights, 1):
        print(f"tasks of night {number}: " + (", ".join(f"{n} {what}" for what, n in one.tasks.items()) or "none"))


if __name__ == "__main__":
    main()
