"""`longpole runs`: what is in the store and how big."""

from __future__ import annotations

from longpole.cli.options import StoreOption, open_store
from longpole.units import bytes_text


def runs(*, store: StoreOption = None) -> None:
    """List the runs of a store with their ranks, dumps and size.

    Example: longpole runs --store /data/longpole
    """
    target = open_store(store)
    for run in target.runs():
        manifest = target.manifest(run)
        ranks = {d.rank for d in manifest.dumps if d.rank is not None}
        size = sum(f.n_bytes for f in manifest.files)
        print(f"{run}\t{len(ranks)} ranks\t{len(manifest.dumps)} dumps\t{bytes_text(size)}")
