"""Dumps to events: each dump is read and linked by one task on any worker, then the manifest names what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from longpole import __version__, catalog, flights, remote, telemetry, timelines
from longpole.cluster import DEFAULT_TASK_MEMORY
from longpole.config import STEP_PATTERN, Chrome, RunConfig
from longpole.discover import Candidate, rank_from_name
from longpole.engine import connection, quoted, write_ordered
from longpole.errors import DumpError, LongpoleError
from longpole.events import RAW_SCHEMA, SCHEMA_VERSION, DumpFacts
from longpole.formats import ReadOptions, nsys_folder, reader_for, timers_log
from longpole.formats.probe import head_of
from longpole.formats.rows import InTime
from longpole.store import (
    SOURCES,
    DumpEntry,
    Manifest,
    PublishedFile,
    RankPlace,
    Store,
    StoredDump,
    content_of,
    file_digest,
    key_of,
)

EVENTS_PER_ROW_GROUP = 100_000
"""Rows of a row group of events: in order of start, so a query for a few steps reads a few of them."""

MOST_INPUTS = 10_000
"""Distinct texts of operators' inputs that are held at once; a dump of more, and real ones have hundreds, sorts them as
text, which may spill."""


MAX_DEVICES = 64
"""Devices of one process: each becomes a rank with its own copy of the host's events, so a made-up number must not."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class ReadTask:
    """All that a worker needs to turn one dump into events; plain data."""

    store_url: str
    run: str
    dump: Candidate
    known: tuple[tuple[str, str], ...]  # (content, inputs) of dumps that are already events
    step_pattern: str
    comm_kernels: tuple[str, ...]
    config_key: str
    threads: int
    memory: int
    rank_pattern: str | None = None
    utc_offset: str | None = None
    chrome: Chrome | None = None


@dataclass(frozen=True)
class StagedFile:
    """A file in the store that no manifest names yet."""

    path: str
    digest: str
    n_bytes: int
    n_rows: int


@dataclass(frozen=True)
class DeviceEvents:
    """Events of one device of one dump, staged in the store until a rank is known."""

    n_left_out: int  # activities of devices that the rank is not on
    n_unusable: int  # step markers without a usable number
    n_repeated: int  # steps that are marked more than once
    staged: str
    inputs: str
    digest: str
    n_bytes: int
    n_rows: int
    device: int | None
    process: int | None
    first_ns: int | None
    last_ns: int | None
    first_step: int | None
    last_step: int | None
    n_steps: int
    memory: StagedFile | None = None  # its allocations


@dataclass(frozen=True)
class ReadResult:
    """What a task returns: small, plain data."""

    dump: Candidate
    content: str
    facts: DumpFacts | None = None  # None: known already, or an error
    devices: tuple[DeviceEvents, ...] = ()
    error: str | None = None
    is_known: bool = False
    stored: StoredDump | None = None  # of an op timeline, a flight recorder or telemetry: no events


