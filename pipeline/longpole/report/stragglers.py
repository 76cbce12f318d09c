"""What an op timeline says about stragglers, in about eight lines for a terminal."""

from __future__ import annotations

from typing import NamedTuple

import duckdb

from longpole.catalog import page_query
from longpole.report import words


class _Fact(NamedTuple):
    measure: str
    dimension: str
    group_key: str
    value_ratio: float | None
    duration_ns: int | None
    base_ns: int | None
    verdict: str


_GROUPS = (("dp_rank", "dp rank"), ("stage", "stage"), ("op_type", "type of op"))


def text(con: duckdb.DuckDBPyConnection, run: str) -> str:
    """Return the summary, one fact a line; empty for a run that is no op timeline."""
    facts = [_Fact(*row) for row in con.execute(page_query("summary_whatif"), {"run": run}).fetchall()]
    found = {(f.measure, f.dimension): f for f in facts}
    ((n_steps, first, last, n_ranks),) = con.execute(
        "SELECT count(DISTINCT step), min(step), max(step), count(DISTINCT rank) FROM timeline_ops WHERE run = $run",
        {"run": run},
    ).fetchall()
    if not n_steps:
        return ""
    lines = [f"{words.visible(run)}: op timeline of {words.count(n_ranks)} ranks, steps {first} to {last} ({n_steps})"]
    launch, slowdown = found.get(("launch_slowdown", "run")), found.get(("S", "run"))
    if launch is None or slowdown is None or slowdown.value_ratio is None:
        return "\n".join([*lines, "No step could be replayed: its ops wait for each other in a circle."])
    lines += [
        f"A step takes {words.duration(launch.duration_ns)}, and {words.duration(slowdown.duration_ns)} without gaps"
        f" that no op explains ({_times(launch)}).",
        f"Without stragglers it would take {words.duration(slowdown.base_ns)}: the slowdown S is {_times(slowdown)}.",
    ]
    for dimension, name in _GROUPS:
        told = [
            f"{words.visible(f.group_key)} ({_times(f)})" for f in facts if (f.measure, f.dimension) == ("S", dimension)
        ]
        if told:
            lines.append(f"Slowdown by {name} alone, the slowest: {', '.join(told)}.")
    workers, stage = found.get(("M_W", "workers")), found.get(("M_S", "stage"))
    if workers is not None and workers.value_ratio is not None:
        ranks = words.cut_middle(words.visible(workers.group_key))
        lines.append(
            f"Making the slowest 3 % of the workers ideal (rank {ranks}) saves {_share(workers)} of the slowdown."
        )
    if stage is not None and stage.value_ratio is not None:
        lines.append(f"Making the last stage ({stage.group_key}) ideal saves {_share(stage)} of it.")
    doubts = [d for d in slowdown.verdict.split("; ") if d != "ok"]
    return "\n".join([*lines, *(f"Careful: {words.visible(d)}." for d in doubts)])


def _times(fact: _Fact) -> str:
    return "n/a" if fact.value_ratio is None else f"{fact.value_ratio:.3f}x"


def _share(fact: _Fact) -> str:
    return words.percent(fact.value_ratio)
