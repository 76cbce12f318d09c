"""Dumps with a known answer: for learning the tool, for holding its SQL to, for measuring it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from longpole.errors import UsageError
from longpole.formats.canonical import FACTS_KEY, facts_to_json, open_writer
from longpole.synth import causes, hosts, mesh, stragglers, training, worked
from longpole.synth.kineto import KinetoDump
from longpole.synth.made import MadeRun
from longpole.synth.truth import RankTruth, run_steps

__all__ = ["SCENARIOS", "Part", "Scenario", "write", "write_part"]

Form = Literal["kineto", "events"]


@dataclass(frozen=True)
class Scenario:
    """One made run: its name, what it shows, how big it is unless told, and how it is made."""

    name: str
    description: str
    ranks: int
    steps: int
    make: Callable[..., MadeRun]
    """Takes the ranks and the steps; where `is_seeded`, a `seed` too."""
    is_fixed: bool = False
    """Its ranks and steps cannot be chosen."""
    is_seeded: bool = False
    """What is random in it follows from a seed, 0 unless told."""


def _straggler(case: stragglers.Case, description: str, ranks: int = 8) -> Scenario:
    name = case if case == "healthy" else f"straggler-{case}"
    return Scenario(name, description, ranks, 20, partial(stragglers.make, case), is_seeded=True)


_LIST = (
    Scenario(
        "worked",
        "the worked example: step 750 ms, 50 ms of the exchange exposed",
        2,
        4,
        lambda ranks, steps: worked.make(worked.WORKED, ranks, steps),
    ),
    Scenario(
        "worked-contended",
        "the exchange is hidden but slows the backward pass: step 780 ms, nothing exposed",
        2,
        4,
        lambda ranks, steps: worked.make(worked.CONTENDED, ranks, steps),
    ),
    Scenario(
        "worked-late-input",
        "the batch comes 80 ms late and nothing hides it: step 830 ms",
        2,
        4,
        lambda ranks, steps: worked.make(worked.LATE_INPUT, ranks, steps),
    ),
    Scenario(
        "training",
        "data-parallel training with jitter, one slow rank and one late batch",
        8,
        50,
        training.make,
    ),
    Scenario(
        "graphs",
        "the same through CUDA graphs: 839 device activities a step, of 67 launches",
        8,
        50,
        partial(training.make, shape=training.GRAPHS),
    ),
    Scenario(
        "idle-causes",
        "one rank, one step, a gap for each reason a device can be idle",
        1,
        1,
        lambda ranks, steps: causes.make(),
        is_fixed=True,
    ),
    Scenario(
        "cpu",
        "training without a device: gloo on a worker thread, odd ranks 5 ms later",
        2,
        3,
        hosts.make,
    ),
    Scenario(
        "mesh",
        "data, tensor and pipeline parallel: hosts of eight with clocks of their own",
        32,
        6,
        mesh.make,
    ),
    _straggler("healthy", "data-parallel training on hosts with clocks of their own, jitter and no straggler"),
    Scenario(
        "slow-exchange",
        "the same, every transfer takes 8 % longer: the network is slower for all ranks alike",
        8,
        20,
        partial(stragglers.make, "healthy", slower_ppm=80_000),
        is_seeded=True,
    ),
    _straggler("compute", "the same, one device has a slow clock: all its kernels take longer"),
    _straggler("clock", "the same, and telemetry.csv has the devices' clocks: it says why those kernels take longer"),
    _straggler("host", "the same, one host is slow: its launches come late and the device runs dry"),
    _straggler("input", "the same, one rank's batches come late"),
    _straggler("gc", "the same, now and then a host pauses, another rank each time"),
    _straggler("sequence", "the same, each step another rank has longer sequences: attention takes longer"),
    _straggler("link", "hosts in pairs, the link of one pair is slow: transfers take longer, no kernel does", 16),
    _straggler("stage", "four pipeline stages, the last has more to compute"),
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _LIST}


@dataclass(frozen=True)
class Part:
    """Some ranks of a made run: what one task writes. It works out all ranks' times, for they meet in collectives."""

    scenario: str
    folder: str
    form: Form
    ranks: int | None
    steps: int | None
    gzip: bool
    seed: int | None
    chosen: tuple[int, ...]


