"""`longpole nightly`: every run under a root that is new or has grown, compared with those before it, and its gates."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from longpole import __version__, night, remote
from longpole.analyze import analyze_run, is_analyzed
from longpole.cli.compare import compared
from longpole.cli.ingest import read_files
from longpole.cli.options import ClusterFlags, Log, StoreOption, Work
from longpole.cli.output import page_path, write_page
from longpole.config import parse
from longpole.errors import GateError, LongpoleError, StoreError, UsageError
from longpole.report import compare_page, nights, nights_page, of_run
from longpole.session import DEFAULT_SESSION_MEMORY, Session
from longpole.store import Store, store_at
from longpole.text import one_line, printable
from longpole.units import parse_duration


@dataclass(frozen=True)
class Outcome:
    """What a night did with one run."""

    found: night.Found
    status: nights.Status
    error: str = ""


def nightly(
    root: Annotated[str, Parameter(help="Folder or URL that holds a folder for each run.")],
    /,
    *,
    output: Annotated[
        str, Parameter(name=["--output", "-o"], help="Folder of index.html, verdict.json, junit.xml and pages.")
    ] = "longpole-nightly",
    store: StoreOption = None,
    pattern: Annotated[str, Parameter(help="Which folders below it are runs, as in '*/*'.")] = "*",
    config: Annotated[str | None, Parameter(help="run.toml of the runs whose folder has none.")] = None,
    baseline: Annotated[
        str | None,
        Parameter(help="Run to compare with. Default: the good runs before each of the same job and workload."),
    ] = None,
    settle: Annotated[
        str, Parameter(help="A dump written to within this time is looked at again, and left while it changes.")
    ] = "30s",
    cluster: ClusterFlags = ClusterFlags(),  # noqa: B008  frozen
) -> None:
    """Read and analyze every run under ROOT that is new or has grown, and write pages, an index and verdicts.

    Exit 3 when a gate of a run.toml fails.

    Example: longpole nightly /data/dumps --store /data/longpole -o /data/pages
    """
    log = cluster.log()
    target = store_at(store)
    seconds = parse_duration(settle, least_ns=0) / 1e9
    folder = _folder(output)
    if baseline is not None and baseline not in target.runs():
        raise UsageError(f"--baseline {baseline!r} is no run of {target.url}", "`longpole runs` lists them.")
    found, empty = night.runs_below(root, pattern)
    for name in empty:
        log.print(f"left out: {one_line(name)} holds no dump")
    found = night.settled(found, seconds, _now, _pause)
    with Work(cluster.options(), log, expected_tasks=os.cpu_count() or 1) as work:
        outcomes = [_do(target, run, config, work, log) for run in found]
    outcomes, verdict = _tell(target, root, folder, outcomes, baseline, log)
    for outcome in outcomes:
        if outcome.status == "changed":
            _remember(target, outcome.found)
    _raise(outcomes, verdict)


def _now() -> float:
    return time.time()


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _folder(output: str) -> Path:
    if "://" in output:
        raise UsageError(f"-o {output} is a URL", "Pages are files: name a folder of this machine, and copy it.")
    folder = Path(output)
    try:
        for inside in ("runs", "compare"):
            (folder / inside).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LongpoleError(f"{folder} cannot be made: {error.strerror or error}", "Name a folder with -o.") from error
    for name in ("index.html", "verdict.json", "junit.xml"):
        if (folder / name).is_dir():
            raise LongpoleError(f"{folder / name} is a folder", "Name another folder with -o.")
    return folder


def _do(store: Store, found: night.Found, config: str | None, work: Work, log: Log) -> Outcome:
    """Read and analyze a run where there is anything new; whatever is wrong with it stays its own."""
    for file in found.growing:
        log.milestone(
            "left for the next night",
            f"{found.run}: still being written, left for the next night: {printable(file.name)}",
            run=found.run,
            path=file.name,
        )
    if found.error:
        return _failed(found, found.error, log)
    if not found.files:
        return Outcome(found, "waiting")
    try:
        told = night.config_of(found, config)
        before = store.known(found.run)
        if before is not None:
            if night.is_unchanged(before, found, told) and is_analyzed(before):
                return Outcome(found, "waiting" if found.growing else "unchanged")
            if not told.text:
                told = replace(told, settings=parse(before.config, "config.toml"), text=before.config)
        work.run = found.run
        with store.lock(found.run):
            read_files(store, found.run, list(found.files), told.settings, told.text, told.places, None, work, log)
            analyze_run(store, found.run, run_tasks=work.runner("analyze"), memory=work.task_memory)
    except LongpoleError as error:
        return _failed(found, error.fact, log, error.cure)
    except remote.failures() as error:
        name = getattr(error, "filename", None) or found.folder
        return _failed(found, f"{name}: {remote.reason(error)}", log)
    log.milestone("run done", f"{found.run}: analyzed", run=found.run)
    return Outcome(found, "changed")


def _failed(found: night.Found, error: str, log: Log, cure: str = "") -> Outcome:
    told = "\n  ".join(filter(None, (f"{found.run}: failed: {printable(error)}", printable(cure))))
    log.milestone("run failed", told, run=found.run, error=error, cure=cure)
    return Outcome(found, "failed", error)


def _tell(
    store: Store, root: str, folder: Path, outcomes: Sequence[Outcome], baseline: str | None, log: Log
) -> tuple[list[Outcome], nights.Verdict]:
    """Write the pages, the index and the verdicts; return them, with runs whose page failed among the failed."""
    told = []
    for outcome in outcomes:
        path = folder / "runs" / f"{outcome.found.run}.html"
        if outcome.status in ("changed", "unchanged") and (outcome.status == "changed" or not path.exists()):
            try:
                _write_run_page(store, outcome.found.run, path)
            except LongpoleError as error:
                outcome = _failed(outcome.found, error.fact, log, error.cure)
        told.append(outcome)
    entries = [nights.Entry(o.found.run, o.status, o.error, tuple(f.name for f in o.found.growing)) for o in told]
    trend = _trend(store, baseline, log)
    for entry in entries:
        base = trend.baseline_of(entry.run)
        if entry.status == "changed" and base is not None:
            _write_comparison(store, base, entry.run, folder, log)
    pages = frozenset(str(path.relative_to(folder)) for path in folder.glob("*/*.html"))
    verdict = nights.judge(entries, trend, root=root, pages=pages)
    _write_new(folder / "index.html", nights_page.render(verdict, trend, tool_version=__version__))
    _write_new(folder / "verdict.json", nights.to_json(verdict, tool_version=__version__))
    _write_new(folder / "junit.xml", nights.to_junit(verdict))
    counts = {status: sum(e.status == status for e in entries) for status in nights.STATUSES}
    log.milestone(
        "night done",
        ", ".join(f"{n} runs {status}" for status, n in counts.items() if n) or "no runs",
        **counts,
        n_gates_failed=len(verdict.failures),
    )
    print(folder / "index.html")
    return told, verdict


def _trend(store: Store, baseline: str | None, log: Log) -> nights.Trend:
    """Return what the fleet's views say of all runs, without those whose manifest cannot be read."""
    runs = store.runs()
    try:
        session = Session(store, runs, baseline=baseline, views=nights.VIEWS) if runs else None
    except StoreError:
        manifests, unreadable = store.manifests()
        for error in unreadable.values():
            log.print(f"left out of the trends: {printable(error.fact)}")
        runs = [manifest.run for manifest in manifests]
        session = Session(store, runs, baseline=baseline, views=nights.VIEWS) if runs else None
    if session is None:
        return nights.Trend()
    with session, session.explaining():
        return nights.read(session.con)


