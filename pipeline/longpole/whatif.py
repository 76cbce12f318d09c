"""What-if: the dependency graphs of a run's ranks, timed anew under changes, and replayed together.

A rank's graph is contracted where its events are, once for all changes asked; only edges travel. What is changed is a
row of data; every number is made in SQL.
"""

from __future__ import annotations

import contextlib
import io
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import duckdb
import msgspec
import polars as pl

from longpole import catalog, config
from longpole.cluster import DEFAULT_TASK_MEMORY
from longpole.engine import connection, load_dump_facts, load_phases, reading, write_ordered
from longpole.errors import LongpoleError, StoreError
from longpole.store import DumpEntry, Manifest, PublishedFile, Store, content_of, dumps_table, file_digest, key_of
from longpole.units import duration_text

KINDS = ("compute", "comm", "copy", "host", "input", "sync", "launch", "turnaround", "unknown")
"""Kinds of the path's time that a change may name."""

RANK_STEPS_PER_TASK = 400
"""Ranks times steps whose medians one task takes: about a million rows of a rank's thousands of kernels a step."""

SCENARIOS_PER_TASK = 4
"""Scenarios of one rank timed in one task: its rows are held once for each."""

LEAST_RANKS_OF_A_MEDIAN = 3
"""Recorded ranks that `fix` needs: as many as element_medians asks for."""

_PHASES = ("forward", "backward", "sync", "optimizer", "input")
"""Phases that every run has, as _activity_phases names them."""

_KIND_WORDS = {"compute": "kernels", "comm": "exchanges", "copy": "copies", "launch": "launch delays"}

What = Literal["scale", "fix", "exposed", "waits"]


@dataclass(frozen=True)
class Change:
    """One change to a run; what is None is not asked for.

    `scale` multiplies the time of a kind, rank, name pattern, phase or process group by a factor. `fix` sets a rank, or
    all, to the median of all ranks where that is less. `exposed` shortens the exchanges on each step's path, the last
    first, by an amount, or altogether. `waits` lets no collective wait for a later rank.
    """

    what: What
    kind: str | None = None
    rank: int | None = None
    pattern: str | None = None
    phase: str | None = None
    group: str | None = None
    factor: float | None = None
    amount_ns: int | None = None

    def reaches(self, rank: int) -> bool:
        """Whether it changes that rank's own graph; the rest is changed where ranks meet."""
        return self.what in ("scale", "fix") and self.group is None and self.rank in (None, rank)

    def in_words(self) -> str:
        """Return the change as a person says it; names of the dump are in it as they are."""
        if self.what == "exposed":
            most = "" if self.amount_ns is None else f" up to {duration_text(self.amount_ns)}"
            return f"exposed exchange gone{most}"
        if self.what == "waits":
            return "no waiting for later ranks in collectives"
        what = _KIND_WORDS.get(self.kind or "", self.kind or "all work")
        if self.what == "fix":
            whose = "every rank" if self.rank is None else f"rank {self.rank}"
            return f"{whose}'s {what} at the ranks' median" if self.kind else f"{whose} at the ranks' median"
        if self.pattern is not None:
            name = re.sub(r"\\(.)", r"\1", self.pattern).removeprefix("^").removesuffix("$")
            what = f"`{name}`" if self.kind in (None, "compute") else f"{what} in `{name}`"
        where = "".join(
            [
                f" of rank {self.rank}" if self.rank is not None else "",
                f" in {self.phase}" if self.phase else "",
                f" of group {self.group}" if self.group else "",
            ]
        )
        factor = self.factor if self.factor is not None else 1.0
        how = "gone" if factor == 0 else "twice as fast" if factor == 0.5 else f"x {factor:g}"
        return f"{what}{where} {how}"


_BESIDE = ("predictions", "step_replays")
"""What the last task makes beside the steps."""

MOST_PRICED_EVENTS = 5_000_000
"""Events of a run that `longpole analyze` asks what-ifs of unasked: graphs of more take longer than all else."""

