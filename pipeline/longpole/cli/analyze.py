"""`longpole analyze`: events to answers."""

from __future__ import annotations

from longpole.analyze import analyze_run
from longpole.cli.options import ClusterFlags, RunArgument, StoreOption, WhatIfOption, Work
from longpole.store import store_at


def analyze(
    run: RunArgument,
    /,
    *,
    store: StoreOption = None,
    what_if: WhatIfOption = None,
    cluster: ClusterFlags = ClusterFlags(),  # noqa: B008  frozen
) -> None:
    """Compute a run's facts and marts from its events. What is up to date is not computed again.

    Example: longpole analyze nightly-2117
    """
    console = cluster.log()
    target = store_at(store)
    target.manifest(run)
    with Work(cluster.options(), console) as work, target.lock(run):
        manifest = analyze_run(
            target, run, run_tasks=work.runner("analyze"), memory=work.task_memory, has_what_ifs=what_if
        )
    console.print(f"wrote {len(manifest.files) - len(manifest.sources())} files of answers of run {run}")
    print(run)
