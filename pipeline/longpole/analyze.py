"""Events to answers: run the catalogue's levels, each task one function of published files and plain data.

A rank's facts come from its own events; a range of steps comes from all ranks' facts; the run's answers come from both.
A task whose inputs are those of a file already published is not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from longpole import __version__, catalog, config, flights, timelines, whatif
from longpole.catalog import Scope
from longpole.cluster import DEFAULT_TASK_MEMORY
from longpole.engine import connection, gathering, load_dump_facts, load_phases, quoted, reading, write_ordered
from longpole.errors import LongpoleError
from longpole.events import SCHEMA_VERSION
from longpole.remote import StepRange
from longpole.store import (
    DUMP_TABLE,
    SOURCES,
    DumpEntry,
    Manifest,
    PublishedFile,
    RankPlace,
    Store,
    content_of,
    file_digest,
    key_of,
    refuse_pruned,
    without_events,
)

MAX_SHARDS = 2_000
"""Run-level tasks of one run at most: beyond it shards are ten times as wide. A schedule that records four steps of
every thousand has few steps in a wide shard; what numbers its steps at random is not sent a task for each."""

STEPS_PER_SHARD = 50
"""Steps of one run-level task, in blocks aligned to multiples of it: a longer run adds shards and moves none."""


@dataclass(frozen=True)
class Told:
    """What a run's manifest says beside its files; a task gets only what its relations read."""

    dumps: tuple[DumpEntry, ...] = ()
    topology: tuple[RankPlace, ...] = ()
    parallel: config.Parallel = field(default_factory=config.Parallel)
    phases: tuple[tuple[str, str], ...] = ()
    figures: tuple[config.Figure, ...] = ()

    def key(self) -> str:
        """Return a hash of it all."""
        return key_of(msgspec.json.encode(self).decode())


@dataclass(frozen=True)
class AnalyzeTask:
    """One evaluation of one scope: which published files it reads, and what it is to write."""

    store_url: str
    run: str
    scope: Scope
    tables: tuple[tuple[str, tuple[str, ...]], ...]  # relation, the paths that hold it
    told: Told
    inputs: str
    memory: int
    rank: int | None = None
    first_step: int | None = None
    last_step: int | None = None


