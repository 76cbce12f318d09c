"""A comparison of two runs as one self-contained HTML file, in the words of the terminal: same data, same bytes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from longpole.report import changes, charts, document, words
from longpole.report.compare import Comparison, Part
from longpole.report.document import Figure, Section
from longpole.report.page import KIND_COLOURS

_TITLES = {
    "time": "Change of a rank's time by what its device did",
    "phase": "Change of a rank's busy time by phase",
    "path": "Change of the critical path by kind",
}
"""Ways to take a step apart that are drawn: few parts, with names of their own."""

_COLUMNS = ("item", "place", "baseline_ns", "value_ns", "change_ns", "noise_ns", "verdict", "is_changed")


def render(data: Comparison, *, tool_version: str) -> str:
    """Return the page as HTML that needs no other file and makes no request."""
    head = data.head
    return document.render(
        "compare.html.j2",
        _figures(data),
        _datasets(data),
        context={
            "data": data,
            "head": head,
            "tool_version": tool_version,
            "sections": {section.id: section for section in sections(data)},
            "verdict": changes.verdict(head),
            "because": changes.because(head),
            "reasons": changes.reasons(head),
            "dimensions": dict(changes.DIMENSIONS),
            "kind_colours": KIND_COLOURS,
        },
    )


def sections(data: Comparison) -> tuple[Section, ...]:
    """Return the sections in their order, each with the query of these two runs."""
    return (
        Section(
            "steps",
            "Step time",
            ("step_parts", "steps"),
            "SELECT run, step, value_ns FROM step_parts WHERE dimension = 'step' ORDER BY run, step",
            "Each run's steps from the shortest to the longest: where the lines lie apart over their whole length, all "
            "steps changed; where only their right ends do, single ones. A change of the median is noise below three "
            "standard errors of the two medians, 2 % of the step and 0.1 % of the baseline's.",
        ),
        Section(
            "time",
            "What the devices did",
            ("run_changes", "rank_steps"),
            _query(data, "time"),
            "Of the median step and the mean rank: the parts of a rank's window. The grey band is what is taken for "
            "noise of that part. Medians are taken part by part, so their changes add up to the step's only about.",
        ),
        Section(
            "phase",
            "Phases",
            ("run_changes", "phases"),
            _query(data, "phase"),
            "Busy time of the device by the phase that launched it, each moment once: compute, then comm, then copies. "
            "Sync is the exchange of gradients, as far as nothing hides it.",
        ),
        Section(
            "path",
            "Critical path",
            ("run_changes", "step_path_kinds"),
            _query(data, "path"),
            "What decided the length of the steps, by kind; the parts of one step add up to it.",
        ),
        Section(
            "kernel",
            "Kernels",
            ("run_changes", "kernels"),
            _query(data, "kernel"),
            "Time that the kernel alone explains in a step of the mean rank, and its calls in a step on all ranks. "
            "Appeared: no step of the baseline has it; vanished: none of this run.",
        ),
        Section(
            "contention",
            "Kernels beside communication and alone",
            ("kernel_contention", "run_changes"),
            _query(data, "contention"),
            "Contention is by how much calls beside communication took longer than calls of the same name, grid and "
            "block without, in a step of the mean rank. Where sizes differ within those it says little by itself; its "
            "change says more. Blank: no such call.",
        ),
        Section(
            "collective",
            "Collectives",
            ("run_changes", "collectives"),
            _query(data, "collective", "wait", "transfer"),
            "Of the mean rank in a step: exposed, as no compute hides it; waits, until the last rank has come; "
            "transfers, the rest. Waits are another rank's lateness, transfers the network's time.",
        ),
        Section(
            "rank",
            "Ranks",
            ("run_changes", "rank_steps"),
            _query(data, "rank"),
            "A rank's window without its waits for others: where one rank grew, others wait for it.",
        ),
    )


def _query(data: Comparison, *dimensions: str) -> str:
    names = ", ".join(f"'{name}'" for name in dimensions)
    baseline, run = (name.replace("'", "''") for name in (data.head.baseline, data.head.run))
    return (
        "SELECT dimension, item, baseline_ns, value_ns, change_ns, noise_ns, verdict FROM run_changes "
        f"WHERE baseline = '{baseline}' AND run = '{run}' AND dimension IN ({names}) ORDER BY abs(change_ns) DESC"
    )


def _figures(data: Comparison) -> list[Figure]:
    head = data.head
    titles = dict(changes.DIMENSIONS)
    if data.steps.height:
        drawn = [Figure("step-chart", changes.ranges(data.steps), charts.step_shares("Step times of both runs"))]
    else:
        drawn = [Figure("step-chart", head.verdict)]
    for dimension in _TITLES:
        parts = data.of(dimension)
        finding = f"{titles[dimension]}: {changes.sentence(parts)}."
        if not parts:
            drawn.append(Figure(f"{dimension}-chart", "n/a: one of the runs has none of it"))
        elif not any(part.change_ns for part in parts):
            drawn.append(Figure(f"{dimension}-chart", f"{titles[dimension]}: nothing changed"))
        else:
            chart = charts.part_changes(_rows(dimension), [_item(part) for part in parts], _TITLES[dimension])
            drawn.append(Figure(f"{dimension}-chart", finding, chart))
    return drawn


def _datasets(data: Comparison) -> document.Datasets:
    charted = {
        _rows(dimension): document.columns([_row(part) for part in data.of(dimension)], _COLUMNS)
        for dimension in _TITLES
    }
    return {**charted, "step_shares": data.steps.to_dict(as_series=False)}


def _row(part: Part) -> dict[str, Any]:
    return asdict(part) | {"is_changed": part.is_changed, "item": _item(part)}


def _item(part: Part) -> str:
    return words.cut_middle(words.visible(part.item), 40)


def _rows(dimension: str) -> str:
    return f"{dimension}_changes"