def ingest_run(
    store: Store,
    run: str,
    candidates: Sequence[Candidate],
    config: RunConfig,
    config_text: str,
    *,
    run_tasks: Callable[[Callable[[ReadTask], ReadResult], list[ReadTask]], list[ReadResult]],
    topology: tuple[RankPlace, ...] | None = None,
    rank_pattern: str | None = None,
    threads: int = 1,
    memory: int = DEFAULT_TASK_MEMORY,
) -> Manifest:
    """Return the run's manifest after these dumps are in it; a dump that is known, by content, costs nothing.

    The caller holds the run's lock. Facts and marts of before stay until `analyze` replaces them.

    Args:
        run_tasks: Runs a function over tasks, here or on a cluster, and returns the results in order.
        topology: Where ranks ran; None keeps what the run has.

    Raises:
        LongpoleError: No dump can be read, ranks cannot be told, or two dumps of a rank overlap.
    """
    before = store.known(run)
    config_key = key_of(config.ingest_key(), rank_pattern)
    others = timelines.of_job([c.url for c in candidates if not c.is_named], run)
    candidates = [c for c in candidates if c.url not in others]
    known = _known(store, before)
    unchanged = {
        (d.path, d.n_bytes, d.modified): d.dump
        for d in (before.dumps if before else ())
        if d.modified and (d.dump, _inputs_of(d.dump, config_key)) in known
    }
    results: list[ReadResult] = []
    tasks: list[ReadTask] = []
    for candidate in candidates:
        content = unchanged.get((candidate.name, candidate.n_bytes, candidate.modified))
        if content is not None:
            results.append(ReadResult(candidate, content, is_known=True))
        else:
            tasks.append(
                ReadTask(
                    store.url,
                    run,
                    candidate,
                    known,
                    config.steps.marker,
                    tuple(config.comm.kernels),
                    config_key,
                    threads,
                    memory,
                    rank_pattern,
                    config.telemetry.utc_offset,
                    config.layout(),
                )
            )
    if tasks:
        results += run_tasks(read_dump, tasks)
    places = topology if topology is not None else before.topology if before is not None else ()
    is_new = before is None or (before.config, before.topology) != (config_text, places)
    if before is not None and not is_new and all(r.is_known for r in results):
        return before
    merged = _merge(store, run, before, results, config_text, rank_pattern)
    seen = before.seen if before is not None else ()
    manifest = msgspec.structs.replace(merged, topology=places, seen=seen)
    store.publish(manifest)
    return manifest


def read_dump(task: ReadTask) -> ReadResult:
    """Read and link one dump; stage its events in the store.

    A file that is no dump, or holds no event, comes back as an error in the result, not as an exception: the others
    of its run are still worth having.
    """
    store = Store(task.store_url)
    with store.scratch() as folder:
        try:
            tables = nsys_folder.local_tables(task.dump.parts, folder / "tables")
            local = None if tables or remote.is_local(task.dump.url) else folder / "dump"
            content = _content_of_tables(tables) if tables else _content_of(task.dump, local)
            here = task.dump.url if local is None else str(local)
            if not tables and timelines.is_timeline(here):
                return _read_timeline(task, store, folder, here, content)
            if not tables and flights.is_flight(here):
                return _read_flight(task, store, folder, here, content)
            if not tables and telemetry.is_telemetry(here):
                return _read_telemetry(task, store, folder, here, content)
            inputs = _inputs_of(content, task.config_key)
            if (content, inputs) in task.known:
                return ReadResult(task.dump, content, is_known=True)
            raw = folder / "raw.parquet"
            facts = _read_raw(task, here, tables, raw)
        except DumpError as error:
            return ReadResult(task.dump, "", error=error.fact)
        except remote.failures() as error:
            if getattr(error, "errno", None) in _FULL:  # of this machine: the dump is as good as it was
                raise LongpoleError(
                    f"{folder.parent} cannot be written: {remote.reason(error)}",
                    "Free space on it, or set TMPDIR to a folder with more.",
                ) from error
            return ReadResult(task.dump, "", error=f"{task.dump.name} cannot be read: {remote.reason(error)}")
        if facts.n_stored == 0:
            return ReadResult(task.dump, content, error=f"{task.dump.name} holds no event that could be read")
        try:
            devices = _devices(task, store, folder, raw, facts, content, inputs)
        except DumpError as error:
            return ReadResult(task.dump, content, error=error.fact)
        return ReadResult(task.dump, content, facts, devices)


def _read_timeline(task: ReadTask, store: Store, folder: Path, here: str, content: str) -> ReadResult:
    job = timelines.job_beside(task.dump.url)  # never beside the copy of a remote dump
    if (content, timelines.inputs_of(content, job)) in task.known:
        return ReadResult(task.dump, content, is_known=True)
    told = DumpEntry(content, task.dump.name, task.dump.n_bytes, task.dump.modified)
    stored = timelines.read_timeline(store, task.run, here, told, job, folder, task.memory)
    return ReadResult(task.dump, content, stored=stored)