def analyze_run(
    store: Store,
    run: str,
    *,
    run_tasks: Callable[[Callable[[AnalyzeTask], list[PublishedFile]], list[AnalyzeTask]], list[list[PublishedFile]]],
    memory: int = DEFAULT_TASK_MEMORY,
    has_what_ifs: bool | None = None,
) -> Manifest:
    """Return the run's manifest after every fact and mart is made of the events it has now.

    The caller holds the run's lock.

    Args:
        run_tasks: Runs a function over tasks, here or on a cluster, and returns the results in order.
        has_what_ifs: Whether to ask what stragglers cost and what to fix first; None asks it of runs of moderate size.

    Raises:
        LongpoleError: The run has no events; or some were pruned, and its answers are not this version's.
    """
    manifest = store.manifest(run)
    if without_events(manifest):
        if not is_analyzed(manifest):
            refuse_pruned(manifest, "to make its answers anew")
        return manifest
    sources = manifest.sources()
    if not sources:
        raise LongpoleError(f"run {run!r} has no events", "Ingest its dumps: longpole ingest DUMPS --name " + run)
    whole = store.whole(run, manifest.files)
    for file in sources:
        if file not in whole:
            raise LongpoleError(
                f"{store.path('runs', run, file.path)} is gone or damaged",
                f"Read its dump again: longpole ingest DUMPS --name {run}",
            )

    known: dict[str, list[PublishedFile]] = {}
    for file in manifest.files:
        if file.table not in SOURCES:
            known.setdefault(file.inputs, []).append(file)
    known = {inputs: files for inputs, files in known.items() if whole.issuperset(files)}

    def stage(tasks: list[AnalyzeTask]) -> list[PublishedFile]:
        todo = [t for t in tasks if t.inputs not in known]
        made = run_tasks(evaluate, todo) if todo else []
        return [f for t in tasks for f in known.get(t.inputs, [])] + [f for files in made for f in files]

    rank_files = stage(_rank_tasks(store, manifest, memory))
    settings = config.parse(manifest.config, "config.toml")
    told = Told(manifest.dumps, manifest.topology, settings.parallel)
    marts = stage([_run_level_task(store, run, "clock", ("rank_collectives",), rank_files, told, memory)])
    rank_files += stage(_sampled_tasks(store, manifest, rank_files, marts, memory))
    steps_tasks = _step_tasks(store, run, [*rank_files, *marts], memory)
    marts += stage(steps_tasks)
    path_files = stage(_path_tasks(store, manifest, marts, memory))
    marts += [*path_files, *stage(_paths_tasks(store, run, steps_tasks, path_files, memory))]
    known_files = [*rank_files, *marts, *manifest.of("telemetry")]
    marts += stage([_run_level_task(store, run, "run", _RUN_READS, known_files, told, memory)])
    if manifest.of("events"):
        marts += _priced(store, manifest, [*rank_files, *marts], known, run_tasks, memory, has_what_ifs=has_what_ifs)
        marts += stage([_run_level_task(store, run, "priced", ("straggler_ranks", "run_whatif"), marts, told, memory)])
        told = Told(dumps=manifest.dumps, figures=settings.figures())
        marts += stage([_run_level_task(store, run, "mfu", _MFU_READS, [*rank_files, *marts], told, memory)])
    marts += timelines.answers(store, manifest, known, run_tasks, memory)
    marts += flights.answers(store, manifest, marts, known, run_tasks, memory)
    told = Told(dumps=manifest.dumps)
    marts += stage([_run_level_task(store, run, "measures", _MEASURES_READ, [*rank_files, *marts], told, memory)])
    files = (*sources, *rank_files, *marts)
    if _replayed(files) == _replayed(manifest.files):  # a what-if replayed these very steps
        files += manifest.of("step_replays")
    updated = msgspec.structs.replace(manifest, tool_version=__version__, files=files, analyzed=_analysis_key(manifest))
    if msgspec.structs.replace(updated, files=()) != msgspec.structs.replace(manifest, files=()) or set(
        updated.files
    ) != set(manifest.files):
        store.publish(updated)
    store.sweep(updated)
    return updated


def is_analyzed(manifest: Manifest) -> bool:
    """Return whether the run's answers are those that this version makes of its dumps and its run.toml."""
    return manifest.analyzed == _analysis_key(manifest)


def _analysis_key(manifest: Manifest) -> str:
    """Return the hash of all that answers follow from; of dumps what they hold, not the events, which may be pruned."""
    sql = catalog.fingerprint(*(scope for level in ("rank", "run") for scope in catalog.LEVELS[level]))
    settings = config.parse(manifest.config, "config.toml")
    phases = tuple(settings.phases.items())
    told = Told(manifest.dumps, manifest.topology, settings.parallel, phases, settings.figures())
    return key_of(__version__, SCHEMA_VERSION, sql, settings.ingest_key(), told.key())


def _replayed(files: Sequence[PublishedFile]) -> set[PublishedFile]:
    return {f for f in files if f.table in ("events", "rank_clocks", "steps")}


def _priced(
    store: Store,
    manifest: Manifest,
    answers: Sequence[PublishedFile],
    known: Mapping[str, Sequence[PublishedFile]],
    run_tasks: Callable[..., Any],
    memory: int,
    *,
    has_what_ifs: bool | None,
) -> Sequence[PublishedFile]:
    """Return the files of what stragglers cost and what to fix first: kept, or made where asked for or affordable."""
    read = sorted(
        (f.table, f.rank or 0, f.first_step or 0, f.digest)
        for f in (*manifest.of("events"), *answers)
        if f.table
        in ("events", "rank_clocks", "steps", "path_pieces", "ranks", "straggler_scenarios", "opportunity_changes")
    )
    inputs = key_of("priced", catalog.fingerprint("rank", "graph", "predict", "replay"), manifest.config, read)
    if inputs in known:
        return known[inputs]
    n_events = sum(f.n_rows for f in manifest.of("events"))
    if has_what_ifs is False or (has_what_ifs is None and n_events > whatif.MOST_PRICED_EVENTS):
        return ()
    whole = msgspec.structs.replace(manifest, files=(*manifest.of("events"), *answers))
    return whatif.price(store, whole, inputs, run_tasks=run_tasks, memory=memory)


