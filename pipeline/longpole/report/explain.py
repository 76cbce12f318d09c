"""The critical path of one step as plain data: which stretches of work made it as long as it was, on which ranks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from longpole.errors import LongpoleError
from longpole.report import answers

MAX_LINES = 10
"""Stretches of a path that are told apart: with what stands above and below them a step fits a small terminal."""

MAX_HAND_OVERS = 3
"""Hand-overs told one by one."""

MAX_NAMES = 3
"""Names told with their share of the whole path."""

MAX_RANGE_RANKS = 16
"""Ranks whose long ranges are looked up, those with most of the path first: each is a pass over that rank's events."""


@dataclass(frozen=True)
class Head:
    """The answer of the query explain_step."""

    step: int
    is_slowest: bool
    n_steps: int
    first_step: int
    last_step: int
    n_timed_steps: int
    start_ns: int
    end_ns: int
    duration_ns: int
    end_rank: int
    end_margin_ns: int | None
    is_margin_clear: bool | None
    n_ranks: int
    n_path_ranks: int
    n_segments: int
    path_ns: int
    verdict: str
    residual_ns: int | None
    peer_ns: int
    peer_ratio: float
    n_peer_segments: int
    no_event_ns: int
    no_event_ratio: float
    unknown_ns: int
    unknown_ratio: float


@dataclass(frozen=True)
class Kind:
    """A row of explain_kinds."""

    kind: str
    rank: int
    duration_ns: int
    share_ratio: float
    n_segments: int


@dataclass(frozen=True)
class Name:
    """A row of explain_names."""

    name: str
    duration_ns: int
    share_ratio: float
    n_segments: int


@dataclass(frozen=True)
class Stretch:
    """A row of explain_stretches."""

    offset_ns: int
    duration_ns: int
    share_ratio: float
    is_folded: bool
    n_segments: int
    n_ranks: int
    rank: int
    lane: str
    kind: str
    kind_ns: int
    kind_ratio: float
    part_of: str | None
    n_names: int
    name: str
    name_ns: int
    verdict: str


@dataclass(frozen=True)
class HandOver:
    """A row of explain_hand_overs."""

    offset_ns: int
    from_rank: int
    to_rank: int
    op: str | None
    group_id: str | None
    seq: int | None
    n_bytes: int | None
    wait_ns: int | None
    comm_ns: int
    is_comm_clear: bool
    n_hand_overs: int
    all_wait_ns: int | None


@dataclass(frozen=True)
class Explanation:
    """A step's path: its head, and the rows of what it is made of."""

    run: str
    head: Head
    kinds: tuple[Kind, ...]
    names: tuple[Name, ...]
    stretches: tuple[Stretch, ...]
    hand_overs: tuple[HandOver, ...]


def build(con: duckdb.DuckDBPyConnection, run: str, step: int | None, *, has_stretches: bool = True) -> Explanation:
    """Return the critical path of a step of the run, of its slowest where none is given.

    Without stretches no rank's events are read, only what the store has of the path.

    Raises:
        LongpoleError: There is no such step, or it has no path; says what there is.
    """
    (found,) = answers.rows(con, "explain_step", run=run, step=step)
    _refuse_pathless(run, step, found)
    head = Head(**found)
    kinds = tuple(Kind(**row) for row in answers.rows(con, "explain_kinds", run=run, step=head.step))
    names = answers.rows(con, "explain_names", run=run, step=head.step, max_rows=MAX_NAMES)
    hand_overs = answers.rows(con, "explain_hand_overs", run=run, step=head.step, max_rows=MAX_HAND_OVERS)
    return Explanation(
        run=run,
        head=head,
        kinds=kinds,
        names=tuple(Name(**row) for row in names),
        stretches=_stretches(con, run, head.step, kinds) if has_stretches else (),
        hand_overs=tuple(HandOver(**row) for row in hand_overs),
    )


def _stretches(con: duckdb.DuckDBPyConnection, run: str, step: int, kinds: tuple[Kind, ...]) -> tuple[Stretch, ...]:
    ranks = list(dict.fromkeys(kind.rank for kind in kinds))[:MAX_RANGE_RANKS]
    ranges = [row for rank in ranks for row in answers.rows(con, "explain_ranges", run=run, step=step, rank=rank)]
    rows = answers.rows(con, "explain_stretches", run=run, step=step, max_lines=MAX_LINES, ranges=ranges)
    return tuple(Stretch(**row) for row in rows)


def json_text(explanation: Explanation) -> str:
    """Return the explanation as one JSON object, ASCII; its keys are documented in the README."""
    head = asdict(explanation.head)
    rows = {
        "kinds": [asdict(kind) for kind in explanation.kinds],
        "names": [asdict(name) for name in explanation.names],
        "stretches": [asdict(stretch) for stretch in explanation.stretches],
        "hand_overs": [asdict(hand_over) for hand_over in explanation.hand_overs],
    }
    return json.dumps({"run": explanation.run, **head, **rows}, indent=1)


def _refuse_pathless(run: str, step: int | None, found: dict[str, Any]) -> None:
    if not found["n_steps"]:
        raise LongpoleError(f"run {run!r} has no steps", f"Analyze it first: longpole analyze {run}")
    if found["step"] is None and step is not None:
        first, last, n_steps = found["first_step"], found["last_step"], found["n_steps"]
        what = f"step {first}" if n_steps == 1 else f"steps {first} to {last} ({n_steps})"
        raise LongpoleError(f"run {run!r} has no step {step}", f"It has {what}.")
    if found["duration_ns"] is None:
        which = f"run {run!r} has no step whose length is known"
        if found["step"] is not None:
            which = f"the length of step {found['step']} of run {run!r} is not known"
        raise LongpoleError(
            f"{which}: its ranks share no clock",
            "What each rank's own steps are made of: "
            f'longpole query "FROM rank_steps ORDER BY step, rank" --run {run}',
        )
    if found["duration_ns"] and not found["n_segments"]:
        raise LongpoleError(
            f"the store has no critical path of step {found['step']} of run {run!r}",
            f"An earlier version analyzed it. Analyze it again: longpole analyze {run}",
        )
