"""`longpole synth`: dumps with a known answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from longpole.cli.options import stderr
from longpole.errors import UsageError
from longpole.synth import SCENARIOS, write


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
    paths = write(scenario, Path(output), form=form, ranks=ranks, steps=steps, gzip=gzip, seed=seed)
    stderr().print(f"wrote {len(paths)} dumps and truth.json")
    print(output)