def write(
    scenario: str,
    folder: Path,
    *,
    form: Form = "kineto",
    ranks: int | None = None,
    steps: int | None = None,
    gzip: bool = False,
    seed: int | None = None,
    n_parts: int = 1,
    run_tasks: Callable[[Callable[[Part], list[Path]], list[Part]], list[list[Path]]] | None = None,
) -> list[Path]:
    """Write one dump per rank into `folder`, truth.json and what telemetry there is beside them; return the dumps.

    Equal arguments give equal bytes, however many parts they are made in. Memory does not grow with `steps`; one file
    per rank of a part is open at once.

    Args:
        run_tasks: Runs a function over tasks, of which there are `n_parts`, and returns the results in order; None
            runs them here.

    Raises:
        UsageError: No such scenario or form, or a size or a seed it cannot have.
    """
    if scenario not in SCENARIOS:
        raise UsageError(f"there is no scenario {scenario!r}", f"There are: {', '.join(SCENARIOS)}.")
    if form not in ("kineto", "events"):
        raise UsageError(f"there is no form {form!r}", "Write kineto or events.")
    if gzip and form == "events":
        raise UsageError("events are Parquet, which is compressed already", "Leave gzip out.")
    made = _make(SCENARIOS[scenario], ranks, steps, seed)
    folder.mkdir(parents=True, exist_ok=True)

    n_ranks = len(made.facts)
    n_parts = min(n_parts, n_ranks)
    bounds = [n_ranks * part // n_parts for part in range(n_parts + 1)]
    told = Part(scenario, str(folder.absolute()), form, ranks, steps, gzip, seed, ())
    parts = [replace(told, chosen=tuple(range(*bounds[n : n + 2]))) for n in range(n_parts)]
    written = run_tasks(write_part, parts) if run_tasks is not None else [write_part(part) for part in parts]
    truths = [_truth_of(folder, rank) for rank in range(n_ranks)]
    _write_truth(folder / "truth.json", scenario, made, pa.concat_tables([pq.read_table(path) for path in truths]))
    for path in truths:
        path.unlink()
    if made.telemetry is not None:
        (folder / "telemetry.csv").write_text("".join(f"{line}\n" for line in made.telemetry()), encoding="utf-8")
    return [folder / path.name for paths in written for path in paths]


def write_part(part: Part) -> list[Path]:
    """Write the dumps of some ranks, and beside each its answers for truth.json; return the dumps."""
    made = _make(SCENARIOS[part.scenario], part.ranks, part.steps, part.seed)
    folder = Path(part.folder)
    truths = {rank: RankTruth(made.facts[rank]) for rank in part.chosen}
    if part.form == "kineto":
        paths = _write_kineto(made, folder, truths, compress=part.gzip)
    else:
        paths = _write_events(made, folder, truths)
    for rank, truth in truths.items():
        pq.write_table(truth.steps(), _truth_of(folder, rank))
    return paths


def _truth_of(folder: Path, rank: int) -> Path:
    return folder / f".rank{rank}.truth.parquet"


def _make(scenario: Scenario, ranks: int | None, steps: int | None, seed: int | None) -> MadeRun:
    size = (scenario.ranks if ranks is None else ranks, scenario.steps if steps is None else steps)
    if scenario.is_fixed and size != (scenario.ranks, scenario.steps):
        raise UsageError(
            f"scenario {scenario.name} has {scenario.ranks} rank and {scenario.steps} step",
            "Leave --ranks and --steps out.",
        )
    if min(size) < 1:
        raise UsageError(f"{size[0]} ranks and {size[1]} steps are no run", "Give at least one of each.")
    if scenario.is_seeded:
        return scenario.make(*size, seed=seed or 0)
    if seed is not None:
        raise UsageError(f"nothing in scenario {scenario.name} follows from a seed", "Leave --seed out.")
    return scenario.make(*size)


def _write_kineto(made: MadeRun, folder: Path, truths: dict[int, RankTruth], *, compress: bool) -> list[Path]:
    suffix = ".pt.trace.json.gz" if compress else ".pt.trace.json"
    chosen = list(truths)
    dumps = {rank: KinetoDump(folder / f"rank{rank}{suffix}", made.facts[rank], compress=compress) for rank in chosen}
    # Twice through the run: a dump has all of its host events before the first device event.
    for rank, table in made.chunks(chosen):
        truths[rank].add(table)
        dumps[rank].add(table, device=False)
    for rank, table in made.chunks(chosen):
        dumps[rank].add(table, device=True)
    for dump in dumps.values():
        dump.close()
    return [dump.path for dump in dumps.values()]


def _write_events(made: MadeRun, folder: Path, truths: dict[int, RankTruth]) -> list[Path]:
    chosen = list(truths)
    paths = {rank: folder / f"rank{rank}.parquet" for rank in chosen}
    writers = {rank: open_writer(str(path)) for rank, path in paths.items()}
    n_rows = dict.fromkeys(chosen, 0)
    for rank, table in made.chunks(chosen):
        truths[rank].add(table)
        writers[rank].write_table(table)
        n_rows[rank] += table.num_rows
    for rank, writer in writers.items():
        counted = replace(made.facts[rank], n_events=n_rows[rank], n_stored=n_rows[rank])
        writer.add_key_value_metadata({FACTS_KEY.decode(): facts_to_json(counted)})
        writer.close()
    return list(paths.values())


def _write_truth(path: Path, scenario: str, made: MadeRun, rank_steps: pa.Table) -> None:
    """Write one line a row, so that a change shows as the rows it changed."""
    head = {"scenario": scenario, "ranks": len(made.facts), **made.known}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("{")
        for key, value in head.items():
            file.write(f"\n {json.dumps(key)}: {json.dumps(value)},")
        for key, rows in made.lists.items():
            _write_rows(file, key, rows())
            file.write(",")
        _write_rows(file, "steps", _rows(run_steps(made.aligned(rank_steps))))
        file.write(",")
        _write_rows(file, "rank_steps", _rows(rank_steps))
        file.write("\n}\n")


def _write_rows(file: TextIO, key: str, rows: Iterable[dict[str, object]]) -> None:
    file.write(f"\n {json.dumps(key)}: [")
    separator = ""
    for row in rows:
        file.write(f"{separator}\n  {json.dumps(row)}")
        separator = ","
    file.write("\n ]")


def _rows(table: pa.Table) -> Iterator[dict[str, object]]:
    for batch in table.to_batches(max_chunksize=1_024):
        yield from batch.to_pylist()