Scenario = tuple[Change, ...]
"""Changes made together."""


@dataclass(frozen=True)
class _Task:
    """One evaluation: which files it reads, the relation it makes, and where that goes."""

    store_url: str
    run: str
    relation: str
    tables: tuple[tuple[str, tuple[str, ...]], ...]
    changes: tuple[tuple[int, Change], ...]
    scenarios: tuple[int, ...]
    phases: tuple[tuple[str, str], ...]
    memory: int
    target: str
    beside: tuple[str, ...] = ()
    rank: int | None = None
    dumps: tuple[DumpEntry, ...] = ()
    first_step: int | None = None
    last_step: int | None = None


RunTasks = Callable[[Callable[[Any], str], list[Any]], list[str]]


@dataclass(frozen=True)
class Answer:
    """What was predicted: `steps` as predicted_steps, `totals` as predictions; scenario 0 changes nothing."""

    steps: pl.DataFrame
    totals: pl.DataFrame


def ask(
    store: Store,
    run: str,
    scenarios: Sequence[Scenario],
    *,
    run_tasks: RunTasks,
    memory: int = DEFAULT_TASK_MEMORY,
) -> Answer:
    """Return the steps of a run under each scenario, numbered from 1, and under none, 0.

    Nothing of it stays in the store but how well the unchanged graph replays each step: step_replays.

    Raises:
        LongpoleError: The run is not analyzed, no step can be predicted, or a pattern or a rank means nothing.
    """
    manifest = store.manifest(run)
    if manifest.of("timeline_ops"):
        raise LongpoleError(
            f"run {run!r} is an op timeline: its dependencies are between ops, not events",
            f'What stragglers cost it: longpole query "FROM run_whatif" --run {run}',
        )
    if not manifest.of("path_pieces") or not manifest.of("rank_clocks"):
        raise LongpoleError(f"run {run!r} has no critical paths yet", f"Analyze it: longpole analyze {run}")
    numbered = dict(enumerate(scenarios, 1))
    with _replay(store, manifest, numbered, _BESIDE, run_tasks, memory) as (steps, totals, replays):
        answer = Answer(
            pl.read_parquet(io.BytesIO(steps.read_bytes())), pl.read_parquet(io.BytesIO(totals.read_bytes()))
        )
        if not answer.totals.height:
            raise LongpoleError(
                f"no step of run {run!r} can be predicted: "
                + (
                    "no step's length is known, for its ranks share no clock"
                    if answer.steps["measured_ns"].null_count() == answer.steps.height
                    else "its dependencies contradict each other"
                ),
                "What each rank's own steps are made of: longpole query"
                f' "FROM rank_steps ORDER BY step, rank" --run {run}',
            )
        _keep(store, manifest, replays.read_bytes())
        return answer


def price(
    store: Store, manifest: Manifest, inputs: str, *, run_tasks: RunTasks, memory: int
) -> tuple[PublishedFile, ...]:
    """Return the files of what the run's stragglers cost it and of what to fix first: run_whatif, run_opportunities.

    The caller holds the run's lock.

    Args:
        manifest: Names the run's marts, published or about to be.
        inputs: Hash of all that the files follow from.
    """
    changes: dict[int, list[Change]] = {}
    with store.scratch() as local:
        for name in ("straggler_scenarios", "opportunity_changes"):
            (path,) = store.fetch(manifest.run, list(_paths(manifest, name)), local)
            for row in pl.read_parquet(io.BytesIO(path.read_bytes())).iter_rows(named=True):
                asked = {k: row[k] for k in ("kind", "rank", "pattern", "factor") if k in row}
                changes.setdefault(row["scenario"], []).append(Change(row.get("what", "fix"), **asked))
    if len(recorded_ranks(manifest)) < LEAST_RANKS_OF_A_MEDIAN:
        changes = {n: c for n, c in changes.items() if all(change.what != "fix" for change in c)}
    scenarios = {n: tuple(c) for n, c in changes.items()}
    answers = [catalog.relations()[name] for name in ("straggler_whatif", "run_opportunities")]
    files = []
    with _replay(store, manifest, scenarios, [a.name for a in answers], run_tasks, memory) as (_, *made):
        for relation, file in zip(answers, made, strict=True):
            target = f"marts/{relation.table}/run.{inputs}.parquet"
            n_rows = pl.scan_parquet(file).select(pl.len()).collect().item()
            files.append(PublishedFile(relation.table, target, inputs, file_digest(file), file.stat().st_size, n_rows))
            store.put(file, manifest.run, target)
    return tuple(files)


