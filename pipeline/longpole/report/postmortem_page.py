"""The post-mortem as one self-contained HTML file: data in, sentences and charts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longpole.report import charts, document, gantt, words
from longpole.report.document import Figure, Section
from longpole.report.page import kind_colour
from longpole.report.postmortem import Postmortem, StepData

SVG_ROWS = 3_000
"""Up to as many bars and pieces a timeline is SVG, which prints sharp; more are on a canvas, which scrolls fast."""


@dataclass(frozen=True)
class Block:
    """A step as the template shows it; `id` begins the ids of its sections and charts."""

    id: str
    data: StepData
    title: str
    sections: dict[str, Section]
    collectives: tuple[dict[str, Any], ...]
    thinned: str
    ranks_note: str
    difference: str
    stalls_note: str


def render(data: Postmortem, *, tool_version: str) -> str:
    """Return the page as HTML that needs no other file and makes no request."""
    return document.render(
        "postmortem.html.j2",
        [figure for step in data.steps for figure in _figures(step)],
        {name: rows for step in data.steps for name, rows in gantt.datasets(step).items()},
        context={
            "run": data.run,
            "data": data,
            "tool_version": tool_version,
            "blocks": [_block(data, step) for step in data.steps],
            "ends_section": sections(data.run.first_step)["ends"],
            "ends_sentence": ends_sentence(data),
            "ranks_seen": _ranks_seen(data),
            "summary": " ".join(step_sentence(data, step) for step in data.steps),
            "kinds": [(kind_colour(kind), kind) for kind in charts.KINDS],
            "kind_colours": {kind: kind_colour(kind) for kind in charts.KINDS},
        },
    )


def sections(step: int) -> dict[str, Section]:
    """Return the sections of a step by what their ids end in, and `ends`, which is the run's."""
    found = (
        Section(
            "timeline",
            f"Step {step}: what ran when",
            ("events", "rank_clocks", "collectives", "step_critical_path"),
            "SELECT rank, stream, thread, category, kind, name, start_ns, duration_ns FROM events "
            f"WHERE step = {step} ORDER BY rank, start_ns, duration_ns DESC, row_id",
            "Each rank has its launching thread's outermost ranges and calls, and its streams, on one clock. The "
            "critical path is the chain of work that decided the step's length: the top row says what it waited for, a "
            "dark line below a lane where it ran, an upright line where it went to another rank.",
        ),
        Section(
            "ranks",
            f"Step {step}: what each rank did",
            ("rank_steps", "step_stragglers", "step_path_kinds", "ranks"),
            "SELECT rank, duration_ns, compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns, wait_ns, verdict "
            f"FROM rank_steps WHERE step = {step} ORDER BY rank",
            "Compute, exposed comm, exposed copies and idle add up to the rank's own window. Waited: inside "
            "collectives, for a later rank. Late: how long others waited for it alone. Largest excess: the part of its "
            "window, or cause of idle, that is furthest beyond the median rank's.",
        ),
        Section(
            "collectives",
            f"Step {step}: collectives and who came when",
            ("collective_instances", "collectives"),
            "SELECT op, group_id, seq, first_arrival_ns, last_arrival_ns, skew_ns, last_rank, transfer_ns, verdict "
            f"FROM collective_instances WHERE step = {step} ORDER BY skew_ns DESC",
            "Skew is from the first arrival to the last; transfer is what the collective took once all were there. "
            "Exposed: the longest that any rank had no compute beside it, its wait included.",
        ),
        Section(
            "different",
            f"Step {step}: what was different",
            ("step_path_kinds", "rank_steps", "kernels"),
            f"SELECT kind, name, step, sum(total_ns) AS total_ns FROM kernels WHERE step = {step} "
            "GROUP BY kind, name, step ORDER BY total_ns DESC",
            "The same quantity in this step and in the run's median step, which is a step as it was, not a mean. The "
            "changes of the path's kinds add up to the difference of the step times. A collective's time holds its "
            "wait.",
        ),
        Section(
            "stalls",
            f"Step {step}: what the host did before it stalled",
            ("step_critical_path", "events"),
            "SELECT start_ns, duration_ns, rank, lane, kind, name FROM step_critical_path "
            f"WHERE step = {step} ORDER BY duration_ns DESC, start_ns LIMIT 10",
            "The longest stretches of the critical path on a host thread: the last calls that had ended before, the "
            "ranges and operators that it was in, innermost last, and what ran in it. (no event): the host shows "
            "nothing, as in a sleep.",
        ),
        Section(
            "ends",
            "How the recording ended",
            ("rank_captures", "dumps", "rank_steps", "collective_instances", "collectives", "groups"),
            "SELECT rank, max(end_ns) AS last_ns, max(last_step) AS last_step FROM rank_captures "
            "GROUP BY rank ORDER BY last_step, last_ns",
            "A rank stopped early where its dump lost its end or it recorded fewer steps than others. A file is not in "
            "order of time: one that lost its end may have lost more of the device than of the host, and the last work "
            "counts. Missing from a collective means that nothing recorded shows the rank in it.",
        ),
    )
    return {section.id: section for section in found}


