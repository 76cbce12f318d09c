"""A run that has flight recorders' dumps: their records into the store, and which rank a hang began with.

A dump is one rank's last collectives. All ranks' records are compared by one task (sql/run/hangs.sql).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from longpole import __version__, catalog
from longpole.discover import rank_from_name
from longpole.engine import connection, reading, write_ordered
from longpole.errors import DumpError, LongpoleError
from longpole.events import SCHEMA_VERSION
from longpole.formats import flight_recorder
from longpole.formats.plain_pickle import MOST_BYTES
from longpole.formats.probe import head_at
from longpole.store import DumpEntry, Manifest, PublishedFile, Store, StoredDump, content_of, file_digest, key_of

TABLE = "flight_records"
"""The table of a run that holds its flight recorders' records, as `events` holds a profiler's."""

FORMAT = "flight-recorder"

_LARGEST_WORLD = 1 << 20  # as params.largest_world

RunTasks = Callable[[Callable[[Any], list[PublishedFile]], list[Any]], list[list[PublishedFile]]]


@dataclass(frozen=True)
class HangTask:
    """The comparison of all ranks' records: which published files it reads; plain data."""

    store_url: str
    run: str
    paths: tuple[str, ...]
    collectives: tuple[str, ...]  # what the profiler has of them
    ranks: tuple[int, ...]  # that have a dump, empty or not
    inputs: str
    memory: int


def is_flight(url: str) -> bool:
    """Return whether the file is a flight recorder's dump, or a pickle, which nothing else that is read here is."""
    return flight_recorder.is_flight(head_at(url))


def rank_of(name: str, pattern: str | None) -> int:
    """Return the rank that a dump's name says; the dump itself does not.

    Raises:
        DumpError: It says none.
        LongpoleError: The pattern does not match it, or does not parse.
    """
    rank = rank_from_name(name, pattern)
    if rank is None:
        rank = flight_recorder.rank_at_end(name)
    if rank is None or rank >= _LARGEST_WORLD:
        raise DumpError(
            f"{name} is a flight recorder's dump whose name does not say the rank: give --rank-from 'rank_(\\d+)'"
        )
    return rank


def described(url: str, name: str) -> list[str]:
    """Return what a dump is, a line each; no store is touched.

    Raises:
        DumpError: It is damaged, or no flight recorder's.
    """
    flight = _read(url, name)
    records = flight.records
    rank = rank_from_name(name)
    rank = flight_recorder.rank_at_end(name) if rank is None else rank
    groups = pc.unique(records["group_id"]).to_pylist()
    states = {e["values"] or "none": e["counts"] for e in pc.value_counts(records["state"]).to_pylist()}
    last = records.slice(max(len(records) - 1, 0)).to_pylist()
    return [
        f"format    {FORMAT}: {flight.schema}",
        f"rank      {'unknown' if rank is None else f'{rank} (from its name)'} of {flight.world_size or 'unknown'}",
        f"groups    {len(groups)}",
        f"records   {len(records):,}: " + ", ".join(f"{state[:40]} {n:,}" for state, n in sorted(states.items())[:8]),
        *(
            f"last      {r['name']}, collective {r['collective_seq']} of group {r['group_id']}"
            + (f", at {r['frame']}" if r["frame"] else "")
            for r in last
        ),
    ]


def inputs_of(content: str, rank: int) -> str:
    """Return the hash of all that a dump's records follow from."""
    return key_of(content, rank, SCHEMA_VERSION, catalog.fingerprint("flight"), __version__)


def read_flight(store: Store, run: str, url: str, told: DumpEntry, folder: Path, memory: int) -> StoredDump:
    """Read a flight recorder's dump into the store.

    Args:
        told: What is known of the file: its content, name, size and rank.

    Raises:
        DumpError: It is damaged, or no flight recorder's.
    """
    flight = _read(url, told.path)
    rank = told.rank or 0
    local, inputs = folder / "records.parquet", inputs_of(told.dump, rank)
    with connection(folder, memory) as con:
        con.register("raw_flight", flight.records)
        con.execute("CREATE TABLE context (rank INTEGER)")
        con.execute("INSERT INTO context VALUES ($1)", [rank])
        for relation in catalog.needed("flight", {"raw_flight", "context"}):
            con.execute(f"CREATE TEMP TABLE {relation.name} AS {relation.sql}")
        n_rows = write_ordered(con, f"FROM {TABLE}", catalog.relations()[TABLE].order, local)
    path = f"facts/{TABLE}/rank={rank:05d}.{told.dump}.{inputs}.parquet"
    file = PublishedFile(TABLE, path, inputs, file_digest(local), local.stat().st_size, n_rows, rank)
    store.put(local, run, path)
    created = pc.min_max(flight.records["created_ns"]).as_py()
    n_lost = flight.n_entries - len(flight.records)
    overwritten = pc.min(flight.records["record_id"]).as_py() or 0
    entry = msgspec.structs.replace(
        told,
        format=FORMAT,
        schema=flight.schema,
        world_size=flight.world_size,
        first_ns=created["min"],
        last_ns=created["max"],
        n_events=flight.n_entries,
        n_stored=n_rows,
        n_dropped=n_lost,
        notes=(
            "the dump does not say its rank: taken from its name",
            *([f"{overwritten} records before its first were overwritten"] if overwritten > 0 else []),
        ),
        verdict=f"{n_lost} records that are none dropped" if n_lost else "ok",
    )
    return StoredDump((file,), (entry,))


