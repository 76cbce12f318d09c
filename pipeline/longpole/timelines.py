"""A run that is an op timeline: its ops into the store, and what its steps would take with other durations.

The dependencies of a pipelined step are edges (sql/run/_timeline_*.sql) of the one replay (sql/run/replayed.sql); a
task replays every scenario of a range of steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longpole import __version__, catalog, remote
from longpole.catalog import Scope
from longpole.engine import connection, quoted, reading, write_ordered
from longpole.errors import DumpError, LongpoleError
from longpole.events import SCHEMA_VERSION
from longpole.formats.op_timeline import RAW_OPS, Job, is_op_timeline, metadata_names, read_job, read_ops
from longpole.store import DumpEntry, Manifest, PublishedFile, Store, StoredDump, file_digest, key_of

TABLE = "timeline_ops"
"""The table of a run that holds its ops, as `events` holds a profiler's."""

FORMAT = "op-timeline"

OPS_PER_SHARD = 60_000
"""Ops of one file and one task, in whole steps: twenty scenarios of them are 1.5 million edges, a second's work."""

MOST_EDGES = 200_000_000
"""Edges of one task: two minutes and some gigabytes of spill. A step of 16,384 workers with 100 ops has 40 million."""

_MOST_TYPES = 40  # named by `described`: a damaged dump may have as many as it has ops

RunTasks = Callable[[Callable[[Any], list[PublishedFile]], list[Any]], list[list[PublishedFile]]]


@dataclass(frozen=True)
class TimelineTask:
    """One evaluation of one scope: which published files it reads; plain data."""

    store_url: str
    run: str
    scope: Scope
    tables: tuple[tuple[str, tuple[str, ...]], ...]
    inputs: str
    memory: int
    has_workers: bool = False  # whether the scenarios are those that need the workers' scores
    first_step: int | None = None
    last_step: int | None = None


def is_timeline(url: str) -> bool:
    """Return whether the file holds an op timeline."""
    if remote.head_of(url, 4) != b"PAR1":
        return False
    with remote.open_file(url) as file:
        return is_op_timeline(file)


