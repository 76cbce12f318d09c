"""`longpole compare`: which part of a step grew from one run to another."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from longpole.cli.options import StoreOption
from longpole.errors import UsageError
from longpole.report import changes
from longpole.report import compare as comparisons
from longpole.session import Session
from longpole.store import Store, store_at
from longpole.units import parse_bytes


def compare(
    base: Annotated[str, Parameter(help="Name of the run to compare with.")],
    new: Annotated[str, Parameter(help="Name of the run to compare.")],
    /,
    *,
    format: Annotated[Literal["table", "json"], Parameter(help="Text for a person, or one JSON object.")] = "table",
    store: StoreOption = None,
    memory: Annotated[str, Parameter(help="What reading may hold before it spills to disk.")] = "1GiB",
) -> None:
    """Say whether a run is faster or slower than another, beyond the noise of its steps, and which part grew.

    Example: longpole compare nightly-2116 nightly-2117
    """
    found = compared(store_at(store), base, new, memory=parse_bytes(memory))
    print(comparisons.json_text(found) if format == "json" else changes.text(found))


def compared(store: Store, base: str, new: str, *, memory: int) -> comparisons.Comparison:
    """Return the comparison of two runs of the store.

    Raises:
        LongpoleError: There is no such run, or they are one.
    """
    manifests = (store.manifest(base), store.manifest(new))
    if base == new:
        raise UsageError(f"{new!r} is both runs", "Name the run to compare with, then the other.")
    with Session(store, [base, new], memory=memory) as session, session.explaining():
        return comparisons.build(session.con, *manifests)
