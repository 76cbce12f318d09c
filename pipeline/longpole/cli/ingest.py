"""`longpole ingest`: dumps to events."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from cyclopts import Parameter

from longpole import config as run_config
from longpole import flights, telemetry, timelines, topology
from longpole.cli.options import ClusterFlags, Log, StoreOption, Work
from longpole.discover import Candidate, find, rank_from_name, run_name
from longpole.errors import DumpError
from longpole.formats.probe import refusal_of
from longpole.ingest import ingest_run
from longpole.store import Manifest, RankPlace, Store, check_run_name, store_at
from longpole.text import printable

DumpsArgument = Annotated[list[str], Parameter(help="Dumps: files, folders, patterns or URLs.")]
NameOption = Annotated[
    str | None, Parameter(name="--name", help="Name of the run. Default: the name of the dumps' folder.")
]
ConfigOption = Annotated[str | None, Parameter(name="--config", help="A run.toml: what the dumps do not say.")]
RankOption = Annotated[
    str | None,
    Parameter(
        name="--rank-from", help="Pattern on a dump's path whose first group is its rank, where dumps do not say."
    ),
]


_HELD = {
    "events": "events",
    "memory_events": "allocations",
    timelines.TABLE: "ops",
    flights.TABLE: "flight records",
    telemetry.TABLE: "telemetry",
}
"""What the files of each of SOURCES hold, in words."""

_HEADS_AT_ONCE = 16  # a remote file's head is a wait of milliseconds, and a run may have thousands


def ingest(
    dumps: DumpsArgument,
    /,
    *,
    store: StoreOption = None,
    name: NameOption = None,
    config: ConfigOption = None,
    rank_from: RankOption = None,
    cluster: ClusterFlags = ClusterFlags(),  # noqa: B008  frozen
) -> None:
    """Read dumps into a run's events. Known dumps, by content, are not read again.

    Example: longpole ingest dumps/ --name nightly-2117
    """
    console = cluster.log()
    target = store_at(store)
    run = check_run_name(name or run_name(dumps))
    with Work(cluster.options(), console) as work, target.lock(run):
        manifest = read_into(target, run, dumps, config, rank_from, work, console)
    held = [words for table, words in _HELD.items() if manifest.of(table)]
    console.print(f"wrote {len(manifest.sources())} files of {' and '.join(held) or 'events'} of run {run}")
    print(run)


def read_into(
    store: Store, run: str, dumps: list[str], config: str | None, rank_from: str | None, work: Work, console: Log
) -> Manifest:
    """Read the dumps into the run and return its manifest; the caller holds the run's lock."""
    settings, text = run_config.load(config)
    places = topology.load(settings.topology.file, config) if config and settings.topology.file else None
    before = store.known(run) if config is None else None
    if before is not None and before.config:  # a run keeps the run.toml it was given
        settings, text = run_config.parse(before.config, f"config.toml of run {run}"), before.config
    return read_files(store, run, find(dumps), settings, text, places, rank_from, work, console)


def read_files(
    store: Store,
    run: str,
    candidates: list[Candidate],
    settings: run_config.RunConfig,
    text: str,
    places: tuple[RankPlace, ...] | None,
    rank_from: str | None,
    work: Work,
    console: Log,
) -> Manifest:
    """Read those of the files that are dumps into the run, as `settings`, written `text`, says; as read_into."""
    if rank_from is not None:  # before anything is read
        for candidate in candidates:
            rank_from_name(candidate.name, rank_from)
    candidates = recognised(candidates, console)
    manifest = ingest_run(
        store,
        run,
        candidates,
        settings,
        text,
        topology=places,
        run_tasks=work.runner("read dumps"),
        rank_pattern=rank_from,
        threads=work.threads_for(len(candidates)),
        memory=work.task_memory,
    )
    for dump in manifest.dumps:
        if dump.error is not None:
            console.print(f"unreadable: {printable(dump.error)}")
        elif dump.verdict != "ok":
            console.print(f"{printable(dump.path)}: {dump.verdict}")
    return manifest


def recognised(candidates: list[Candidate], console: Log) -> list[Candidate]:
    """Return the candidates that are dumps, or should be by their name; say what else a folder held.

    Raises:
        DumpError: A file given by name is no dump; or none of a folder's is.
    """
    chosen: list[Candidate] = []
    wrong: list[DumpError] = []
    cures: dict[str, None] = {}
    with ThreadPoolExecutor(_HEADS_AT_ONCE) as pool:
        reasons = list(pool.map(lambda c: refusal_of(c.url, c.name), candidates))
    for candidate, reason in zip(candidates, reasons, strict=True):
        if reason is None or (candidate.looks_like_dump and not candidate.is_named):
            chosen.append(candidate)
            continue
        cures[printable(reason.cure)] = None
        if candidate.is_named:
            wrong.append(reason)
        else:
            console.print(f"left out: {printable(reason.fact)}")
    if wrong:
        told = "\n".join((*filter(None, cures), "Name profiler dumps: README lists the formats."))
        raise DumpError("\n".join(printable(w.fact) for w in wrong), told)
    if not chosen:
        raise DumpError(
            "none of these files is a dump",
            "\n".join((*filter(None, cures), "README lists the formats; `longpole inspect FILE` says what a file is.")),
        )
    return chosen
