"""Dumps with a known answer: for learning the tool, for holding its SQL to, for measuring it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

import pyarrow as pa

from longpole.errors import UsageError
from longpole.formats.canonical import FACTS_KEY, facts_to_json, open_writer
from longpole.synth import causes, hosts, mesh, stragglers, training, worked
from longpole.synth.kineto import KinetoDump
from longpole.synth.made import MadeRun
from longpole.synth.truth import RankTruth, run_steps

__all__ = ["SCENARIOS", "Scenario", "write"]


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


def write(
    scenario: str,
    folder: Path,
    *,
    form: Literal["kineto", "events"] = "kineto",
    ranks: int | None = None,
    steps: int | None = None,
    gzip: bool = False,
    seed: int | None = None,
) -> list[Path]:
    """Write one dump per rank into `folder`, truth.json and what telemetry there is beside them; return the dumps.

    Equal arguments give equal bytes. Memory does not grow with `steps`; one file per rank is open at once.

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

    truths = [RankTruth(facts) for facts in made.facts]
    if form == "kineto":
        paths = _write_kineto(made, folder, truths, compress=gzip)
    else:
        paths = _write_events(made, folder, truths)
    if made.telemetry is not None:
        (folder / "telemetry.csv").write_text("".join(f"{line}\n" for line in made.telemetry()), encoding="utf-8")
    _write_truth(folder / "truth.json", scenario, made, pa.concat_tables([truth.steps() for truth in truths]))
    return paths


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


def _write_kineto(made: MadeRun, folder: Path, truths: list[RankTruth], *, compress: bool) -> list[Path]:
    suffix = ".pt.trace.json.gz" if compress else ".pt.trace.json"
    dumps = [
        KinetoDump(folder / f"rank{rank}{suffix}", facts, compress=compress) for rank, facts in enumerate(made.facts)
    ]
    # Twice through the run: a dump has all of its host events before the first device event.
    for rank, table in made.chunks():
        truths[rank].add(table)
        dumps[rank].add(table, device=False)
    for rank, table in made.chunks():
        dumps[rank].add(table, device=True)
    for dump in dumps:
        dump.close()
    return [dump.path for dump in dumps]


def _write_events(made: MadeRun, folder: Path, truths: list[RankTruth]) -> list[Path]:
    paths = [folder / f"rank{rank}.parquet" for rank in range(len(made.facts))]
    writers = [open_writer(str(path)) for path in paths]
    n_rows = [0] * len(paths)
    for rank, table in made.chunks():
        truths[rank].add(table)
        writers[rank].write_table(table)
        n_rows[rank] += table.num_rows
    for writer, facts, count in zip(writers, made.facts, n_rows, strict=True):
        counted = replace(facts, n_events=count, n_stored=count)
        writer.add_key_value_metadata({FACTS_KEY.decode(): facts_to_json(counted)})
        writer.close()
    return paths


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
