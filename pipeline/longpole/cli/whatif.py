"""`longpole whatif`: what a run's steps would take after a change."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import polars as pl
from cyclopts import Parameter
from rich.table import Table

from longpole import catalog
from longpole.analyze import analyze_run
from longpole.cli.options import ClusterFlags, Log, RunArgument, StoreOption, Work, print_table, stderr
from longpole.errors import UsageError
from longpole.session import Session
from longpole.store import Store, refuse_pruned, store_at
from longpole.text import one_line
from longpole.units import duration_text, parse_duration
from longpole.whatif import KINDS, LEAST_RANKS_OF_A_MEDIAN, Answer, Change, Scenario, ask, recorded_ranks

_MOST_STEPS = 20
"""Steps that the table lists; JSON has them all."""

_MOST_GAINS = 10

_TERM = re.compile(r",(?=(?:rank|name|phase|group):|(?:" + "|".join(KINDS) + r")(?:,|$))")


def whatif(
    run: RunArgument,
    /,
    *,
    scale: Annotated[
        tuple[str, ...],
        Parameter(
            help="WHAT=FACTOR: multiply time by a factor, 0 for gone. WHAT is a kind (compute, comm, copy, host, "
            "input, sync, launch, turnaround, unknown), rank:N, name:PATTERN, phase:NAME or group:ID; or several, "
            "with commas."
        ),
    ] = (),
    fix_rank: Annotated[
        tuple[str, ...], Parameter(help="Set a rank, or all, to the median of all ranks where that is less.")
    ] = (),
    remove: Annotated[
        tuple[str, ...],
        Parameter(
            help="exposed or exposed=25ms: exchanges on the path, the last first; waits: for later ranks; launch."
        ),
    ] = (),
    opportunities: Annotated[
        bool, Parameter(help="List the ten largest gains of single changes.", negative="")
    ] = False,
    stragglers: Annotated[
        bool, Parameter(help="What the run's stragglers cost it, kept in the store as run_whatif.", negative="")
    ] = False,
    format: Annotated[Literal["table", "json"], Parameter(help="How to print the answer.")] = "table",
    store: StoreOption = None,
    cluster: ClusterFlags = ClusterFlags(),  # noqa: B008  frozen
) -> None:
    """Predict step times after changes, all made together.

    Example: longpole whatif nightly-2117 --scale comm=0.5 --fix-rank 3
    """
    console = cluster.log()
    target = store_at(store)
    refuse_pruned(target.manifest(run), "a what-if")
    changes = (
        *(_scaled(text) for text in scale),
        *(_fixed(text) for text in fix_rank),
        *(_removed(text) for text in remove),
    )
    if opportunities + stragglers + bool(changes) != 1:
        raise UsageError(
            "ask for changes, for opportunities or for stragglers",
            "As --scale comm=0.5, --fix-rank 3, or --opportunities or --stragglers alone.",
        )
    if stragglers:
        _price(target, run, cluster, console, format)
        return
    scenarios = _candidates(target, run) if opportunities else [changes]
    with Work(cluster.options(), console) as work:
        answer = ask(target, run, scenarios, run_tasks=work.runner("what-if"), memory=work.task_memory)
    if format == "json":
        _print_json(run, scenarios, answer)
    elif opportunities:
        _print_gains(run, scenarios, answer)
    else:
        _print_steps(run, scenarios[0], answer)


def _price(store: Store, run: str, cluster: ClusterFlags, console: Log, format: str) -> None:
    with Work(cluster.options(), console) as work, store.lock(run):
        analyze_run(store, run, run_tasks=work.runner("what-if"), memory=work.task_memory, has_what_ifs=True)
    with Session(store, [run]) as session, session.explaining():
        rows = session.sql(catalog.page_query("whatif_stragglers"), {"run": run}).pl()
    if format == "json":
        json.dump({"run": run, "stragglers": rows.to_dicts()}, sys.stdout, indent=2)
        print()
        return
    if rows.is_empty():
        ranks = len(recorded_ranks(store.manifest(run)))
        print(f"n/a: a median of ranks needs {LEAST_RANKS_OF_A_MEDIAN} recorded, run {one_line(run)} has {ranks}")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("measure", "group"):
        table.add_column(name)
    for name in ("value", "step", "against"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in rows.iter_rows(named=True):
        group = one_line(f"{row['dimension']} {row['group_key']}")
        value = "n/a" if row["value_ratio"] is None else f"{row['value_ratio']:.3f}"
        table.add_row(
            row["measure"],
            group,
            value,
            duration_text(row["duration_ns"]),
            duration_text(row["base_ns"]),
            row["verdict"],
        )
    print_table(table)


def _scaled(text: str) -> Change:
    what, _, number = text.rpartition("=")
    try:
        factor = float(number)
    except ValueError:
        factor = -1.0
    if not what or not 0 <= factor <= 1000:
        raise UsageError(f"--scale {text!r} has no factor from 0 to 1000", "Write it as --scale comm=0.5.")
    found: dict[str, Any] = {}
    for term in _TERM.split(what):
        key, colon, value = term.partition(":")
        name = {"name": "pattern"}.get(key, key) if colon else "kind"
        if (colon and (key not in ("rank", "name", "phase", "group") or not value)) or (
            not colon and term not in KINDS
        ):
            raise UsageError(
                f"--scale {text!r}: {term!r} names nothing",
                f"Kinds: {', '.join(KINDS)}. Else rank:N, name:PATTERN, phase:NAME, group:ID.",
            )
        if name in found:
            raise UsageError(f"--scale {text!r} gives two of {key}", "Use --scale twice.")
        found[name] = _rank(value) if name == "rank" else term if name == "kind" else value
    if ("group" in found and set(found) - {"group", "kind"}) or (
        "group" in found and found.get("kind", "comm") != "comm"
    ):
        raise UsageError(f"--scale {text!r}: a group has exchanges alone", "Write it as --scale group:ID=0.5.")
    return Change("scale", factor=factor, **found)


def _fixed(text: str) -> Change:
    return Change("fix", rank=None if text == "all" else _rank(text))


def _removed(text: str) -> Change:
    what, equals, amount = text.partition("=")
    if what == "exposed":
        return Change("exposed", amount_ns=parse_duration(amount) if equals else None)
    if text == "waits":
        return Change("waits")
    if text == "launch":
        return Change("scale", kind="launch", factor=0.0)
    raise UsageError(f"--remove {text!r} is nothing to remove", "One of exposed, exposed=25ms, waits, launch.")


def _rank(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text):
        raise UsageError(f"{text!r} is no rank", "Give its number.")
    return int(text)


def _candidates(store: Store, run: str) -> list[Scenario]:
    """Return single changes worth asking, from what the run's critical paths spend their time on."""
    sql = "SELECT what, kind, rank, pattern, factor FROM opportunity_changes WHERE run = $1 ORDER BY scenario"
    has_medians = len(recorded_ranks(store.manifest(run))) >= LEAST_RANKS_OF_A_MEDIAN
    with Session(store, [run]) as session, session.explaining():
        rows = session.con.execute(sql, [run]).fetchall()
    return [
        (Change(what, kind=kind, rank=rank, pattern=pattern, factor=factor),)
        for what, kind, rank, pattern, factor in rows
        if has_medians or what != "fix"
    ]


