"""`longpole inspect`: what is this file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import fsspec
import pyarrow as pa
from cyclopts import Parameter

from longpole import flights, scratch, telemetry, timelines
from longpole.discover import find, rank_from_name
from longpole.errors import DumpError
from longpole.events import DumpFacts
from longpole.formats import ReadOptions, nsys_folder, reader_for
from longpole.formats.probe import head_of
from longpole.text import one_line
from longpole.units import bytes_text, duration_text


def inspect(files: Annotated[list[str], Parameter(help="Files, folders, patterns or URLs.")], /) -> int:
    """Say what each file is: format, rank, world, steps, device, oddities. No store is touched.

    Example: longpole inspect rank0.pt.trace.json.gz
    """
    worst = 0
    for candidate in find(files):
        print(f"{one_line(candidate.name)}  ({bytes_text(candidate.n_bytes)})")
        tally = _Tally()
        try:
            if candidate.parts:
                with scratch.folder() as folder:
                    tables = nsys_folder.local_tables(candidate.parts, Path(folder))
                    facts = nsys_folder.read(tables, candidate.name, tally.add, ReadOptions())
                for line in _lines(facts, tally, candidate.name):
                    print(f"  {one_line(line)}")
                continue
            if timelines.is_timeline(candidate.url):
                for line in timelines.described(candidate.url, candidate.name):
                    print(f"  {one_line(line)}")
                continue
            if flights.is_flight(candidate.url):
                for line in flights.described(candidate.url, candidate.name):
                    print(f"  {one_line(line)}")
                continue
            if telemetry.is_telemetry(candidate.url):
                for line in telemetry.described(candidate.url, candidate.name):
                    print(f"  {one_line(line)}")
                continue
            with fsspec.open(candidate.url, "rb") as file:
                reader = reader_for(head_of(file), candidate.name)
                file.seek(0)
                facts = reader.read(file, candidate.name, tally.add, ReadOptions())
        except DumpError as error:
            print(f"  {one_line(error.fact)}")
            if error.cure:
                print(f"  {one_line(error.cure)}")
            worst = 1
            continue
        for line in _lines(facts, tally, candidate.name):
            print(f"  {one_line(line)}")
    return worst


_STEP = re.compile(r"[0-9]{1,18}")


class _Tally:
    """Counts what goes by, without keeping it."""

    def __init__(self) -> None:
        self.categories: dict[str, int] = {}
        self.steps: set[str] = set()
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def add(self, batch: pa.Table) -> None:
        for entry in batch["category"].combine_chunks().value_counts().to_pylist():
            key = entry["values"] or ""
            self.categories[key] = self.categories.get(key, 0) + entry["counts"]
        import pyarrow.compute as pc

        names = pc.unique(batch["name"]).to_pylist()
        self.steps |= {n for n in names if n and n.startswith("ProfilerStep#")}
        bounds = pc.min_max(batch["start_ns"]).as_py()
        if bounds["min"] is not None:
            self.first_ns = min(bounds["min"], self.first_ns if self.first_ns is not None else bounds["min"])
            self.last_ns = max(bounds["max"], self.last_ns if self.last_ns is not None else bounds["max"])


def _lines(facts: DumpFacts, tally: _Tally, name: str) -> list[str]:
    rank = facts.rank if facts.rank is not None else rank_from_name(name)
    source = "" if facts.rank is not None else " (from its name)" if rank is not None else ""
    numbers = sorted(int(n) for s in tally.steps if _STEP.fullmatch(n := s.partition("#")[2]))
    span = tally.last_ns - tally.first_ns if tally.first_ns is not None and tally.last_ns is not None else None
    devices = sorted({d.name or "unnamed" for d in facts.devices})
    return [
        f"format    {facts.format}: {facts.schema}",
        f"rank      {rank if rank is not None else 'unknown'}{source} of {facts.world_size or 'unknown'}"
        + (f", backend {facts.backend}" if facts.backend else "")
        + (f", host {facts.host}" if facts.host else ""),
        f"devices   {len(facts.devices)} x {', '.join(devices)}" if devices else "devices   none described",
        f"steps     {numbers[0]}-{numbers[-1]} ({len(numbers)})" if numbers else "steps     no ProfilerStep markers",
        f"time      {duration_text(span)}",
        f"events    {facts.n_events:,} found, {facts.n_stored:,} stored, {facts.n_skipped:,} skipped,"
        f" {facts.n_dropped:,} dropped",
        "stored    " + ", ".join(f"{k} {v:,}" for k, v in sorted(tally.categories.items())),
        *(["skipped   " + ", ".join(f"{k} {v:,}" for k, v in facts.skipped)] if facts.skipped else []),
        *([f"truncated {facts.n_lost_bytes:,} bytes lost at the end"] if facts.is_truncated else []),
        *([f"rounded   {facts.n_rounded:,} times had digits below 1 ns"] if facts.n_rounded else []),
        *([f"odd times {facts.n_bad_times:,} events"] if facts.n_bad_times else []),
        *(f"note      {n}" for n in facts.notes),
        *(f"dropped   {s}" for s in facts.samples[:3]),
    ]