def evaluate(task: AnalyzeTask) -> list[PublishedFile]:
    """Evaluate the relations of one scope and publish their files; return what was published."""
    store = Store(task.store_url)
    published: list[PublishedFile] = []
    given = {name for name, _ in task.tables} | {
        "dumps",
        "dump_facts",
        "context",
        "shard",
        "topology",
        "parallel",
        "run_config",
        "phase_patterns",
        "told_hardware",
    }
    given.update(catalog.data_names())
    if task.scope == "path":
        given.add("_host_intervals")
    relations = catalog.needed(task.scope, given)
    read = {name for relation in relations for name in relation.reads}
    with store.scratch() as folder, connection(folder, task.memory) as con:
        for name, paths in task.tables:
            rows = _rows(name, task)
            local = store.fetch(task.run, list(paths), folder, rows)
            where = "" if rows is None else f" WHERE {rows.column} BETWEEN {rows.first} AND {rows.last}"
            where = " WHERE is_anchor" if task.scope == "clock" else where
            con.execute(f"CREATE VIEW {name} AS {reading(name, local, where)}")
        _load_context(con, task, read)
        catalog.load_data_of(con, relations)
        for relation in relations:
            name = relation.name
            if relation.is_private or relation.scope != task.scope:
                with gathering(con, relation.is_recursive):
                    con.execute(f"CREATE TEMP {'VIEW' if relation.is_view else 'TABLE'} {name} AS {relation.sql}")
                continue
            # What is published is made once, as its file; relations after it read that.
            file = folder / f"{name}.parquet"
            with gathering(con, relation.is_recursive):
                n_rows = write_ordered(
                    con,
                    relation.sql,
                    relation.order,
                    file,
                    is_sorted=relation.is_sorted,
                    group_rows=ROWS_PER_GROUP if name in (*_STEPS_READ, *_PATHS_READ) else None,
                )
            con.execute(f"CREATE TEMP VIEW {name} AS FROM read_parquet({quoted(file)})")
            steps = _step_range(con, task, name)
            published.append(
                PublishedFile(
                    name,
                    _place(name, task),
                    task.inputs,
                    file_digest(file),
                    file.stat().st_size,
                    n_rows,
                    task.rank,
                    **steps,
                )
            )
        for made in published:
            store.put(folder / f"{made.table}.parquet", task.run, made.path)
    return published


_HARDWARE = ("device", "dtype", "peak_flops", "hbm_bytes_per_s", "link_bytes_per_s")
"""Keys of [hardware] that a rank's clocks run by; without a device there, it is the one that its dumps name."""


def _rank_tasks(store: Store, manifest: Manifest, memory: int) -> list[AnalyzeTask]:
    told = config.parse(manifest.config, "config.toml")
    figures, phases = told.figures(), tuple(told.phases.items())
    hardware = tuple(f for f in figures if f[0].removeprefix("hardware_") in _HARDWARE)
    tasks: list[AnalyzeTask] = []
    by_rank: dict[int, list[PublishedFile]] = {}
    for file in manifest.of("events"):
        assert file.rank is not None
        by_rank.setdefault(file.rank, []).append(file)
    for rank, files in sorted(by_rank.items()):
        dumps = sorted(
            (d for d in manifest.dumps if d.rank == rank and d.error is None), key=lambda d: (d.first_ns or 0, d.dump)
        )
        paths = {content_of(f): f for f in files}
        ordered = [(d, paths[d.dump]) for d in dumps if d.dump in paths]
        allocations = [f for f in manifest.of("memory_events") if f.rank == rank]
        inputs = key_of(
            "rank",
            _SHARD_DIGESTS,
            catalog.fingerprint("rank"),
            SCHEMA_VERSION,
            rank,
            [(f.digest, d.is_truncated, d.n_dropped, d.device_name) for d, f in ordered],
            [f.digest for f in allocations],
            [value for _, _, value in hardware],
            phases,
        )
        tasks.append(
            AnalyzeTask(
                store.url,
                manifest.run,
                "rank",
                (("events", tuple(f.path for _, f in ordered)), *_tables(allocations, ("memory_events",))),
                Told(tuple(d for d, _ in ordered), figures=hardware, phases=phases),
                inputs,
                memory,
                rank=rank,
            )
        )
    return tasks