@contextlib.contextmanager
def _replay(
    store: Store,
    manifest: Manifest,
    scenarios: Mapping[int, Scenario],
    beside: Sequence[str],
    run_tasks: RunTasks,
    memory: int,
) -> Iterator[list[Path]]:
    """Give the local files of predicted_steps and of the relations beside it; the rest is gone afterwards."""
    run = manifest.run
    numbered = tuple((n, change) for n, scenario in sorted(scenarios.items()) for change in scenario)
    phases = tuple(config.parse(manifest.config, "config.toml").phases.items()) if manifest.config else ()
    _check(manifest, numbered, phases)
    _check_groups(store, manifest, numbered)
    folder = f"whatif-{uuid.uuid4().hex}"
    asked = _Task(store.url, run, "", (), numbered, (0, *sorted(scenarios)), phases, memory, folder)
    try:
        medians = _medians(manifest, asked, run_tasks)
        edges = run_tasks(_evaluate, [t for task in _rank_tasks(manifest, asked) for t in _graph_tasks(task, medians)])
        read = ("rank_collectives", "rank_clocks", "group_queues", "groups", "ranks", "steps", "path_pieces")
        also = [n for n in ("straggler_scenarios", "opportunity_changes") if manifest.of(n)]
        tables = (("rank_edges", tuple(edges)), *((name, _paths(manifest, name)) for name in (*read, *also)))
        target = f"{folder}/predicted_steps.parquet"
        last = replace(asked, tables=tables, relation="predicted_steps", target=target, beside=tuple(beside))
        run_tasks(_evaluate, [last])
        with store.scratch() as local:
            yield store.fetch(run, [target, *(f"{folder}/{name}.parquet" for name in beside)], local)
    finally:
        store.discard(run, folder)


def recorded_ranks(manifest: Manifest) -> list[int]:
    """Return the ranks that the run has events of."""
    return sorted({f.rank for f in manifest.of("events") if f.rank is not None})


def _check(manifest: Manifest, changes: Sequence[tuple[int, Change]], phases: Sequence[tuple[str, str]]) -> None:
    ranks = recorded_ranks(manifest)
    for _, change in changes:
        if change.rank is not None and change.rank not in ranks:
            raise LongpoleError(
                f"rank {change.rank} is not recorded in run {manifest.run!r}",
                f"Recorded ranks: {', '.join(map(str, ranks[:20]))}{', ...' if len(ranks) > 20 else ''}.",
            )
        if change.what == "fix" and len(ranks) < LEAST_RANKS_OF_A_MEDIAN:
            raise LongpoleError(
                f"run {manifest.run!r} has {len(ranks)} recorded rank{'s' if len(ranks) > 1 else ''}:"
                f" a median of ranks needs {LEAST_RANKS_OF_A_MEDIAN}",
                "Ask for parts of the rank's time, as --scale host,rank:N=0.5.",
            )
        if change.phase is not None and change.phase not in {*_PHASES, *(name for name, _ in phases)}:
            names = dict.fromkeys([*(name for name, _ in phases), *_PHASES])
            raise LongpoleError(f"{change.phase!r} is no phase of run {manifest.run!r}", f"Phases: {', '.join(names)}.")
        if change.pattern is not None:
            try:
                duckdb.execute("SELECT regexp_matches('', $1)", [change.pattern])
            except duckdb.Error as error:
                raise LongpoleError(
                    f"{change.pattern!r} is no pattern: {error}", "Patterns are RE2's; quote what is special with \\."
                ) from error