def _read_flight(task: ReadTask, store: Store, folder: Path, here: str, content: str) -> ReadResult:
    rank = flights.rank_of(task.dump.name, task.rank_pattern)
    content = key_of(content, rank)  # ranks that enqueued nothing leave the same bytes, and each is a dump
    if (content, flights.inputs_of(content, rank)) in task.known:
        return ReadResult(task.dump, content, is_known=True)
    told = DumpEntry(content, task.dump.name, task.dump.n_bytes, task.dump.modified, rank=rank)
    return ReadResult(task.dump, content, stored=flights.read_flight(store, task.run, here, told, folder, task.memory))


def _read_telemetry(task: ReadTask, store: Store, folder: Path, here: str, content: str) -> ReadResult:
    if (content, telemetry.inputs_of(content, task.utc_offset)) in task.known:
        return ReadResult(task.dump, content, is_known=True)
    told = DumpEntry(content, task.dump.name, task.dump.n_bytes, task.dump.modified)
    stored = telemetry.read_telemetry(store, task.run, here, told, folder, task.memory, task.utc_offset)
    return ReadResult(task.dump, content, stored=stored)


def _known(store: Store, manifest: Manifest | None) -> tuple[tuple[str, str], ...]:
    """Return (content, inputs) of every dump of the manifest whose files, of all its ranks, are there, whole."""
    if manifest is None:
        return ()
    files = manifest.sources()
    lost = {content_of(f) for f in set(files) - store.whole(manifest.run, files)}
    return tuple(sorted({(content_of(f), f.inputs) for f in files if content_of(f) not in lost}))


def _inputs_of(content: str, config_key: str) -> str:
    """Return the hash of all that a dump's events follow from."""
    return key_of(content, config_key, SCHEMA_VERSION, catalog.fingerprint("dump"), __version__)


def _content_of(dump: Candidate, copy: Path | None) -> str:
    """Return the hash of a dump's content, and leave a copy where one is wanted: it is fetched once."""
    digest = hashlib.blake2b(digest_size=16)
    with remote.open_file(dump.url) as file, contextlib.ExitStack() as stack:
        target = stack.enter_context(copy.open("wb")) if copy is not None else None
        while block := file.read(1 << 20):
            digest.update(block)
            if target is not None:
                target.write(block)
    return digest.hexdigest()


def _content_of_tables(tables: Mapping[str, Path]) -> str:
    return key_of(*(f"{table} {file_digest(path)}" for table, path in sorted(tables.items())))


def _read_raw(task: ReadTask, dump: str, tables: Mapping[str, Path], target: Path) -> DumpFacts:
    strings = [f.name for f in RAW_SCHEMA if pa.types.is_dictionary(f.type)]
    integers = {f.name: "DELTA_BINARY_PACKED" for f in RAW_SCHEMA if pa.types.is_integer(f.type)}
    marker = task.step_pattern if task.step_pattern != STEP_PATTERN else None
    options = ReadOptions(task.threads, scratch=str(target.parent), marker=marker)
    with pq.ParquetWriter(
        target,
        RAW_SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=strings,
        column_encoding=integers,
    ) as writer:
        times = InTime(writer.write_table)
        if tables:
            return times.checked(nsys_folder.read(tables, task.dump.name, times.add, options))
        with remote.open_file(dump) as file:
            reader = reader_for(head_of(file), task.dump.name, task.chrome)
            file.seek(0)
            return times.checked(reader.read(file, task.dump.name, times.add, options))