def step_sentence(data: Postmortem, step: StepData) -> str:
    """Return how long a step took and how that stands in the run."""
    run, one = data.run, step.step
    took = (
        f"took {words.duration(one.length_ns)}"
        if one.is_timed
        else f"has windows up to {words.duration(one.length_ns)}"
    )
    if run.n_steps == 1:
        return f"Step {one.step}, the only one, {took}."
    which = f"the longest of {run.n_steps:,} steps, " if one.step == run.worst_step else ""
    if one.step == run.median_step:
        return f"Step {one.step}, {which}of median length, {took}."
    if one.beyond_ns is None or one.beyond_ns == 0:
        return f"Step {one.step}, {which}{took}, as long as the median step {run.median_step}."
    than = "longer" if one.beyond_ns > 0 else "shorter"
    share = words.percent(None if one.beyond_ratio is None else abs(one.beyond_ratio))
    return (
        f"Step {one.step}, {which}{took}: {words.duration(abs(one.beyond_ns))} ({share}) {than} than the median "
        f"step {run.median_step}."
    )


def ends_sentence(data: Postmortem) -> str:
    """Return who stopped first and who was missing where, or that all ranks go equally far."""
    rows = data.ends.ranks.to_dicts()
    if not rows:
        return "n/a: no dump says when its rank stopped."
    first = rows[0]
    if not first["n_early"]:
        until = "" if first["final_step"] is None else f", to step {first['final_step']}"
        return (
            f"No rank stopped early: {_ranks_text(first['n_ranks'])} go equally far{until}, and no dump lost its end."
        )
    early = f"{first['n_early']:,} of {_ranks_text(first['n_ranks'])} stopped early."
    why = "its dump lost its end" if first["is_truncated"] else f"its last step is {first['last_step']}"
    if first["last_own_ns"] is None:
        return f"{early} Rank {first['rank']} shows no work at all: {why}."
    if first["before_ns"] is None:
        return f"{early} n/a: who stopped first, because clocks are not aligned. Rank {first['rank']}: {why}."
    told = f"{early} Rank {first['rank']} stopped first, {words.duration(first['before_ns'])} before the last: {why}."
    missing = data.ends.open.to_dicts()
    if not missing:
        return f"{told} No collective after it lacks a recorded rank."
    one = missing[0]
    step = "no step" if one["step"] is None else f"step {one['step']}"
    absent = words.listing([str(rank) for rank in one["missing_ranks"]])
    more = "" if one["n_missing"] == len(one["missing_ranks"]) else " and others"
    return (
        f"{told} The first collective after it that lacks a recorded rank is {words.visible(one['op'])}"
        f"{_sequence(one['seq'])} in {step}: {one['n_present']:,} of {one['n_ranks']:,} came, not rank {absent}{more}; "
        f"{one['n_open']:,} in all lack one."
    )


def _sequence(seq: int | None) -> str:
    return "" if seq is None else f" {seq}"


def _ranks_text(number: int) -> str:
    return "1 rank" if number == 1 else f"{number:,} ranks"


def _ranks_seen(data: Postmortem) -> str:
    if data.run.world_size is None:
        return f"{_ranks_text(data.run.n_ranks)} recorded, world size n/a: no dump says"
    return f"{data.run.n_ranks:,} of {_ranks_text(data.run.world_size)} recorded"


def _block(data: Postmortem, step: StepData) -> Block:
    number = step.step.step
    return Block(
        id=f"step-{number}",
        data=step,
        title=step_sentence(data, step),
        sections=sections(number),
        collectives=tuple(step.collectives.unique("place", keep="first", maintain_order=True).to_dicts()),
        thinned=_thinned(step),
        ranks_note=_ranks_note(step),
        difference=_difference(data, step),
        stalls_note=_stalls_note(step),
    )


def _ranks_note(step: StepData) -> str:
    if step.ranks.height == 0:
        return "n/a: no rank has a window of this step."
    n_ranks = step.ranks["n_ranks"][0]
    late = [row for row in step.ranks.to_dicts() if row["is_straggler"]]
    if late:
        why = f": {words.visible(late[0]['cause'])}" if late[0]["cause"] else ""
        who = f"The step waited for rank {late[0]['rank']}, {words.duration(late[0]['late_ns'])} late{why}."
    elif not step.step.is_timed:
        who = "n/a: who was late, because clocks are not aligned."
    elif n_ranks == 1:
        who = "One rank is recorded, so nobody is late."
    else:
        who = "Nobody was late beyond the noise."
    shown = "" if step.ranks.height == n_ranks else f" {step.ranks.height:,} of {n_ranks:,} ranks are shown."
    return f"{who}{shown}"