def _check_groups(store: Store, manifest: Manifest, changes: Sequence[tuple[int, Change]]) -> None:
    asked = {change.group for _, change in changes if change.group is not None}
    if not asked:
        return
    with store.scratch() as local:
        paths = store.fetch(manifest.run, list(_paths(manifest, "groups")), local)
        frames = [pl.read_parquet(io.BytesIO(p.read_bytes()), columns=["group_id"]) for p in paths]
    known = {name for frame in frames for name in frame["group_id"].drop_nulls().to_list()}
    for name in sorted(asked - known):
        raise LongpoleError(
            f"{name!r} is no process group of run {manifest.run!r}",
            f'See them: longpole query "SELECT DISTINCT group_id FROM groups ORDER BY 1" --run {manifest.run}',
        )


def _keep(store: Store, manifest: Manifest, replays: bytes) -> None:
    """Publish how well the unchanged graph replays the run's steps, where the run is still as it was.

    A store that cannot be written, or a run that is being written, keeps it to the answer.
    """
    sources = sorted(f.digest for f in manifest.files if f.table in ("events", "rank_clocks", "steps"))
    inputs = key_of("replays", catalog.fingerprint("rank", "graph", "predict", "replay"), sources)
    if any(f.inputs == inputs for f in manifest.of("step_replays")):
        return
    with contextlib.suppress(StoreError), store.lock(manifest.run):
        if store.manifest(manifest.run) != manifest:
            return
        path = f"marts/step_replays/run.{inputs}.parquet"
        with store.scratch() as folder:
            local = folder / "step_replays.parquet"
            local.write_bytes(replays)
            n_rows = pl.scan_parquet(local).select(pl.len()).collect().item()
            file = PublishedFile("step_replays", path, inputs, file_digest(local), len(replays), n_rows)
            store.put(local, manifest.run, path)
        others = tuple(f for f in manifest.files if f.table != "step_replays")
        store.publish(msgspec.structs.replace(manifest, files=(*others, file)))


def _rank_tasks(manifest: Manifest, asked: _Task) -> list[_Task]:
    """Return a task with a rank's events, its dumps in order of time, for each rank."""
    tasks = []
    for rank in recorded_ranks(manifest):
        paths = {content_of(f): f.path for f in manifest.of("events") if f.rank == rank}
        dumps = sorted(
            (d for d in manifest.dumps if d.rank == rank and d.error is None and d.dump in paths),
            key=lambda d: (d.first_ns or 0, d.dump),
        )
        tables = (("events", tuple(paths[d.dump] for d in dumps)), ("rank_clocks", _paths(manifest, "rank_clocks")))
        tasks.append(replace(asked, tables=tables, rank=rank, dumps=tuple(dumps)))
    return tasks


