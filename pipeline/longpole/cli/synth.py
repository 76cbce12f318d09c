"""`longpole synth`: dumps with a known answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from longpole.cli.options import ClusterFlags, Work
from longpole.errors import UsageError
from longpole.synth import SCENARIOS, write

SMALL_RANK_STEPS = 1_000
"""Steps of all ranks that this process alone writes: they take two seconds, as starting workers does."""


def synth(
    scenario: Annotated[str | None, Parameter(help="Which; without one, they are listed.")] = None,
    /,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"], help="Folder to write to.")] = None,
    form: Annotated[Literal["kineto", "events"], Parameter(name="--as", help="What a dump is written as.")] = "kineto",
    ranks: Annotated[int | None, Parameter(help="Ranks, where the scenario lets you choose.")] = None,
    steps: Annotated[int | None, Parameter(help="Steps, where the scenario lets you choose.")] = None,
    gzip: Annotated[bool, Parameter(help="Compress Kineto dumps.")] = False,
    seed: Annotated[int | None, Parameter(help="Of a straggler scenario: another rank, other jitter.")] = None,
    cluster: ClusterFlags = ClusterFlags(),  # noqa: B008  frozen
) -> None:
    """Write one dump per rank and truth.json, the exact answer, beside them.

    Example: longpole synth worked -o worked/
    """
    if scenario is None:
        width = max(len(name) for name in SCENARIOS)
        for name, known in SCENARIOS.items():
            print(f"{name:<{width}}  {known.description}")
        return
    if scenario not in SCENARIOS:
        raise UsageError(f"there is no scenario {scenario!r}", f"Scenarios: {', '.join(SCENARIOS)}.")
    if output is None:
        raise UsageError("no folder is given", "Name one with -o.")
    options, log = cluster.options(), cluster.log()
    size = (ranks or SCENARIOS[scenario].ranks) * (steps or SCENARIOS[scenario].steps)
    # Each part works out all ranks' times, so on this machine there are no more of them than cores.
    n_parts = ranks or 1 if options.scheduler or options.scheduler_file else os.cpu_count() or 1
    with Work(options, log) as work:
        paths = write(
            scenario,
            Path(output),
            form=form,
            ranks=ranks,
            steps=steps,
            gzip=gzip,
            seed=seed,
            n_parts=n_parts if size > SMALL_RANK_STEPS else 1,
            run_tasks=work.runner("synth") if size > SMALL_RANK_STEPS else None,
        )
    log.print(f"wrote {len(paths)} dumps and truth.json")
    print(output)
