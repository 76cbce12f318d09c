"""`longpole explain`: why one step took as long as it did."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from longpole.cli.options import RunArgument, StoreOption, check_step
from longpole.report import explain as paths
from longpole.report import story
from longpole.session import Session
from longpole.store import store_at
from longpole.units import parse_bytes


def explain(
    run: RunArgument,
    /,
    *,
    step: Annotated[int | None, Parameter(help="Number of the step. Default: the run's slowest.")] = None,
    format: Annotated[Literal["table", "json"], Parameter(help="Text for a person, or one JSON object.")] = "table",
    store: StoreOption = None,
    memory: Annotated[str, Parameter(help="What reading may hold before it spills to disk.")] = "1GiB",
) -> None:
    """Tell the critical path of one step: the work that decided its length, each nanosecond once.

    Example: longpole explain nightly-2117 --step 104
    """
    check_step(step)
    target = store_at(store)
    target.manifest(run)
    with Session(target, [run], memory=parse_bytes(memory)) as session, session.explaining():
        told = paths.build(session.con, run, step)
    print(paths.json_text(told) if format == "json" else story.text(told))
