"""What must hold of any file: it is refused in words or read, in time, and what it lost is counted."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from hostile.seeds import Seed
from longpole import flights, telemetry, timelines
from longpole.errors import LongpoleError
from longpole.events import RAW_SCHEMA, DumpFacts
from longpole.formats import ReadOptions, flight_recorder, op_timeline, reader_for, telemetry_csv
from longpole.formats.probe import head_of

PATIENCE_S = 30
"""Seconds of processor time, far beyond what any case takes: a case this long hangs."""

_WALL_S = 900  # what waits for itself takes no processor time; a busy machine makes others wait long


@dataclass(frozen=True)
class Outcome:
    """What became of a file."""

    error: str | None = None  # why it was refused
    n_events: int = 0  # that were found, whole or in part
    n_stored: int = 0
    n_dropped: int = 0
    facts: DumpFacts | None = None  # of profilers' dumps


def consume(path: Path) -> Outcome:
    """Read a file as ingest would, and hold what is handed over to its own counts and schema."""
    url = str(path)
    with within(PATIENCE_S):
        try:
            if timelines.is_timeline(url):
                return _timeline(path)
            if flights.is_flight(url):
                return _flight(path)
            if telemetry.is_telemetry(url):
                return _telemetry(path)
            return _events(path)
        except LongpoleError as error:
            assert error.fact.strip(), "an error says what is wrong"
            assert len(str(error)) < 10_000, "an error fits on a screen"
            return Outcome(error=error.fact)


def consumed(folder: Path, seed: Seed, data: bytes) -> Outcome:
    """Consume these bytes as a file of the seed's name."""
    path = folder / seed.file
    path.write_bytes(data)
    return consume(path)


def _events(path: Path) -> Outcome:
    n_rows = 0

    def take(batch: pa.Table) -> None:
        nonlocal n_rows
        assert batch.schema == RAW_SCHEMA
        assert 0 < batch.num_rows <= 200_000
        batch.validate(full=True)
        n_rows += batch.num_rows

    with path.open("rb") as file:
        reader = reader_for(head_of(file), path.name)
        file.seek(0)
        facts = reader.read(file, path.name, take, ReadOptions(scratch=str(path.parent)))
    assert facts.n_stored == n_rows
    assert facts.n_events == facts.n_stored + facts.n_skipped + facts.n_dropped
    assert facts.n_skipped == sum(n for _, n in facts.skipped)
    assert min(facts.n_dropped, facts.n_skipped, facts.n_salvaged, facts.n_bad_times, facts.n_lost_bytes) >= 0
    assert all(len(text) <= 1_000 for text in (*facts.samples, *facts.notes))
    return Outcome(None, facts.n_events, facts.n_stored, facts.n_dropped, facts)


def _telemetry(path: Path) -> Outcome:
    tables: list[pa.Table] = []
    with path.open("rb") as file:
        tally = telemetry_csv.read(file, path.name, tables.append, None)
    assert all(table.schema == telemetry_csv.RAW_TELEMETRY for table in tables)
    assert sum(table.num_rows for table in tables) == tally.n_rows
    return Outcome(None, tally.n_rows + tally.dropped.total(), tally.n_rows, tally.dropped.total())


def _timeline(path: Path) -> Outcome:
    tables: list[pa.Table] = []
    with path.open("rb") as file:
        n_rows = op_timeline.read_ops(file, path.name, tables.append)
    assert all(table.schema == op_timeline.RAW_OPS for table in tables)
    assert sum(table.num_rows for table in tables) == n_rows
    return Outcome(None, n_rows, n_rows)


def _flight(path: Path) -> Outcome:
    flight = flight_recorder.read_flight(path.read_bytes(), path.name)
    assert flight.records.schema == flight_recorder.RAW_FLIGHT
    flight.records.validate(full=True)
    assert flights.described(str(path), path.name)
    n_lost = flight.n_entries - len(flight.records)
    return Outcome(None, flight.n_entries, len(flight.records), n_lost)


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """End what takes longer: Python code by an error, code that never comes back to Python by ending the process."""

    def give_up(_number: int, _frame: FrameType | None) -> Any:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(_WALL_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