def _total(answer: Answer, scenario: int) -> dict[str, Any]:
    return answer.totals.row(by_predicate=pl.col("scenario") == scenario, named=True)


def _allowance(row: dict[str, Any]) -> str:
    return f"the unchanged graph replays its steps to {row['replay_error_ratio']:.2%} (median)"


def _print_steps(run: str, scenario: Scenario, answer: Answer) -> None:
    row = _total(answer, 1)
    lines = [
        f"run {run}: {row['n_steps']} steps, {duration_text(row['measured_ns'])} as recorded; {_allowance(row)}",
        *(f"change: {one_line(change.in_words())}" for change in scenario),
        f"predicted {duration_text(row['predicted_ns'])}: {_saved(row['saved_ns'])}, speedup {_ratio(row)}",
    ]
    table = Table(box=None, pad_edge=False)
    for name in ("step", "recorded", "predicted", "saved", "speedup"):
        table.add_column(name, justify="right")
    steps = answer.steps.filter(pl.col("scenario") == 1)
    for step in steps.head(_MOST_STEPS).iter_rows(named=True):
        measured, predicted = step["measured_ns"], step["predicted_ns"]
        is_known = measured is not None and predicted is not None
        table.add_row(
            str(step["step"]),
            duration_text(measured),
            duration_text(predicted),
            duration_text(measured - predicted) if is_known else "n/a",
            _ratio({"measured_ns": measured, "predicted_ns": predicted}),
        )
    print_table(table, above=lines)
    if steps.height > _MOST_STEPS:
        stderr().print(f"(the first {_MOST_STEPS} of {steps.height} steps; --format json has them all)")


def _print_gains(run: str, scenarios: Sequence[Scenario], answer: Answer) -> None:
    base = _total(answer, 0)
    head = f"run {run}: {base['n_steps']} steps, {duration_text(base['measured_ns'])} as recorded; {_allowance(base)}"
    table = Table(box=None, pad_edge=False)
    for name, justify in (("speedup", "right"), ("saved", "right"), ("change", "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in _gains(answer):
        words = "; ".join(c.in_words() for c in scenarios[row["scenario"] - 1])
        table.add_row(_ratio(row), duration_text(row["saved_ns"]), one_line(words))
    if table.row_count:
        print_table(table, above=[head])
    else:
        print(f"{head}\nno single change asked about would save a thousandth of it")


def _gains(answer: Answer) -> list[dict[str, Any]]:
    """Return the rows of the ten scenarios that save the most, and at least a thousandth of the run."""
    rows = [r for r in answer.totals.iter_rows(named=True) if r["scenario"] > 0]
    rows = [r for r in rows if r["saved_ns"] * 1000 >= r["measured_ns"]]
    return sorted(rows, key=lambda r: (-r["saved_ns"], r["scenario"]))[:_MOST_GAINS]


def _print_json(run: str, scenarios: Sequence[Scenario], answer: Answer) -> None:
    """Print the run, and of each scenario its changes, totals and steps; times in nanoseconds."""
    listed = []
    for row in answer.totals.filter(pl.col("scenario") > 0).iter_rows(named=True):
        number = row.pop("scenario")
        steps = answer.steps.filter(pl.col("scenario") == number).drop("scenario", "capture")
        changes = [
            {"words": c.in_words()} | {k: v for k, v in vars(c).items() if v is not None} for c in scenarios[number - 1]
        ]
        listed.append({"changes": changes, **row, "steps": list(steps.iter_rows(named=True))})
    sys.stdout.write(json.dumps({"run": run, "scenarios": listed}, indent=1) + "\n")


def _ratio(row: dict[str, Any]) -> str:
    measured, predicted = row["measured_ns"], row["predicted_ns"]
    return f"{measured / predicted:.3f}x" if measured is not None and predicted else "n/a"


def _saved(ns: int) -> str:
    return f"{duration_text(-ns)} more" if ns < 0 else f"{duration_text(ns)} saved"