def _sampled_tasks(
    store: Store, manifest: Manifest, rank_files: Sequence[PublishedFile], marts: Sequence[PublishedFile], memory: int
) -> list[AnalyzeTask]:
    """Return a task for each rank of a run with telemetry: its windows beside the samples of its device."""
    samples = manifest.of("telemetry")
    ranks = [f for f in marts if f.table == "ranks"]
    tasks = []
    for file in rank_files if samples else ():
        if file.table == "rank_windows":
            names = ("rank_windows", "ranks", "telemetry")
            mine = [file, *ranks, *samples]
            task = _run_level_task(store, manifest.run, "sampled", names, mine, Told(), memory)
            tasks.append(replace(task, rank=file.rank))
    return tasks


def _path_tasks(store: Store, manifest: Manifest, marts: Sequence[PublishedFile], memory: int) -> list[AnalyzeTask]:
    """Return a task for each rank that a critical path goes through: it gives the path's pieces their names."""
    pieces = [f for f in marts if f.table == "path_pieces"]
    clocks = [f for f in marts if f.table == "rank_clocks"]
    tasks = []
    for task in _rank_tasks(store, manifest, memory):
        mine = [f for f in pieces if task.rank in f.ranks]
        if not mine:
            continue
        read = sorted((f.table, f.first_step or 0, f.digest) for f in [*mine, *clocks])
        tasks.append(
            replace(
                task,
                scope="path",
                tables=(*task.tables[:1], *_tables([*mine, *clocks], ("path_pieces", "rank_clocks"))),
                inputs=key_of("path", catalog.fingerprint("path"), task.inputs, read),
            )
        )
    return tasks


def _paths_tasks(
    store: Store, run: str, shards: Sequence[AnalyzeTask], path_files: Sequence[PublishedFile], memory: int
) -> list[AnalyzeTask]:
    """Return a task for each shard of steps: the segments of all ranks on a step's path, in one order."""
    tasks = []
    for shard in shards:
        first, last = shard.first_step or 0, shard.last_step or 0
        mine = [f for f in path_files if f.table in _PATHS_READ and _shards_within(f, first, last)]
        tasks.append(_run_level_task(store, run, "paths", _PATHS_READ, mine, Told(), memory, (first, last)))
    return tasks


_SHARDS_BY = ("rank_windows", "rank_collectives")

_SHARD_DIGESTS = 1
"""Of how they are made: another number makes ranks' facts anew, as do those of before there were any."""

_STEPS_READ = ("rank_windows", "rank_collectives", "rank_chains", "rank_telemetry")
_PATHS_READ = ("path_segments",)

ROWS_PER_GROUP = 10_240
"""Rows of a row group of a rank's answers that tasks read by steps: of a remote file one fetches whole groups."""

_RUN_READS = (
    "rank_steps",
    "rank_captures",
    "steps",
    "ranks",
    "groups",
    "rank_clocks",
    "collective_instances",
    "step_stragglers",
    "step_stages",
    "step_critical_path",
    "rank_telemetry",
    "telemetry",
)


_MEASURES_READ = ("rank_step_classes", "rank_memory", "rank_steps", "steps", "run_coverage", "step_mfu", "run_mfu")

_MFU_READS = ("rank_updates", "rank_work", "rank_steps", "rank_step_waits", "steps", "ranks")