def _difference(data: Postmortem, step: StepData) -> str:
    if data.run.n_steps == 1:
        return "n/a: the run has one step, so there is nothing to compare it with."
    if step.other is None:
        return f"n/a: step {step.step.step} is the median step that others are compared with."
    if step.step.beyond_ns is None:
        return "n/a: the length of one of the steps is not known."
    grown = [row for row in step.kinds.to_dicts() if row["change_ns"] > 0]
    shrunk = [row for row in step.kinds.to_dicts() if row["change_ns"] < 0]
    than = "longer" if step.step.beyond_ns >= 0 else "shorter"
    told = f"{words.duration(abs(step.step.beyond_ns))} {than} than step {step.other}"
    if not grown and not shrunk:
        return (
            f"{told}; n/a: what the paths say, because there is none of both steps."
            if not step.kinds.height
            else f"{told}."
        )
    said = [f"{words.duration(row['change_ns'])} more {row['kind']}" for row in grown[:2]]
    said += [f"{words.duration(-row['change_ns'])} less {row['kind']}" for row in shrunk[:1]]
    return f"{told}; on the critical path {words.listing(said)}."


def _stalls_note(step: StepData) -> str:
    if not step.stalls:
        return "n/a: this step has no critical path." if not step.path.height else "No host held up the critical path."
    first = step.stalls[0]
    return (
        f"{len(step.stalls):,} of {first.n_stalls:,} stretches, {words.duration(first.shown_ns)} of the "
        f"{words.duration(first.all_ns)} that the path spends on hosts."
    )


def _figures(step: StepData) -> Sequence[Figure]:
    return (_timeline(step), _arrivals(step))


def _timeline(step: StepData) -> Figure:
    id_ = f"step-{step.step.step}-gantt"
    if step.bars.height == 0:
        return Figure(id_, "n/a: the store has no event of this step; pruned events come back by ingesting their dumps")
    n_rows = step.bars.height + 3 * step.path.height
    return Figure(id_, _timeline_finding(step), gantt.timeline(step), "canvas" if n_rows > SVG_ROWS else "svg")


def _timeline_finding(step: StepData) -> str:
    if not step.step.is_timed:
        return "Clocks are not aligned: each rank is drawn from its own start, and there is no critical path."
    if step.path.height == 0:
        return "n/a: the store has no critical path of this step."
    drawn = step.ranks.filter(step.ranks["is_drawn"])
    n_ranks, n_path = step.ranks["n_ranks"][0], step.ranks["n_path_ranks"][0]
    through = "1 rank" if n_path == 1 else f"{n_path:,} ranks"
    if drawn.height == n_ranks:
        return (
            f"All {_ranks_text(n_ranks)}; the critical path goes through {through}."
            if n_ranks > 1
            else "The one rank recorded."
        )
    shown = (
        "those with most of the critical path"
        if n_path > drawn.height
        else "those on the critical path and their neighbours"
    )
    return (
        f"{drawn.height:,} of {n_ranks:,} ranks, {shown}; the path goes through {through}. The tables have the others."
    )


def _thinned(step: StepData) -> str:
    if step.bars.height == 0:
        return ""
    lanes = step.bars.unique(["rank", "lane_no"], maintain_order=True)
    ranks = step.bars.unique("rank", maintain_order=True)
    n_lanes = lanes.filter(lanes["shows"] != "ranges").height
    return (
        f"{step.bars.height:,} bars show the {lanes['n_lane_events'].sum():,} outermost of "
        f"{ranks['n_all_events'].sum():,} events, in {n_lanes:,} of {ranks['n_lanes'].sum():,} threads and streams. An "
        f"event of a {step.n_bins}th of the step or more is a bar; shorter ones of a kind share one, paler where they "
        "leave gaps, and its tooltip has their number, the time they cover, the shortest and the longest."
    )


def _arrivals(step: StepData) -> Figure:
    id_ = f"step-{step.step.step}-arrivals"
    if step.collectives.height == 0:
        if not step.step.is_timed:
            return Figure(id_, "n/a: clocks are not aligned, so who came when cannot be known")
        return Figure(id_, "n/a: no collective belongs to this step")
    if step.collectives["n_members"].max() == 1:
        return Figure(id_, "n/a: one rank is recorded, so who came when cannot be known")
    rows = step.collectives.to_dicts()
    worst = max(rows, key=lambda row: (row["skew_ns"], -row["place"]))
    shown = len({row["place"] for row in rows})
    which = f"All {shown:,}" if shown == rows[0]["n_collectives"] else f"{shown:,} of {rows[0]['n_collectives']:,}"
    time = f"{words.duration(rows[0]['shown_skew_ns'])} of {words.duration(rows[0]['all_skew_ns'])} skew"
    finding = (
        f"{which} collectives, {time}; the longest is {words.duration(worst['skew_ns'])}, {words.visible(worst['op'])} "
        f"at {words.milliseconds(worst['last_ns'])} ms, for rank {worst['last_rank']}. A dot marks who came last."
    )
    return Figure(id_, finding, gantt.arrivals(step))