def _medians(manifest: Manifest, asked: _Task, run_tasks: RunTasks) -> tuple[str, ...]:
    """Return the files of element_medians: none where no change asks for a median."""
    if not any(change.what == "fix" for _, change in asked.changes):
        return ()
    tasks = _rank_tasks(manifest, asked)
    elements = run_tasks(
        _evaluate,
        [
            replace(t, relation="rank_elements", changes=(), target=f"{asked.target}/elements/{t.rank}.parquet")
            for t in tasks
        ],
    )
    files = [f for f in manifest.of("steps") if f.first_step is not None and f.last_step is not None]
    width = max(1, RANK_STEPS_PER_TASK // max(1, len(tasks)))
    starts = sorted(
        {s for f in files for s in range((f.first_step or 0) // width * width, (f.last_step or 0) + 1, width)}
    )
    return tuple(
        run_tasks(
            _evaluate,
            [
                replace(
                    asked,
                    relation="element_medians",
                    changes=(),
                    tables=(("rank_elements", tuple(elements)),),
                    first_step=start,
                    last_step=start + width - 1,
                    target=f"{asked.target}/medians/{start}.parquet",
                )
                for start in starts
            ],
        )
    )


def _graph_tasks(task: _Task, medians: tuple[str, ...]) -> list[_Task]:
    """Return the tasks that time a rank's graph: unchanged, and under each scenario that reaches it."""
    assert task.rank is not None
    reached = sorted({n for n, change in task.changes if change.reaches(task.rank)})
    numbers = [0, *reached]
    return [
        replace(
            task,
            relation="rank_edges",
            tables=(*task.tables, ("element_medians", medians)),
            scenarios=tuple(numbers[i : i + SCENARIOS_PER_TASK]),
            changes=tuple((n, c) for n, c in task.changes if n in numbers[i : i + SCENARIOS_PER_TASK]),
            target=f"{task.target}/edges/{task.rank}-{i}.parquet",
        )
        for i in range(0, len(numbers), SCENARIOS_PER_TASK)
    ]


def _paths(manifest: Manifest, table: str) -> tuple[str, ...]:
    return tuple(f.path for f in manifest.of(table))


def _evaluate(task: _Task) -> str:
    """Make one relation of the task's files and store it; return its path."""
    store = Store(task.store_url)
    is_replay = task.relation == "predicted_steps"
    with store.scratch() as folder, connection(folder, task.memory, is_ordered=not is_replay) as con:
        for name, paths in task.tables:
            files = store.fetch(task.run, list(paths), folder)
            by_step = f" WHERE step BETWEEN {task.first_step} AND {task.last_step}" if name == "rank_elements" else ""
            con.execute(f"CREATE VIEW {name} AS {reading(name, files, by_step)}")
        given = {name for name, _ in task.tables} | _load(con, task)
        wanted = [task.relation, *task.beside]
        relations = catalog.leading_to(wanted, given | set(catalog.data_names()))
        catalog.load_data_of(con, relations)
        for relation in relations:
            con.execute(f"CREATE TEMP {'VIEW' if relation.is_view else 'TABLE'} {relation.name} AS {relation.sql}")
        for name in wanted:
            local = folder / f"{name}.parquet"
            write_ordered(con, f"FROM {name}", catalog.relations()[name].order, local)
            path = task.target if name == task.relation else str(Path(task.target).with_name(f"{name}.parquet"))
            store.put(local, task.run, path)
    return task.target


def _load(con: duckdb.DuckDBPyConnection, task: _Task) -> set[str]:
    """Make the tables that say what is asked; return their names."""
    con.execute(
        "CREATE TABLE changes (scenario INTEGER, what VARCHAR, kind VARCHAR, rank INTEGER, pattern VARCHAR,"
        " phase VARCHAR, group_id VARCHAR, factor DOUBLE, amount_ns BIGINT)"
    )
    for n, c in task.changes:
        con.execute(
            "INSERT INTO changes VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            [n, c.what, c.kind, c.rank, c.pattern, c.phase, c.group, c.factor, c.amount_ns],
        )
    con.execute("CREATE TABLE scenarios (scenario INTEGER)")
    con.executemany("INSERT INTO scenarios VALUES ($1)", [[n] for n in task.scenarios])
    load_phases(con, task.phases)
    con.execute("CREATE TABLE context (rank INTEGER)")
    con.execute("INSERT INTO context VALUES ($1)", [task.rank])
    load_dump_facts(con, [(d.is_truncated, d.n_dropped, d.format) for d in task.dumps])
    con.register("dumps", dumps_table(task.dumps))
    hosts = ", ".join(f"{c.name} {c.type}" for c in catalog.relations()["_path_hosts"].columns)
    con.execute(f"CREATE TABLE _path_hosts ({hosts})")
    return {"changes", "scenarios", "phase_patterns", "context", "dump_facts", "dumps", "_path_hosts"}