def _step_tasks(store: Store, run: str, files: Sequence[PublishedFile], memory: int) -> list[AnalyzeTask]:
    sharded = [f for f in files if f.table in _SHARDS_BY]
    width = max((f.shard_width for f in sharded), default=STEPS_PER_SHARD)
    found = {s * f.shard_width // width for f in sharded for s in f.shards}
    while len(found) > MAX_SHARDS:
        width *= 10
        found = {s // 10 for s in found}
    whole = ("ranks", "groups", "group_queues", "rank_clocks")
    tasks = []
    for shard in sorted(found):
        first, last = shard * width, (shard + 1) * width - 1
        mine = [f for f in files if f.table in whole or (f.table in _STEPS_READ and _shards_within(f, first - 1, last))]
        names = (*_STEPS_READ, *whole)
        tasks.append(_run_level_task(store, run, "steps", names, mine, Told(), memory, (first, last)))
    return tasks


def _shards_within(file: PublishedFile, first: int, last: int) -> list[tuple[int, str]]:
    """Return the shards of a rank's file that have steps from `first` to `last`, each with the hash of its rows."""
    width = file.shard_width
    shards = zip(file.shards, file.shard_digests, strict=True)
    return [(s, digest) for s, digest in shards if s * width <= last and (s + 1) * width > first]


def _run_level_task(
    store: Store,
    run: str,
    scope: Scope,
    names: Sequence[str],
    files: Sequence[PublishedFile],
    told: Told,
    memory: int,
    steps: tuple[int, int] | None = None,
) -> AnalyzeTask:
    """Return a task over these tables of all ranks; `inputs` is the hash of all that its answers follow from.

    Args:
        steps: First and last of those that it is for; of files in shards the others' rows are none of its inputs.
    """
    read = sorted(
        (f.table, f.rank or 0, *((f.first_step or 0, f.digest) if steps is None else _digests(f, *steps)))
        for f in files
        if f.table in names
    )
    inputs = key_of(scope, steps, catalog.fingerprint("clock", scope), SCHEMA_VERSION, read, told.key())
    first, last = steps if steps is not None else (None, None)
    tables = _tables(files, names)
    return AnalyzeTask(store.url, run, scope, tables, told, inputs, memory, first_step=first, last_step=last)


def _digests(file: PublishedFile, first: int, last: int) -> tuple[Any, ...]:
    """Return the hashes of what a task for these steps, and the one before them, may read of a file."""
    return tuple(_shards_within(file, first - 1, last)) if file.shard_digests else (file.digest,)


def _tables(files: Sequence[PublishedFile], names: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, tuple(f.path for f in files if f.table == name)) for name in names)


def _load_context(con: duckdb.DuckDBPyConnection, task: AnalyzeTask, read: Set[str]) -> None:
    """Make the small tables that the task's relations read: what a manifest says, and the data beside the SQL."""
    con.execute("CREATE TABLE context (rank INTEGER)")
    con.execute("INSERT INTO context VALUES ($1)", [task.rank])
    con.execute("CREATE TABLE shard (first_step BIGINT, last_step BIGINT)")
    con.execute("INSERT INTO shard VALUES ($1, $2)", [task.first_step, task.last_step])
    if "dumps" in read:
        con.register("_dump_columns", pa.Table.from_batches([], DUMP_TABLE))
        con.execute("CREATE TABLE dumps AS FROM _dump_columns")
        rows = [{**msgspec.to_builtins(d), "file_name": PurePosixPath(d.path).name} for d in task.told.dumps]
        if rows:  # by DuckDB: pyarrow imports pandas, where there is one, for each list that it is to convert
            lists = ", ".join(f"unnest(${n + 1})" for n in range(len(DUMP_TABLE)))
            con.execute(f"INSERT INTO dumps SELECT {lists}", [[row[n] for row in rows] for n in DUMP_TABLE.names])
    columns = ("rank", "host", "node", "rack", "rail")
    con.execute("CREATE TABLE topology (rank INTEGER, host VARCHAR, node VARCHAR, rack VARCHAR, rail VARCHAR)")
    if task.told.topology:
        con.executemany(
            "INSERT INTO topology VALUES ($1, $2, $3, $4, $5)",
            [[getattr(p, c) for c in columns] for p in task.told.topology],
        )
    sizes = task.told.parallel
    told = msgspec.to_builtins(sizes)
    con.execute(f"CREATE TABLE parallel ({', '.join(f'{name} BIGINT' for name in told)})")
    con.execute(f"INSERT INTO parallel VALUES ({', '.join('?' * len(told))})", list(told.values()))
    if "run_config" in read:
        figures = ", ".join(f"${n + 1}::{kind} AS {name}" for n, (name, kind, _) in enumerate(task.told.figures))
        con.execute(f"CREATE TABLE run_config AS SELECT {figures}", [value for _, _, value in task.told.figures])
    if "told_hardware" in read:
        told = {name.removeprefix("hardware_"): value for name, _, value in task.told.figures}
        recorded = {d.device_name for d in task.told.dumps}
        device = told["device"] or (recorded.pop() if len(recorded) == 1 else None)
        con.execute(
            "CREATE TABLE told_hardware (device VARCHAR, dtype VARCHAR, peak_flops DOUBLE, hbm_bytes_per_s DOUBLE,"
            " link_bytes_per_s DOUBLE)"
        )
        con.execute(
            "INSERT INTO told_hardware VALUES ($1, $2, $3, $4, $5)", [device, *(told[k] for k in _HARDWARE[1:])]
        )
    load_phases(con, task.told.phases)
    if task.scope == "path":  # only the path's host time is split here; a what-if splits all of it
        intervals = ", ".join(f"{c.name} {c.type}" for c in catalog.relations()["_host_intervals"].columns)
        con.execute(f"CREATE TABLE _host_intervals ({intervals})")
    known = task.told.dumps if task.scope in ("rank", "path") else ()
    load_dump_facts(con, [(d.is_truncated, d.n_dropped, d.format) for d in known])


def _rows(name: str, task: AnalyzeTask) -> StepRange | None:
    """Return what a task reads of a relation; None for all of it."""
    first, last = int(task.first_step or 0), int(task.last_step or 0)
    if task.scope == "steps" and name == "rank_windows":  # one step of halo: its end is the first step's start
        return StepRange("step", first - 1, last)
    if task.scope == "paths":
        return StepRange("step", first, last)
    if task.scope == "steps" and name == "rank_telemetry":
        return StepRange("step", first, last)
    if task.scope == "steps" and name in ("rank_collectives", "rank_chains"):
        return StepRange("shard_step", first - 1, last)
    return None


def _place(table: str, task: AnalyzeTask) -> str:
    """Return the path of a table's file; its second word is the hash of what it was made from."""
    if task.scope in ("rank", "path", "sampled"):
        return f"facts/{table}/rank={task.rank:05d}.{task.inputs}.parquet"
    if task.scope in ("steps", "paths"):
        return f"marts/{table}/steps={task.first_step:06d}-{task.last_step:06d}.{task.inputs}.parquet"
    return f"marts/{table}/run.{task.inputs}.parquet"  # of clocks and of the run


def _step_range(con: duckdb.DuckDBPyConnection, task: AnalyzeTask, table: str) -> dict[str, Any]:
    """Return the steps that a rank's or a shard's table speaks of, as PublishedFile has them."""
    columns = {c.name for c in catalog.relations()[table].columns}
    step = "shard_step" if "shard_step" in columns else "step" if "step" in columns else None
    if task.scope not in ("rank", "steps", "path", "paths", "sampled") or step is None:
        return {}
    row = con.execute(f"SELECT min({step}), max({step}) FROM {table}").fetchone()
    steps: dict[str, Any] = {"first_step": row[0], "last_step": row[1]} if row else {}
    if table == "path_pieces":
        ranks = con.execute(f"SELECT DISTINCT rank FROM {table} ORDER BY rank").fetchall()
        steps |= {"ranks": tuple(r[0] for r in ranks)}
    if table in (*_STEPS_READ, *_PATHS_READ):
        width = STEPS_PER_SHARD
        while True:
            rows = con.execute(
                f"SELECT {step} // {width} AS shard, sum(hash({table})::HUGEINT) FROM {table} WHERE {step} IS NOT NULL"
                f" GROUP BY shard ORDER BY shard LIMIT {MAX_SHARDS + 1}"
            ).fetchall()
            if len(rows) <= MAX_SHARDS:
                break
            width *= 10
        steps |= {"shard_width": width, "shards": tuple(r[0] for r in rows)}
        steps |= {"shard_digests": tuple(f"{r[1]:x}" for r in rows)}
    return steps
