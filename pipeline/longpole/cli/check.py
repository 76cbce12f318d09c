"""`longpole check`: the rules that every run must keep, and the rows that break one."""

from __future__ import annotations

from longpole import catalog
from longpole.cli.options import RunArgument, StoreOption, open_store
from longpole.errors import GateError
from longpole.session import Session
from longpole.text import printable


def check(run: RunArgument, /, *, store: StoreOption = None) -> None:
    """Test a run against every rule; print the rows that break one, and exit 3 then.

    Example: longpole check nightly-2117
    """
    broken = 0
    with Session(open_store(store), [run]) as session:
        for rule in catalog.ordered(["check"]):
            found = session.sql(rule.sql)
            with session.explaining():
                rows = found.limit(20).fetchall()
            broken += bool(rows)
            print(f"{'broken' if rows else 'ok':<7} {rule.name.replace('_', ' ')}")
            for row in rows:
                print(
                    "        " + ", ".join(f"{c}={printable(str(v))}" for c, v in zip(found.columns, row, strict=True))
                )
    if broken:
        raise GateError(f"run {run!r} breaks {broken} rules", "The rows are printed above.")
