"""Every benchmark, each beside a peer or a limit in the same run, in one table.

    python tests/bench [ingest facts clocks whatif page growth]
        [--quick] [--megabytes 340] [--dumps DIR] [--hta-python PYTHON]

Names choose some; `scale.py`, `memory.py`, `cost.py` and `straggler_seeds.py` beside it are studies of their own. Peers
live in their own environments: LONGPOLE_HTA_PYTHON, or the option, names the interpreter that has
HolisticTraceAnalysis. --quick takes sizes at which times say nothing, to see that it all runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from make_dump import make_dump
from measuring import Clock, Ran, exponent, machine, peak_bytes, ratio, run
from run_level import CPU_LIMIT_S, MEMORY_LIMIT_BYTES
from scale import MOST_QUERY_S
from tasks import TASKS, Found

from longpole import synth

HERE = Path(__file__).resolve().parent
HTA = "HolisticTraceAnalysis 0.5.0"
HTA_PIP = "python -m venv hta && hta/bin/pip install HolisticTraceAnalysis==0.5.0 'pandas<3'"
"""With pandas 3, which pip would take, its critical path fails."""

REAL = HERE.parents[2] / "shared" / "traces" / "nanogpt-8x-h100"

READER_MOST_BYTES = 350 << 20
READER_MOST_CPU, READER_MOST_WALL = 1 / 7, 1 / 12
"""Targets of the reader: memory whatever the size of the dump, time against HolisticTraceAnalysis' load."""

PAGE_MOST_BYTES = 5 * 10**6
PAGE_MOST_MEMORY = 1536 << 20
MOST_EXPONENT = 1.05
"""Of CPU seconds over ranks and over steps: four times as many take at most 4.3 times as long."""


_ABSENT = "peer not installed"


