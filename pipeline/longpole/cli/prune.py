"""`longpole prune`: old events go, facts and marts stay."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import Parameter

from longpole import retention
from longpole.analyze import is_analyzed
from longpole.cli.options import StoreOption, stderr
from longpole.errors import LongpoleError, UsageError
from longpole.store import store_at
from longpole.text import printable
from longpole.units import bytes_text, parse_duration


def prune(
    *,
    older_than: Annotated[str | None, Parameter(help="Events that were written longer ago, as in 30d.")] = None,
    keep: Annotated[int | None, Parameter(help="Events of all but the last so many runs of each job.")] = None,
    yes: Annotated[bool, Parameter(help="Do it; else only say what would go.")] = False,
    store: StoreOption = None,
) -> None:
    """Delete the events of old runs, by far the most of a store. Facts and marts stay, and with them every other view.

    Given together, both must say so. An op timeline keeps its ops, and a run that is not analyzed its events.

    Example: longpole prune --older-than 30d --yes
    """
    if older_than is None and keep is None:
        raise UsageError(
            "neither --older-than nor --keep is given", "Say which events are old, as in --older-than 30d."
        )
    if keep is not None and keep < 0:
        raise UsageError(f"--keep {keep} is no number of runs", "Give 0 or more.")
    age_ns = None if older_than is None else parse_duration(older_than, least_ns=0)
    console = stderr()
    target = store_at(store)
    manifests, unreadable = target.manifests()
    for error in unreadable.values():
        console.print(f"left as it is: {printable(error.fact)}")
    old = retention.old_runs(target, manifests, age_ns=age_ns, keep=keep, now=time.time())
    total = 0
    for run in old:
        if not is_analyzed(target.manifest(run)):
            console.print(f"{run} keeps its events: it is not analyzed by this version (longpole analyze {run})")
            continue
        try:
            size = retention.prune_run(target, run) if yes else retention.events_bytes(target.manifest(run))
        except LongpoleError as error:
            console.print(f"{run} keeps its events: {error.fact}")
            continue
        total += size
        print(f"{run}\t{bytes_text(size)}")
    told = f"{bytes_text(total)} of events"
    console.print(f"deleted {told}" if yes else f"would delete {told}; --yes does it")
