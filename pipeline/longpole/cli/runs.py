"""`longpole runs`: what is in the store and how big."""

from __future__ import annotations

from longpole import timelines
from longpole.cli.options import StoreOption
from longpole.store import PublishedFile, store_at, without_events
from longpole.text import printable
from longpole.units import bytes_text


def runs(*, store: StoreOption = None) -> None:
    """List the runs of a store with their ranks and dumps, and the size of events, facts and marts.

    One that cannot be read says why.

    Example: longpole runs --store /data/longpole
    """
    target = store_at(store)
    total = 0
    manifests, unreadable = target.manifests()
    for manifest in manifests:
        ranks = {d.rank for d in manifest.dumps if d.rank is not None}
        sizes: dict[str, int] = {}
        for file in manifest.files:
            level = _level(file)
            sizes[level] = sizes.get(level, 0) + file.n_bytes
        total += sum(sizes.values())
        gone = len(without_events(manifest))
        events = "pruned" if gone and not manifest.of("events") else bytes_text(sizes.get("events", 0))
        cells = [
            *(manifest.run, f"{len(ranks)} ranks", f"{len(manifest.dumps)} dumps", f"events {events}"),
            *(f"{level} {bytes_text(sizes.get(level, 0))}" for level in ("facts", "marts")),
            f"total {bytes_text(sum(sizes.values()))}",
        ]
        print("\t".join(cells))
    for run, error in unreadable.items():
        print(f"{run}\t{printable(error.fact)}")
    if total:
        print(f"total {bytes_text(total)}")


def _level(file: PublishedFile) -> str:
    return "events" if file.table in ("events", timelines.TABLE) else file.path.partition("/")[0]