@dataclass(frozen=True)
class Row:
    """One line of the table; `reason` says why it has no figures."""

    benchmark: str
    way: str
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    against: str = ""
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether it should have figures: a peer that is not installed need not."""
        return bool(self.reason) and not self.reason.startswith(_ABSENT)

    def text(self) -> str:
        """Return the line."""
        if self.reason:
            return f"{self.benchmark:12}{self.way:60}  n/a: {self.reason}"
        peak = f"{self.peak_bytes / 2**20:,.0f}" if self.peak_bytes else ""
        wall = f"{self.wall_s:.2f}" if self.wall_s else ""
        return f"{self.benchmark:12}{self.way:60}{self.cpu_s:9.2f}{wall:>9}{peak:>10}  {self.against}".rstrip()


@dataclass(frozen=True)
class Bench:
    """What the benchmarks share: where to work, how large, and who the peers are."""

    folder: Path
    is_quick: bool
    hta: Path | None
    megabytes: float
    """Of text, 10^6 bytes each, in the dump that reading is measured on."""
    dumps: Path
    """A folder of dumps of several ranks that both longpole and its peers read."""

    def task(self, name: str, *arguments: object, python: Path | None = None) -> tuple[Ran, Found]:
        """Run a task in a process of its own, a quick one here; return what it took and what it found."""
        if self.is_quick and python is None:
            with contextlib.redirect_stdout(sys.stderr), Clock() as took:
                found = TASKS[name](*map(str, arguments))
            return Ran(took.wall_s, took.cpu_s, peak_bytes()), found
        ran = run([python or Path(sys.executable), HERE / "tasks.py", name, *map(str, arguments)])
        return ran, {} if ran.reason else json.loads(ran.out.splitlines()[-1])

    def empty(self, name: str) -> Path:
        """Return a new folder."""
        folder = self.folder / name
        folder.mkdir()
        return folder


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _of(share: float, what: str) -> str:
    return f"{ratio(share, 1)} of {what}"


def ingest(bench: Bench) -> Iterator[Row]:
    """A large dump, gzip to typed Parquet, beside what parses it."""
    dump = bench.folder / "rank3.pt.trace.json.gz"
    n_events, n_bytes = make_dump(dump, megabytes=1 if bench.is_quick else bench.megabytes)
    _say(f"ingest: {n_events:,} events, {n_bytes / 1e6:.0f} MB of text in {dump.stat().st_size / 1e6:.1f} MB of gzip")
    ours, _ = bench.task("reader", dump, bench.empty("reader"))
    limit = _of(ours.peak_bytes / READER_MOST_BYTES, f"the limit {READER_MOST_BYTES >> 20} MiB")
    yield Row("ingest", "longpole, reader alone", ours.cpu_s, ours.wall_s, ours.peak_bytes, limit, ours.reason)
    whole, _ = bench.task("ingest", dump, bench.empty("ingest"))
    yield Row("ingest", "longpole ingest, whole command", whole.cpu_s, whole.wall_s, whole.peak_bytes, "", whole.reason)
    peers: list[tuple[str, str, Path | None, str]] = [
        ("hta_load", f"{HTA}, load", bench.hta, HTA_PIP),
        ("stdlib_json", "json of the standard library, parse only", None, ""),
        ("orjson_parse", "orjson, parse only", None, "pip install orjson"),
        ("duckdb_json", "DuckDB read_json, to Parquet", None, ""),
    ]
    for task, way, python, pip in peers:
        is_missing = python is None if task == "hta_load" else task == "orjson_parse" and find_spec("orjson") is None
        if is_missing:
            yield Row("ingest", way, reason=f"{_ABSENT}: {pip}")
            continue
        ran, _ = bench.task(task, dump, bench.empty(task), python=python)
        against = (
            f"reader: CPU {ratio(ours.cpu_s, ran.cpu_s)}, wall {ratio(ours.wall_s, ran.wall_s)},"
            f" memory {ratio(ours.peak_bytes, ran.peak_bytes)}"
        )
        yield Row("ingest", way, ran.cpu_s, ran.wall_s, ran.peak_bytes, against, ran.reason)


def facts(bench: Bench) -> Iterator[Row]:
    """Every rank of one set: rank level and critical path, beside HolisticTraceAnalysis on the same dumps.

    Of a short set and of a long one: a task has about half a second of its own, whatever it holds.
    """
    yield from _facts_of(bench, bench.dumps, "short")
    if not bench.is_quick:
        yield from _facts_of(bench, _made(bench.folder / "long", ranks=2, steps=100), "long")


def _facts_of(bench: Bench, dumps: Path, length: str) -> Iterator[Row]:
    name = f"facts {length}"
    ours, found = bench.task("longpole_set", dumps, bench.empty(f"{length} set"))
    n_ranks = sum(1 for _ in dumps.glob("*.json*"))
    _say(f"{name}: {dumps.name}, {n_ranks} ranks, {found.get('n_rank_steps', 0)} steps of ranks")
    ways = ("load", "rank level: all facts of all ranks", "critical path, a rank and step")
    spent = [found["load_s"], found["facts_s"], found["path_s"] / found["n_rank_steps"]] if found else [0.0] * 3
    for way, cpu in zip(ways, spent, strict=True):
        yield Row(name, f"longpole, {way}", cpu, 0.0, ours.peak_bytes, "", ours.reason)
    ways = ("load", "overlap of all ranks", "critical path, a rank and step")
    if bench.hta is None:
        for way in ways:
            yield Row(name, f"{HTA}, {way}", reason=f"{_ABSENT}: {HTA_PIP}")
        return
    theirs, told = bench.task("hta_set", dumps, python=bench.hta)
    taken = [told["load_s"], told["overlap_s"], told["path_s"] / told["n_rank_steps"]] if told else [0.0] * 3
    for way, cpu, own in zip(ways, taken, spent, strict=True):
        yield Row(name, f"{HTA}, {way}", cpu, 0.0, theirs.peak_bytes, f"longpole: CPU {ratio(own, cpu)}", theirs.reason)


def _made(folder: Path, ranks: int, steps: int) -> Path:
    synth.write("training", folder, ranks=ranks, steps=steps, gzip=True)
    (folder / "truth.json").unlink()
    return folder


def clocks(bench: Bench) -> Iterator[Row]:
    """Groups, clocks, collectives, waits, stragglers and steps, beside the limits set for them."""
    ranks, steps, collectives = (4, 10, 4) if bench.is_quick else (64, 200, 100)
    _say(f"clocks: {ranks} ranks x {steps} steps x {collectives} collectives")
    limits = (CPU_LIMIT_S, MEMORY_LIMIT_BYTES)
    ways: list[tuple[str, tuple[object, ...]]] = [("clocks, collectives and steps, facts in one file", (1,))]
    if not bench.is_quick:
        ways += [("the same, a file for each rank", (ranks,)), ("and a critical path through all", (ranks, "paths"))]
    for way, more in ways:
        ran, found = bench.task("clocks", ranks, steps, collectives, *more)
        row = Row("clocks", way, reason=ran.reason)
        if found:
            against = (
                f"CPU {_of(found['cpu_s'] / limits[0], f'the limit {limits[0]:.0f} s')},"
                f" memory {_of(found['peak_bytes'] / limits[1], f'{limits[1] >> 20} MiB')}"
            )
            row = Row("clocks", way, found["cpu_s"], found["wall_s"], found["peak_bytes"], against)
        yield row


def whatif(bench: Bench) -> Iterator[Row]:
    """Every what-if of a pipelined job, beside a replay op by op."""
    size = (2, 2, 2, 3) if bench.is_quick else (44, 4, 4, 32)
    ran, found = bench.task("whatif", *size, bench.empty("whatif"))
    _say(f"whatif: {' x '.join(map(str, size))} steps, replicas, stages, microbatches")
    way = "longpole, all scenarios of all steps"
    if not found:
        yield Row("whatif", way, reason=ran.reason)
        return
    apart = f"{found['n_apart']} step times differ"
    yield Row("whatif", way, found["cpu_s"], found["wall_s"], ran.peak_bytes, apart)
    against = f"longpole: CPU {ratio(found['cpu_s'], found['python_cpu_s'])}"
    yield Row("whatif", "plain Python, op by op", found["python_cpu_s"], found["python_wall_s"], 0, against)


def page(bench: Bench) -> Iterator[Row]:
    """The overview page of a run, and what one asks of it, beside the limits set for them."""
    ranks, steps = (2, 2) if bench.is_quick else (8, 100)
    _say(f"page, query: {ranks} ranks x {steps} steps")
    folder = bench.empty("page")
    synth.write("graphs", folder / "dumps", form="events", ranks=ranks, steps=steps)
    made, _ = bench.task("longpole_set", folder / "dumps", folder)
    if made.reason:
        yield Row("page", "a run to draw", reason=made.reason)
        return
    ran, written = bench.task("report", folder / "store", "bench", folder / "page.html")
    size = written.get("n_bytes", 0)
    against = (
        f"{size / 1e6:.1f} MB, {_of(size / PAGE_MOST_BYTES, 'the limit')};"
        f" memory {_of(ran.peak_bytes / PAGE_MOST_MEMORY, f'{PAGE_MOST_MEMORY >> 20} MiB')}"
    )
    yield Row("page", "longpole report, whole command", ran.cpu_s, ran.wall_s, ran.peak_bytes, against, ran.reason)
    asked, found = bench.task("queries", folder / "store", "bench", ranks // 2, 100 + steps // 2)
    if not found:
        yield Row("query", "what one asks of it", reason=asked.reason)
    for told, (cpu, wall) in found.items():
        yield Row("query", told, cpu, wall, 0, f"wall {_of(wall / MOST_QUERY_S, f'the limit {MOST_QUERY_S:.0f} s')}")


def growth(bench: Bench) -> Iterator[Row]:
    """CPU seconds of a whole run, ingest to marts, over ranks and over steps."""
    over = {"ranks": ["1x1", "2x1"], "steps": ["1x1", "1x2"]} if bench.is_quick else GROWTH
    ran, found = bench.task(
        "growth", bench.empty("growth"), *dict.fromkeys(s for sizes in over.values() for s in sizes)
    )
    for axis, sizes in over.items():
        way = f"over {axis}: {', '.join(sizes)}"
        if not found:
            yield Row("growth", way, reason=ran.reason)
            continue
        seconds = [found[size] for size in sizes]
        numbers = [float(size.split("x")[axis == "steps"]) for size in sizes]
        slope = exponent(numbers, seconds)
        told = f"exponent {slope:.2f}, limit {MOST_EXPONENT}: {', '.join(f'{s:.1f}' for s in seconds)}"
        yield Row("growth", way, sum(seconds), 0.0, ran.peak_bytes, told)


GROWTH = {"ranks": ["2x25", "4x25", "8x25", "16x25"], "steps": ["2x25", "2x50", "2x100", "2x200"]}
BENCHES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    bench.__name__: bench for bench in (ingest, facts, clocks, whatif, page, growth)
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks, then print the table; 1 where one of longpole's failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHES], help="without one, all")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dumps", type=Path, help="dumps of several ranks; without it real ones, or made ones")
    parser.add_argument("--hta-python", type=Path, default=os.environ.get("LONGPOLE_HTA_PYTHON"))
    parser.add_argument("--megabytes", type=float, default=340, help="of text in the dump that reading is measured on")
    given = parser.parse_args(arguments)
    print(machine())
    print(f"{'':72}{'CPU s':>9}{'wall s':>9}{'peak MiB':>10}  beside the peer or the limit", flush=True)
    with tempfile.TemporaryDirectory() as name:
        dumps = given.dumps or (None if given.quick or not REAL.is_dir() else REAL)
        if dumps is None:
            dumps = _made(Path(name) / "made", ranks=2, steps=2)
        hta = Path(given.hta_python) if given.hta_python else None
        bench = Bench(Path(name), given.quick, hta, given.megabytes, dumps)
        n_failed = 0
        for chosen in given.names or BENCHES:
            for row in BENCHES[chosen](bench):
                print(row.text(), flush=True)
                n_failed += row.has_failed
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
