"""Which runs' events are old, and how they go: the manifest forgets them first, then the files are deleted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from longpole import config
from longpole.errors import LongpoleError
from longpole.store import EVENT_TABLES, Manifest, Store, gone


def old_runs(
    store: Store, manifests: Sequence[Manifest], *, age_ns: int | None, keep: int | None, now: float
) -> list[str]:
    """Return those of a store's runs whose events are old by every rule that is given, sorted.

    Args:
        age_ns: Written into the store longer ago, by the store's own times.
        keep: All but the last so many of each job, by when they were recorded.
        now: Seconds since the epoch.
    """
    recent = set() if keep is None else _last(manifests, keep)
    return [
        m.run
        for m in manifests
        if m.of("events") and m.run not in recent and (age_ns is None or (now - _written(store, m)) * 1e9 > age_ns)
    ]


def events_bytes(manifest: Manifest) -> int:
    """Return the size of a run's events."""
    return sum(f.n_bytes for table in EVENT_TABLES for f in manifest.of(table))


def prune_run(store: Store, run: str) -> int:
    """Delete a run's events and return their size; what follows from them stays.

    Raises:
        StoreError: Another process writes the run, or the store cannot be written.
    """
    with store.lock(run):
        manifest = store.manifest(run)
        size = events_bytes(manifest)
        kept = tuple(f for f in manifest.files if f.table not in EVENT_TABLES)
        pruned = msgspec.structs.replace(manifest, files=kept)
        store.publish(pruned)
        store.sweep(pruned)
    return size


def _last(manifests: Sequence[Manifest], keep: int) -> set[str]:
    by_job: dict[str | None, list[tuple[int, str]]] = {}
    for manifest in manifests:
        by_job.setdefault(_job(manifest), []).append(
            (max((d.last_ns or 0 for d in manifest.dumps), default=0), manifest.run)
        )
    return {run for runs in by_job.values() for _, run in sorted(runs)[max(0, len(runs) - keep) :]}


def _job(manifest: Manifest) -> str | None:
    try:
        return config.parse(manifest.config, "config.toml").comparable()[0]
    except LongpoleError:  # as an earlier version allowed it
        return None


def _written(store: Store, manifest: Manifest) -> float:
    """Return when the youngest of a run's events was written, in seconds since the epoch."""
    listed = store.listing(manifest.run, "events")
    times: list[float] = []
    for file in manifest.of("events"):
        path = store.path("runs", manifest.run, file.path)
        if file.path not in listed:
            raise gone(path, manifest.run)
        told = listed[file.path]
        time = told.get("mtime") or told.get("LastModified") or store.fs.modified(path)  # some listings do not tell
        times.append(float(time if isinstance(time, int | float) else time.timestamp()))
    return max(times)