def _devices(
    task: ReadTask, store: Store, folder: Path, raw: Path, facts: DumpFacts, content: str, inputs: str
) -> tuple[DeviceEvents, ...]:
    """Return the events of each rank in the dump, in order of device, then of process."""
    if len(facts.processes) < 2:
        return tuple(_link(task, store, folder, raw, facts, f"{content}-{inputs}", inputs))
    found: list[DeviceEvents] = []
    part = folder / "process.parquet"
    for process in facts.processes:
        # Streams, correlations and threads are each process's own: read together they would be taken for one.
        with connection(folder, task.memory, task.threads) as con:
            con.execute(
                f"COPY (FROM read_parquet({quoted(raw)}) WHERE process = {int(process)}) TO {quoted(part)}"
                " (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            )
        if pq.read_metadata(part).num_rows:
            linked = _link(task, store, folder, part, facts, f"{content}-{inputs}-{process}", inputs)
            found += [dataclasses.replace(d, process=process) for d in linked] if facts.processes_are_ranks else linked
        if len(found) > MAX_DEVICES and not facts.processes_are_ranks:
            raise DumpError(f"{task.dump.name} has more than {MAX_DEVICES} devices, which is the most of one dump")
    return tuple(sorted(found, key=lambda d: (d.device is None, d.device or 0, d.process or 0)))


def _link(
    task: ReadTask, store: Store, folder: Path, raw: Path, facts: DumpFacts, staged_name: str, inputs: str
) -> Iterable[DeviceEvents]:
    with connection(folder, task.memory, task.threads) as con:
        rows = f"SELECT *, file_row_number AS row_id FROM read_parquet({quoted(raw)}, file_row_number = true)"
        has_memory = con.execute(f"SELECT bool_or(category = 'memory') FROM ({rows})").fetchall() == [(True,)]
        if has_memory:
            con.execute(f"CREATE VIEW raw_memory AS {rows} WHERE category = 'memory'")
            rows += " WHERE category IS DISTINCT FROM 'memory'"
        con.execute(f"CREATE VIEW raw AS {rows}")
        con.execute("CREATE TABLE context (base_ns BIGINT, step_pattern VARCHAR)")
        pattern = STEP_PATTERN if facts.format == timers_log.NAME else task.step_pattern  # its lines say their step
        con.execute("INSERT INTO context VALUES ($1, $2)", [facts.base_ns, pattern])
        catalog.load_data(con, "comm_patterns", [{"pattern": p, "library": "run.toml"} for p in task.comm_kernels])
        events = folder / "events.parquet"
        given = {"raw", "raw_memory", "context", "events", "dump_devices", *(() if has_memory else ("memory_events",))}
        for relation in catalog.needed("dump", given):
            con.execute(f"CREATE TEMP TABLE {relation.name} AS {relation.sql}")
        known = catalog.relations()
        _code_texts(con)
        n_events = _write_events(con, known["events"].sql, events)
        con.execute(f"CREATE VIEW events AS FROM read_parquet({quoted(events)})")
        devices = con.execute(f"SELECT * FROM ({known['dump_devices'].sql}) ORDER BY device NULLS LAST").fetchall()
        active = [d for d in devices if d[0] is not None and d[1] > 0] or devices[:1]
        is_of_many = (facts.rank is not None and (facts.world_size or 1) > 1) or len(facts.processes) > 1
        if len(active) > 1 and is_of_many:
            # Of a job of many ranks a process has one device, others are strays.
            active = [max(active, key=lambda d: (d[1], -d[0]))]
        if len(active) > MAX_DEVICES:
            raise DumpError(
                f"{task.dump.name} has kernels of {len(active)} devices; one dump has {MAX_DEVICES} at most"
            )
        for device, _, _, process, first_ns, last_ns, first_step, last_step, n_steps, unusable, repeated in active:
            target, n_rows = events, n_events
            if len(active) < len([d for d in devices if d[0] is not None]) or len(active) > 1:
                target = folder / f"device{device}.parquet"
                mine = f"category NOT IN ('kernel', 'memcpy', 'memset', 'sync') OR device IS NOT DISTINCT FROM {device}"
                n_rows = _write_events(con, f"FROM events WHERE {mine}", target)
            memory = None
            if has_memory:
                whose = "" if target is events else f" WHERE coalesce(device, {device}) = {device}"
                memory = _stage_memory(task, store, con, whose, folder, f"{staged_name}-{device}")
            staged = f"events/staged/{staged_name}-{device}.parquet"
            digest, n_bytes = file_digest(target), target.stat().st_size
            store.put(target, task.run, staged)
            n_left_out = sum(d[2] for d in devices if d[0] is not None and d not in active)
            yield DeviceEvents(
                n_left_out,
                unusable,
                repeated,
                staged,
                inputs,
                digest,
                n_bytes,
                n_rows,
                device,
                process,
                first_ns,
                last_ns,
                first_step,
                last_step,
                n_steps,
                memory,
            )


def _stage_memory(
    task: ReadTask, store: Store, con: duckdb.DuckDBPyConnection, whose: str, folder: Path, name: str
) -> StagedFile:
    """Write the allocations of one device and of the host to the store."""
    file, path = folder / "memory.parquet", f"facts/staged/{name}.parquet"
    n_rows = write_ordered(con, f"FROM memory_events{whose}", catalog.relations()["memory_events"].order, file)
    staged = StagedFile(path, file_digest(file), file.stat().st_size, n_rows)
    store.put(file, task.run, path)
    return staged


def _code_texts(con: duckdb.DuckDBPyConnection) -> None:
    """Replace the view `raw` by one whose commonest texts are enums: a sort then carries four bytes, not the text."""
    coded = ["category", "name"]
    if con.execute(f"SELECT count(*) <= {MOST_INPUTS} FROM (SELECT DISTINCT inputs FROM raw)").fetchall() == [(True,)]:
        coded.append("inputs")
    for column in coded:
        con.execute(
            f"CREATE TYPE {column}_text AS ENUM (SELECT DISTINCT {column} FROM raw WHERE {column} IS NOT NULL"
            f" ORDER BY {column})"
        )
    con.execute("ALTER VIEW raw RENAME TO raw_texts")
    con.execute(
        f"CREATE VIEW raw AS SELECT * REPLACE ({', '.join(f'{c}::{c}_text AS {c}' for c in coded)}) FROM raw_texts"
    )


def _write_events(con: duckdb.DuckDBPyConnection, select: str, target: Path) -> int:
    """Write events in a total order, so that two runs give the same bytes; return how many there are."""
    return write_ordered(con, select, "start_ns, row_id", target, group_rows=EVENTS_PER_ROW_GROUP)


def _merge(
    store: Store,
    run: str,
    before: Manifest | None,
    results: Sequence[ReadResult],
    config_text: str,
    rank_pattern: str | None,
) -> Manifest:
    """Return the manifest of what was known and what was read, events moved to where their rank belongs."""
    seen: dict[str, ReadResult] = {}
    for result in results:  # the same content under two names is one dump
        seen.setdefault(result.content or result.dump.url, result)
    fresh = [r for r in seen.values() if not r.is_known]
    replaced = {r.dump.name for r in fresh} | {r.dump.name for r in results if r.is_known}
    fresh_contents = {r.content for r in fresh if r.content}
    kept = [
        d
        for d in (before.dumps if before else ())
        if d.dump not in fresh_contents
        and (d.path not in replaced or d.dump in {r.content for r in results if r.is_known})
    ]
    kept_contents = {d.dump for d in kept}
    files = [f for f in (before.files if before else ()) if f.table not in SOURCES or content_of(f) in kept_contents]
    ranks = _ranks_of(fresh, bool(kept), rank_pattern)
    width = max([1, *(len(r.devices) for r in fresh if r.facts is not None and not r.facts.processes_are_ranks)])
    entries = list(kept)
    for result in fresh:
        if result.stored is not None:
            entries += result.stored.entries
            files += result.stored.files
            continue
        if result.facts is None:
            entries.append(
                DumpEntry(
                    dump=result.content or key_of(result.dump.url),
                    path=result.dump.name,
                    n_bytes=result.dump.n_bytes,
                    modified=result.dump.modified,
                    verdict="unreadable",
                    error=result.error,
                )
            )
            continue
        for place, device in enumerate(result.devices):
            rank = ranks[result.content] * width + place if width > 1 else ranks[result.content]
            if result.facts.processes_are_ranks:
                assert device.process is not None
                rank = device.process
            path = f"events/rank={rank:05d}/{result.content}.{device.inputs}.parquet"
            store.move(run, device.staged, path)
            files.append(
                PublishedFile(
                    "events",
                    path,
                    device.inputs,
                    device.digest,
                    device.n_bytes,
                    device.n_rows,
                    rank,
                    device.first_step,
                    device.last_step,
                )
            )
            if device.memory is not None:
                path = f"facts/memory_events/rank={rank:05d}.{result.content}.{device.inputs}.parquet"
                store.move(run, device.memory.path, path)
                files.append(
                    PublishedFile(
                        "memory_events",
                        path,
                        device.inputs,
                        device.memory.digest,
                        device.memory.n_bytes,
                        device.memory.n_rows,
                        rank,
                    )
                )
            entries.append(_entry(result, device, rank))
    if not any(d.error is None and d.format != telemetry.FORMAT for d in entries):
        facts = "\n".join(d.error or f"{d.path} is telemetry, which stands beside dumps" for d in entries)
        raise DumpError(
            f"no dump of run {run!r} can be read:\n{facts}", "Name profiler dumps: README lists the formats."
        )
    entries, files = flights.without_repeats(entries, files)
    _refuse_mixtures([d for d in entries if d.error is None])
    _refuse_overlaps([d for d in entries if d.error is None])
    return Manifest(run=run, config=config_text, dumps=tuple(entries), files=tuple(files))


def _ranks_of(fresh: Sequence[ReadResult], has_others: bool, pattern: str | None) -> dict[str, int]:
    """Return the rank of each dump by content: the person's pattern, else the dump's own word, else its name."""
    ranks: dict[str, int] = {}
    unknown: list[str] = []
    readable = [r for r in fresh if r.facts is not None]
    for result in readable:
        assert result.facts is not None
        rank: int | None
        if result.facts.processes_are_ranks:
            rank = result.facts.processes[0]
        elif pattern is not None:
            rank = rank_from_name(result.dump.name, pattern)
        elif result.facts.rank is not None:
            rank = result.facts.rank
        else:
            rank = rank_from_name(result.dump.name)
        if rank is None and len(readable) == 1 and not has_others:
            rank = 0
        if rank is None:
            unknown.append(result.dump.name)
        else:
            ranks[result.content] = rank
    if unknown:
        shown = "\n".join(f"  {name}" for name in unknown[:5]) + ("\n  ..." if len(unknown) > 5 else "")
        raise LongpoleError(
            f"no rank is known for {len(unknown)} of {len(readable)} dumps:\n{shown}",
            "Neither the dump nor its name says it. Give a pattern whose first group is the rank in the path:\n"
            r"  --rank-from 'node_(\d+)\.json'",
        )
    return ranks


def _entry(result: ReadResult, device: DeviceEvents, rank: int) -> DumpEntry:
    facts = result.facts
    assert facts is not None
    names = {d.index: d for d in facts.devices}
    described = names.get(device.device) if device.device is not None else None
    doubts = [
        *(["truncated"] if facts.is_truncated else []),
        *([f"{facts.n_dropped} events dropped"] if facts.n_dropped else []),
        *([f"{facts.n_bad_times} events with an impossible time"] if facts.n_bad_times else []),
        *([f"{device.n_left_out} activities on other devices left out"] if device.n_left_out else []),
        *([f"{device.n_unusable} step markers without a usable number"] if device.n_unusable else []),
        *([f"{device.n_repeated} steps marked more than once"] if device.n_repeated else []),
        *(["metadata that makes no sense"] if any("makes no sense" in n for n in facts.notes) else []),
    ]
    notes = list(facts.notes)
    if facts.rank is None and not facts.processes_are_ranks:
        notes.append(f"the dump does not say its rank: taken as {rank}")
    if len(result.devices) > 1:
        notes.append(
            f"{len(facts.processes)} {'ranks' if facts.processes_are_ranks else 'processes'} in one dump"
            + ("" if facts.processes_are_ranks else ": one rank each")
            if len(facts.processes) > 1
            else f"{len(result.devices)} devices in one dump: one rank each"
        )
    return DumpEntry(
        dump=result.content,
        path=result.dump.name,
        n_bytes=result.dump.n_bytes,
        modified=result.dump.modified,
        format=facts.format,
        schema=facts.schema,
        rank=rank,
        world_size=facts.world_size,
        host=facts.host,
        process=device.process,
        device_index=device.device,
        device_name=(described.name or None) if described else None,
        device_memory_bytes=described.memory_bytes if described else None,
        n_devices=len(facts.devices),
        backend=facts.backend,
        process_groups=facts.process_groups,
        first_ns=device.first_ns,
        last_ns=device.last_ns,
        first_step=device.first_step,
        last_step=device.last_step,
        n_steps=device.n_steps,
        n_events=facts.n_events,
        n_stored=facts.n_stored,
        n_skipped=facts.n_skipped,
        n_dropped=facts.n_dropped,
        n_salvaged=facts.n_salvaged,
        n_rounded=facts.n_rounded,
        n_bad_times=facts.n_bad_times,
        is_truncated=facts.is_truncated,
        n_lost_bytes=facts.n_lost_bytes,
        notes=tuple(notes),
        verdict="; ".join(doubts) or "ok",
    )


def _refuse_mixtures(entries: Sequence[DumpEntry]) -> None:
    """An op timeline is a whole job: beside another, or beside profiler dumps, a run would be two."""
    jobs = {d.dump: d.path for d in entries if d.format == timelines.FORMAT}
    others = [d.path for d in entries if d.format != timelines.FORMAT]
    if len(jobs) > 1 or (jobs and others):
        shown = "\n".join(f"  {path}" for path in [*sorted(jobs.values()), *others][:5])
        raise LongpoleError(
            f"an op timeline is a run of its own, and these are several:\n{shown}",
            "Name one of them. Of a folder's timelines the one is taken whose metadata has the run's --name as its"
            " trial_name.",
        )


def _refuse_overlaps(entries: Sequence[DumpEntry]) -> None:
    """Two dumps of one rank must be separate recordings, or ranks are confused and every number with them."""
    by_rank: dict[int, list[DumpEntry]] = {}
    for entry in entries:
        if entry.format not in (flights.FORMAT, telemetry.FORMAT):  # they go on while a profiler records
            by_rank.setdefault(entry.rank if entry.rank is not None else -1, []).append(entry)
    for rank, mine in sorted(by_rank.items()):
        mine.sort(key=lambda d: (d.first_ns or 0, d.path))
        for one, other in itertools.pairwise(mine):
            overlap = _overlap(one, other)
            if overlap:
                raise LongpoleError(
                    f"rank {rank} has two dumps of the same {overlap}:\n  {one.path}\n  {other.path}",
                    "If they are two ranks, say which with --rank-from; if they are two attempts of a job, make each a"
                    " run of its own with --name.",
                )


def _overlap(one: DumpEntry, other: DumpEntry) -> str:
    if one.last_ns is not None and other.first_ns is not None and other.first_ns < one.last_ns:
        return "time"
    spans = (one.first_step, one.last_step, other.first_step, other.last_step)
    if None in spans:
        return "steps" if spans == (None, None, None, None) else ""
    assert one.first_step is not None and one.last_step is not None
    assert other.first_step is not None and other.last_step is not None
    return "steps" if other.first_step <= one.last_step and one.first_step <= other.last_step else ""
