"""The overview in about ten lines for a terminal: the page's own words and numbers."""

from __future__ import annotations

from longpole.report import words
from longpole.report.overview import Overview

MAX_CAVEATS = 3
"""Reasons to doubt that are spelt out; the page has them all."""


def text(overview: Overview) -> str:
    """Return the summary, one fact a line; text from dumps is made safe for a terminal."""
    run = overview.run
    steps = "no steps" if run.first_step is None else f"steps {run.first_step} to {run.last_step}"
    lines = [
        f"{words.visible(run.run)}: {words.ranks_seen(run)}, {steps} ({words.count(run.n_timed_steps)}),"
        f" {words.visible(run.device) if run.device else 'no device named'}",
        *words.summary(run).replace(". ", ".\n").split("\n"),
        *(f"{question} {answer[:1].upper()}{answer[1:]}." for question, answer, _ in words.answers(overview)),
    ]
    # The page counts what is in doubt; here each check is named.
    caveats = [c for c in words.caveats(run) if not c.endswith("have a verdict other than ok")]
    doubts = overview.coverage.filter(~overview.coverage["verdict"].str.starts_with("ok")).to_dicts()
    caveats += [f"{words.visible(row['check'])}: {words.visible(row['verdict'])}" for row in doubts]
    lines += [f"Careful: {c}." for c in caveats[:MAX_CAVEATS]]
    if len(caveats) > MAX_CAVEATS:
        lines.append(f"Careful: and {len(caveats) - MAX_CAVEATS} more reasons on the page.")
    if not caveats:
        lines.append("Nothing gives reason to doubt these numbers.")
    return "\n".join(lines)
