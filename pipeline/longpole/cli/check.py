"""`longpole check`: the rules that every run must keep, and the gates of its own run.toml."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from longpole import catalog
from longpole.cli.options import RunArgument, StoreOption
from longpole.config import parse
from longpole.errors import GateError
from longpole.report import nights
from longpole.session import Session
from longpole.store import Store, store_at
from longpole.text import one_line


def check(
    run: RunArgument,
    /,
    *,
    store: StoreOption = None,
    baseline: Annotated[
        str | None,
        Parameter(help="Run to compare with. Default: the good runs before it of the same job and workload."),
    ] = None,
) -> None:
    """Test a run against every rule and every gate of its run.toml; print what breaks one, and exit 3 then.

    Example: longpole check nightly-2117
    """
    target = store_at(store)
    broken = _rules(target, run)
    failed = _gates(target, run, baseline)
    facts = [f"run {run!r} breaks {broken} rules"] if broken else []
    if failed:
        n = len(failed)
        facts += [f"{n} gate{'s' if n > 1 else ''} failed", *(f"  {nights.sentence(gate)}" for gate in failed)]
    if facts:
        raise GateError("\n".join(facts), "The rows are printed above." if broken else "")


def _rules(store: Store, run: str) -> int:
    """Print every rule, and the rows that break it; return how many are broken."""
    broken = 0
    with Session(store, [run]) as session:
        for rule in catalog.ordered(["check"]):
            found = session.sql(rule.sql)
            with session.explaining():
                rows = found.limit(20).fetchall()
            broken += bool(rows)
            print(f"{'broken' if rows else 'ok':<7} {rule.name.replace('_', ' ')}")
            for row in rows:
                print(
                    "        " + ", ".join(f"{c}={one_line(str(v))}" for c, v in zip(found.columns, row, strict=True))
                )
    return broken


def _gates(store: Store, run: str, baseline: str | None) -> list[nights.Gate]:
    """Print every gate of the run, and return those that failed."""
    if not parse(store.manifest(run).config, f"config.toml of run {run}").thresholds():
        return []
    with Session(store, baseline=baseline, views=("fleet_gates",)) as session, session.explaining():
        gates = [gate for gate in nights.read_gates(session.con) if gate.run == run]
    for gate in gates:
        state = gate.verdict if gate.verdict in ("passed", "failed") else "n/a"
        print(f"{state:<7} {gate.gate}" + (f": {one_line(gate.verdict)}" if state == "n/a" else ""))
    return [gate for gate in gates if gate.verdict == "failed"]