def job_beside(url: str) -> tuple[str, Job] | None:
    """Return the metadata file beside a timeline and the job that it describes; None where there is none.

    Raises:
        DumpError: It cannot be read, or is no metadata.
    """
    if not url.endswith(".parquet"):
        return None
    folder, _, name = url.rpartition("/")
    for meta in metadata_names(name):
        path = f"{folder}/{meta}"
        try:
            with fsspec.open(path, "rb") as file:
                raw = file.read((64 << 10) + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DumpError(f"{path} cannot be read: {error.strerror or error}") from error
        return meta, read_job(raw, path)
    return None


def of_job(urls: Sequence[str], run: str) -> set[str]:
    """Return those of a folder's files to leave out: all others, where the metadata of one says that it is this run."""
    jobs: dict[str, str | None] = {}
    for url in urls:
        try:
            found = job_beside(url)
        except DumpError:  # told when the timeline itself is read
            continue
        if found is not None:
            jobs[url] = found[1].trial_name
    return {url for url in urls if jobs.get(url) != run} if run in jobs.values() else set()


def described(url: str, name: str) -> list[str]:
    """Return what a timeline is, a line each; no store is touched.

    Raises:
        DumpError: It is damaged, or its metadata is none.
    """
    job = job_beside(url)
    steps: set[int] = set()
    ranks: set[int] = set()
    types: dict[str, int] = {}

    def count(batch: pa.Table) -> None:
        steps.update(s for s in pc.unique(batch["step"]).to_pylist() if s is not None)
        ranks.update(r for r in pc.unique(batch["rank"]).to_pylist() if r is not None)
        for entry in batch["optype"].combine_chunks().value_counts().to_pylist():
            types[entry["values"] or "none"] = types.get(entry["values"] or "none", 0) + entry["counts"]

    with fsspec.open(url, "rb") as file:
        n_rows = read_ops(file, name, count)
    return [
        f"format    {FORMAT}: ops of pipelined steps",
        f"ranks     {len(ranks)} of {job[1].world_size if job and job[1].world_size else 'unknown'}",
        f"steps     {min(steps)}-{max(steps)} ({len(steps)})" if steps else "steps     none",
        f"ops       {n_rows:,}: " + ", ".join(f"{kind[:60]} {n:,}" for kind, n in sorted(types.items())[:_MOST_TYPES]),
        f"note      {job[1].note() if job else 'no metadata beside it'}",
    ]


def inputs_of(content: str, job: tuple[str, Job] | None) -> str:
    """Return the hash of all that a timeline's files follow from."""
    return key_of(content, job, OPS_PER_SHARD, SCHEMA_VERSION, catalog.fingerprint("ops"), __version__)


def read_timeline(
    store: Store, run: str, url: str, told: DumpEntry, job: tuple[str, Job] | None, folder: Path, memory: int
) -> StoredDump:
    """Read an op timeline into the store.

    Args:
        told: What is known of the file: its content, name and size.

    Raises:
        DumpError: It is damaged, empty, or no timeline of one worker for each dp rank and stage.
    """
    raw, ops = folder / "raw.parquet", folder / "ops.parquet"
    with fsspec.open(url, "rb") as file, pq.ParquetWriter(raw, RAW_OPS, compression="zstd") as writer:
        n_rows = read_ops(file, told.path, writer.write_table)
    with connection(folder, memory) as con:
        con.execute(f"CREATE VIEW raw_ops AS FROM read_parquet({quoted(raw)})")
        for relation in catalog.needed("ops", {"raw_ops"}):
            con.execute(f"CREATE TEMP TABLE {relation.name} AS {relation.sql}")
        catalog.load_data(con, "timeline_optypes")
        inputs = inputs_of(told.dump, job)
        ranks = con.execute(
            "SELECT rank, min(start_ns), max(start_ns + duration_ns), min(step), max(step), count(DISTINCT step),"
            f" min(dp_rank), max(dp_rank), min(stage), max(stage) FROM {TABLE} GROUP BY rank ORDER BY rank"
        ).fetchall()
        if not ranks:
            raise DumpError(f"{told.path} is an op timeline without an op that could be read")
        _refuse_crowds(con, told.path)
        unknown = con.execute(
            f"SELECT optype, count(*) FROM {TABLE} WHERE optype NOT IN (SELECT optype FROM timeline_optypes)"
            " GROUP BY optype ORDER BY count(*) DESC, optype"
        ).fetchall()
        files = tuple(_write_shards(con, store, run, told.dump, inputs, ops))
    n_stored = sum(f.n_rows for f in files)
    n_unknown = sum(n for _, n in unknown)
    doubts = [
        *([f"{n_rows - n_stored} ops with a value that makes no sense dropped"] if n_rows > n_stored else []),
        *([f"{n_unknown} ops of types that no model of a step knows"] if n_unknown else []),
    ]
    notes = (
        job[1].note() if job else "no metadata beside it: sizes are what its ops show",
        *(f"{n} ops of type {name[:60]!r} are in no what-if" for name, n in unknown[:5]),
    )
    entries = tuple(
        DumpEntry(
            dump=told.dump,
            path=told.path,
            n_bytes=told.n_bytes,
            modified=told.modified,
            format=FORMAT,
            schema="ops of pipelined steps",
            rank=rank,
            world_size=job[1].world_size if job else None,
            first_ns=first_ns,
            last_ns=last_ns,
            first_step=first_step,
            last_step=last_step,
            n_steps=n_steps,
            n_events=n_rows,
            n_stored=n_stored,
            n_dropped=n_rows - n_stored,
            notes=notes,
            verdict="; ".join(doubts) or "ok",
        )
        for rank, first_ns, last_ns, first_step, last_step, n_steps, *_ in ranks
    )
    return StoredDump(files, entries)


def _refuse_crowds(con: duckdb.DuckDBPyConnection, path: str) -> None:
    """Refuse ranks that are several workers, and the reverse: ops that know nothing of each other would chain."""
    crowd = con.execute(
        f"SELECT dp_rank, stage, list_sort(list(DISTINCT rank))[:3] FROM {TABLE} GROUP BY dp_rank, stage"
        " HAVING count(DISTINCT rank) > 1 ORDER BY dp_rank, stage LIMIT 1"
    ).fetchall()
    for dp_rank, stage, ranks in crowd:
        raise DumpError(
            f"{path} has several ranks of dp rank {dp_rank} and stage {stage}: {ranks}",
            "Give one rank of each dp rank and stage: tensor-parallel ranks do the same ops at the same time.",
        )
    spread = con.execute(
        f"SELECT rank FROM {TABLE} GROUP BY rank HAVING count(DISTINCT (dp_rank, stage)) > 1 ORDER BY rank LIMIT 1"
    ).fetchall()
    for (rank,) in spread:
        raise DumpError(f"{path} has rank {rank} at several dp ranks or stages", "A rank has one place in the job.")


def _write_shards(
    con: duckdb.DuckDBPyConnection, store: Store, run: str, content: str, inputs: str, local: Path
) -> list[PublishedFile]:
    files: list[PublishedFile] = []
    counts = con.execute(f"SELECT step, count(*) FROM {TABLE} GROUP BY step ORDER BY step").fetchall()
    for first, last in _ranges(counts):
        wanted = f"FROM {TABLE} WHERE step BETWEEN {first} AND {last}"
        n_rows = write_ordered(con, wanted, catalog.relations()[TABLE].order, local)
        path = f"ops/steps={first:06d}-{last:06d}.{content}.{inputs}.parquet"
        n_bytes, digest = local.stat().st_size, file_digest(local)
        store.put(local, run, path)
        files.append(PublishedFile(TABLE, path, inputs, digest, n_bytes, n_rows, None, first, last))
    return files


def _ranges(counts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return first and last step of each shard: whole steps, as few shards as hold OPS_PER_SHARD each, of like size."""
    n_shards = -(-sum(n for _, n in counts) // OPS_PER_SHARD)
    wanted = -(-sum(n for _, n in counts) // n_shards)
    ranges: list[tuple[int, int]] = []
    n_ops = 0
    for step, n in counts:
        if not ranges or n_ops + n / 2 > wanted:
            ranges.append((step, step))
            n_ops = 0
        ranges[-1] = (ranges[-1][0], step)
        n_ops += n
    return ranges


def answers(
    store: Store, manifest: Manifest, known: Mapping[str, Sequence[PublishedFile]], run_tasks: RunTasks, memory: int
) -> list[PublishedFile]:
    """Return the files of every answer about the run's op timeline; none where the run has no such thing.

    The caller holds the run's lock, and has seen that the ops are there.

    Args:
        known: What is published already, by its inputs.
        run_tasks: Runs a function over tasks, here or on a cluster, and returns the results in order.
    """
    ops = list(manifest.of(TABLE))
    if not ops:
        return []

    def stage(tasks: list[TimelineTask]) -> list[PublishedFile]:
        todo = [t for t in tasks if t.inputs not in known]
        made = run_tasks(evaluate, todo) if todo else []
        return [f for t in tasks for f in known.get(t.inputs, [])] + [f for files in made for f in files]

    def task(scope: Scope, files: Sequence[PublishedFile], *, has_workers: bool = False) -> TimelineTask:
        read = sorted((f.table, f.first_step or 0, f.digest) for f in files)
        inputs = key_of(scope, has_workers, _fingerprint(), SCHEMA_VERSION, read)
        tables: dict[str, tuple[str, ...]] = {}
        for file in files:
            tables[file.table] = (*tables.get(file.table, ()), file.path)
        return TimelineTask(
            store.url, manifest.run, scope, tuple(sorted(tables.items())), inputs, memory, has_workers=has_workers
        )

    def replays(files: Sequence[PublishedFile], *, has_workers: bool) -> list[PublishedFile]:
        tasks = [task("replays", [shard, *files], has_workers=has_workers) for shard in ops]
        return stage(
            [replace(t, first_step=f.first_step, last_step=f.last_step) for t, f in zip(tasks, ops, strict=True)]
        )

    whole = stage([task("timeline", ops)])
    first = replays(whole, has_workers=False)
    replayed = [f for f in first if f.table == "timeline_replays"]
    workers = stage([task("workers", [*ops, *replayed])])
    second = replays([*whole, *workers], has_workers=True)
    last = stage([task("whatif", [*replayed, *second, *workers, *whole])])
    return [*whole, *first, *workers, *second, *last]


def evaluate(task: TimelineTask) -> list[PublishedFile]:
    """Evaluate the relations of one scope and publish their files; return what was published."""
    store = Store(task.store_url)
    published: list[PublishedFile] = []
    with store.scratch() as folder, connection(folder, task.memory, is_ordered=False) as con:
        given = dict(task.tables)
        if task.scope == "replays":
            given.setdefault("timeline_workers", ())  # not known yet
        for name, paths in given.items():
            local = store.fetch(task.run, list(paths), folder)
            where = f" WHERE needs_workers = {task.has_workers}" if name == "timeline_scenarios" else ""
            con.execute(f"CREATE VIEW {name} AS {reading(name, local, where)}")
        relations = catalog.needed(task.scope, {*given, "replay_edges", *catalog.data_names()})
        catalog.load_data_of(con, relations)
        after_replay = {r.name for r in relations if "replayed" in r.reads} | {"replayed"}
        for relation in sorted(relations, key=lambda r: r.name in after_replay):  # keeps the order within both
            if task.has_workers and relation.name == "timeline_retimed":
                continue  # said by the scenarios before
            if relation.name == "replayed":
                con.execute("CREATE TEMP VIEW replay_edges AS FROM _timeline_edges")
            con.execute(f"CREATE TEMP {'VIEW' if relation.is_view else 'TABLE'} {relation.name} AS {relation.sql}")
            if relation.name == "_timeline_lanes":
                _refuse_flood(con, task.run)
            if relation.scope == task.scope and not relation.is_private:
                published.append(_publish(con, store, task, relation, folder))
    return published


def _refuse_flood(con: duckdb.DuckDBPyConnection, run: str) -> None:
    """Refuse more edges than a task can replay: replicas of which no two are alike must all be replayed for each."""
    ((n_edges,),) = con.execute(
        "SELECT coalesce(sum(n), 0)::BIGINT FROM _timeline_lanes"
        " JOIN (SELECT step, dp_rank, count(*) AS n FROM _timeline_arcs GROUP BY step, dp_rank) USING (step, dp_rank)"
    ).fetchall()
    if n_edges > MOST_EDGES:
        raise LongpoleError(
            f"the steps of run {run!r} have {n_edges:,} dependencies to replay at once, more than {MOST_EDGES:,}",
            "Its dp ranks do not do the same ops, so none stands for another. Record fewer of them, or leave out those"
            " ops in which they differ.",
        )


def _publish(
    con: duckdb.DuckDBPyConnection, store: Store, task: TimelineTask, relation: catalog.Relation, folder: Path
) -> PublishedFile:
    local = folder / f"{relation.name}.parquet"
    n_rows = write_ordered(con, f"FROM {relation.name}", relation.order, local)
    label = "run" if task.first_step is None else f"steps={task.first_step:06d}-{task.last_step:06d}"
    path = f"marts/{relation.table}/{label}.{task.inputs}.parquet"
    n_bytes, digest = local.stat().st_size, file_digest(local)
    store.put(local, task.run, path)
    return PublishedFile(
        relation.table, path, task.inputs, digest, n_bytes, n_rows, None, task.first_step, task.last_step
    )


def _fingerprint() -> str:
    return catalog.fingerprint("timeline", "replays", "workers", "whatif", "replay")