def _read(url: str, name: str) -> flight_recorder.Flight:
    with fsspec.open(url, "rb") as file:
        return flight_recorder.read_flight(file.read(MOST_BYTES + 1), name)


def without_repeats(
    entries: Sequence[DumpEntry], files: Sequence[PublishedFile]
) -> tuple[list[DumpEntry], list[PublishedFile]]:
    """Return a run's dumps and files with each rank's records once: the JSON beside a pickle says the same and less.

    Raises:
        LongpoleError: Two dumps of a rank differ.
    """
    by_rank: dict[int, list[DumpEntry]] = {}
    for entry in entries:
        if entry.format == FORMAT and entry.error is None:
            by_rank.setdefault(entry.rank or 0, []).append(entry)
    dropped: set[str] = set()
    for rank, mine in sorted(by_rank.items()):
        mine.sort(key=lambda d: (not d.schema.startswith("pickle"), d.path))
        for one, other in itertools.pairwise(mine):
            if (one.first_ns, one.last_ns, one.n_events) != (other.first_ns, other.last_ns, other.n_events):
                raise LongpoleError(
                    f"rank {rank} has two flight recorder dumps that differ:\n  {one.path}\n  {other.path}",
                    "If they are two ranks, say which with --rank-from; if they are of two hangs, make each a run of"
                    " its own with --name.",
                )
            dropped.add(other.dump)
    return (
        [e for e in entries if e.dump not in dropped],
        [f for f in files if f.table != TABLE or content_of(f) not in dropped],
    )


def answers(
    store: Store,
    manifest: Manifest,
    marts: Sequence[PublishedFile],
    known: Mapping[str, Sequence[PublishedFile]],
    run_tasks: RunTasks,
    memory: int,
) -> list[PublishedFile]:
    """Return the files of what the run's flight recorders say together; none where it has none.

    The caller holds the run's lock, and has seen that the records are there.

    Args:
        marts: What the run's profiler dumps say.
        known: What is published already, by its inputs.
        run_tasks: Runs a function over tasks, here or on a cluster, and returns the results in order.
    """
    records = sorted(manifest.of(TABLE), key=lambda f: (f.rank or 0, f.path))
    if not records:
        return []
    collectives = sorted((f for f in marts if f.table == "collectives"), key=lambda f: (f.first_step or 0, f.path))
    read = [(f.rank, f.digest) for f in (*records, *collectives)]
    inputs = key_of("hang", SCHEMA_VERSION, catalog.fingerprint("hang"), read)
    if inputs in known:
        return list(known[inputs])
    ranks = tuple(f.rank or 0 for f in records)
    paths, met = (tuple(f.path for f in files) for files in (records, collectives))
    task = HangTask(store.url, manifest.run, paths, met, ranks, inputs, memory)
    (made,) = run_tasks(evaluate, [task])
    return made


def evaluate(task: HangTask) -> list[PublishedFile]:
    """Compare all ranks' records and publish what comes of it; return what was published."""
    store = Store(task.store_url)
    published: list[PublishedFile] = []
    with store.scratch() as folder, connection(folder, task.memory) as con:
        for name, paths in ((TABLE, task.paths), ("collectives", task.collectives)):
            local = store.fetch(task.run, list(paths), folder)
            con.execute(f"CREATE VIEW {name} AS {reading(name, local)}")
        con.register("_ranks", pa.table({"rank": pa.array(task.ranks, pa.int32())}))
        con.execute("CREATE TABLE flight_ranks AS FROM _ranks")
        relations = catalog.needed("hang", {TABLE, "collectives", "flight_ranks", *catalog.data_names()})
        catalog.load_data_of(con, relations)
        for relation in relations:
            con.execute(f"CREATE TEMP {'VIEW' if relation.is_view else 'TABLE'} {relation.name} AS {relation.sql}")
            if relation.is_private or relation.scope != "hang":
                continue
            file = folder / f"{relation.name}.parquet"
            n_rows = write_ordered(con, f"FROM {relation.name}", relation.order, file)
            path = f"marts/{relation.table}/run.{task.inputs}.parquet"
            published.append(
                PublishedFile(relation.table, path, task.inputs, file_digest(file), file.stat().st_size, n_rows)
            )
            store.put(file, task.run, path)
    return published
