"""A comparison of two runs in about fifteen lines, the same words on terminal and page; no number is made here."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from longpole.report import words
from longpole.report.compare import Comparison, Head, Part

MAX_TOLD = 3
"""Parts of one dimension that a sentence names; the page and JSON have more."""

NAME_WIDTH = 64
"""Characters of a name: kernel names run to thousands."""

DIMENSIONS = (
    ("time", "Time of the window"),
    ("phase", "Phases"),
    ("path", "Critical path"),
    ("kernel", "Kernels"),
    ("collective", "Exposed collectives"),
    ("wait", "Waits in collectives"),
    ("transfer", "Transfers"),
    ("rank", "Ranks' own time"),
)
"""Ways to take a step apart in the order of telling, with what each is called."""

_CAUSES = {
    "contention": "contention: kernels run slower beside communication than alone",
    "other kernels": "other kernels: compute that only one of the two has",
    "calls": "calls: the same kernels run more or less often",
    "kernels": "kernels: the same calls take another time, and not because of communication",
    "waits": "waits: ranks wait in collectives for the last to come",
    "transfers": "transfers: exchanges take another time once all ranks are there",
    "exposed comm": "exposure: compute that hides it ends at another time",
    "exposed copies": "copies beside neither compute nor communication",
    "idle: input": "input: the launching thread waits for its batch",
    "idle: sync": "synchronising calls on the launching thread",
    "idle: host": "the host, which launches late",
    "idle: launch": "work that is launched and not begun",
    "idle: turnaround": "gaps between activities already launched",
    "idle: other": "idle time without a recorded cause",
}
"""Why a part changed, as the end of a sentence."""


def text(comparison: Comparison) -> str:
    """Return the story, lines of text; what a dump supplied is made safe for a terminal."""
    head = comparison.head
    lines = [verdict(head), *(f"Careful: {reason}." for reason in reasons(head)), *because(head)]
    still = []
    for dimension, title in DIMENSIONS:
        parts = comparison.of(dimension)
        if any(part.is_changed for part in parts):
            lines.append(f"{title}: {sentence(parts)}.")
        elif parts and parts[0].noise_ns is not None:
            still.append(title[0].lower() + title[1:])
    if still:
        lines.append(f"Within noise: {words.listing(still)}.")
    return "\n".join(lines)


def verdict(head: Head) -> str:
    """Return whether the run is slower or faster than its baseline, and by how much."""
    run, baseline = words.visible(head.run), words.visible(head.baseline)
    if head.baseline_ns is None or head.value_ns is None or head.change_ns is None:
        return f"{run} and {baseline} cannot be compared step by step: {head.verdict.removeprefix('n/a: ')}."
    steps = f"a median step of {words.duration(head.value_ns)} beside {words.duration(head.baseline_ns)}"
    change = f"{words.signed(head.change_ns)} ({words.signed_percent(head.change_ratio)})"
    if head.verdict == "not comparable":
        return f"{run} and {baseline} are not two recordings of one job, so they only stand side by side: {steps}."
    if head.noise_ns is None:
        why = head.verdict.removeprefix("n/a: ")
        return f"{run} beside {baseline}: {steps}, {change}; whether that is noise is not known: {why}."
    if head.verdict == "within noise":
        how = f"{run} is within noise of {baseline}"
    else:
        how = f"{run} is {head.verdict} than {baseline}"
    return f"{how}: {steps}, {change}; noise is up to {words.duration(head.noise_ns)}."


def because(head: Head) -> list[str]:
    """Return why, one sentence; none where nothing can be said."""
    if head.verdict not in ("slower", "faster", "within noise"):
        return []
    if head.cause is None or head.cause_ns is None or head.cause_item is None:
        return ["No part of the window changed beyond the noise."]
    amount = f"{head.cause_item} {words.signed(head.cause_ns)}"
    if head.cause_ratio is not None:
        amount += f" ({words.signed_percent(head.cause_ratio)})"
    phrase = _CAUSES.get(head.cause, head.cause)
    if head.cause == "contention":
        phrase += f", {words.signed(head.contention_ns)} in all"
    opening = "But a part of it changed" if head.verdict == "within noise" else "The part that changed most"
    return [f"{opening}: {amount}. Cause: {phrase}."]


def reasons(head: Head) -> list[str]:
    """Return why the two are not recordings of one job."""
    return [words.visible(reason) for reason in head.reasons]


def ranges(steps: pl.DataFrame) -> str:
    """Return from where to where the steps of both runs lie, of the rows of compare_steps."""
    told = []
    for side, whose in (("run", "this run"), ("baseline", "the baseline")):
        times = steps.filter(pl.col("side") == side)["value_ns"].to_list()
        if times:
            spread = f"from {words.duration(times[0])} to {words.duration(times[-1])}"
            told.append(f"{spread} in {whose}" if times[0] != times[-1] else f"{words.duration(times[0])} in {whose}")
    return f"Steps take {words.listing(told)}."


def sentence(parts: Sequence[Part]) -> str:
    """Return which parts of a dimension changed, the largest changes first."""
    changed = [part for part in parts if part.is_changed]
    if not changed:
        return "within noise" if parts and parts[0].noise_ns is not None else "n/a"
    told = [f"{name(part)} {told_change(part)}" for part in changed[:MAX_TOLD]]
    more = parts[0].n_changed - len(told)
    return ", ".join([*told, *([f"{more:,} more"] if more else [])])


def told_change(part: Part) -> str:
    """Return a part's change with its verdict where a number alone would mislead."""
    if part.verdict == "appeared":
        return f"appeared, {words.duration(part.value_ns)}"
    if part.verdict == "vanished":
        return f"vanished, {words.duration(part.baseline_ns)}"
    return words.signed(part.change_ns)


def name(part: Part) -> str:
    """Return what a part is called."""
    called = words.cut_middle(words.visible(part.item), NAME_WIDTH)
    return f"rank {called}" if part.dimension == "rank" else called