def _write_new(path: Path, text: str) -> None:
    """Write a file unless it says just that: what copies or serves the folder sees that nothing is new."""
    try:
        if path.read_bytes() == text.encode("utf-8", errors="replace"):
            return
    except FileNotFoundError:
        pass
    write_page(path, text)


def _write_run_page(store: Store, run: str, path: Path) -> None:
    page_path(str(path), path.name, force=False)
    with Session(store, [run]) as session, session.explaining():
        html, _ = of_run.told(session.con, run, tool_version=__version__)
    write_page(path, html)


def _write_comparison(store: Store, base: str, run: str, folder: Path, log: Log) -> None:
    """Write how a run differs from its baseline; one that cannot be compared has no such page."""
    path = folder / "compare" / f"{run}.html"
    try:
        page_path(str(path), path.name, force=False)
        found = compared(store, base, run, memory=DEFAULT_SESSION_MEMORY)
    except LongpoleError as error:
        log.print(f"{run}: not compared with {base}: {printable(error.fact)}")
        return
    write_page(path, compare_page.render(found, tool_version=__version__))


def _remember(store: Store, found: night.Found) -> None:
    """Note what this night has dealt with, last of all: a night that was killed is done again."""
    with store.lock(found.run):
        manifest = store.manifest(found.run)
        names = {f.name for f in found.files}
        kept = tuple(f for f in manifest.seen if f.path not in names)
        seen = tuple(sorted((*kept, *night.seen_files(found))))
        if seen != manifest.seen:
            store.publish(msgspec.structs.replace(manifest, seen=seen))


def _raise(outcomes: Sequence[Outcome], verdict: nights.Verdict) -> None:
    failed = [o for o in outcomes if o.status == "failed"]
    facts = [nights.sentence(g) for g in verdict.failures]
    facts += [f"run {o.found.run}: {printable(o.error)}" for o in failed]
    if verdict.failures:
        n = len(verdict.failures)
        raise GateError(
            f"{n} gate{'s' if n > 1 else ''} failed\n" + "\n".join(f"  {f}" for f in facts),
            "The pages of these runs say what grew. [gates] of run.toml has the limits.",
        )
    if failed:
        raise LongpoleError(
            f"{len(failed)} of {len(outcomes)} runs failed\n" + "\n".join(f"  {f}" for f in facts),
            "The others are done; the next night tries these again.",
        )
