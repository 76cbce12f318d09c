"""An answer of the planner as plain data: what terminal, JSON and page show, in words and in numbers.

`given` and `answer` are what JSON prints, in SI units that the keys name; lines are the same for a person; a curve asks
the question again for other values of one number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longpole.units import amount_text


@dataclass(frozen=True)
class Line:
    """One number for a person, and how it comes about."""

    what: str
    value: str
    how: str = ""


@dataclass(frozen=True)
class Axis:
    """What one column of a curve's rows is: shown divided by `unit_size`."""

    column: str
    title: str
    format: str | None = "~s"  # of d3; None is what Vega finds fit
    unit_size: float = 1.0
    is_log: bool = False


@dataclass(frozen=True)
class Curve:
    """How an answer changes with one number; `at` is where on the x axis the question stands."""

    id: str
    title: str
    finding: str
    x: Axis
    y: Axis
    series: tuple[str, ...]
    rows: list[dict[str, Any]]
    at: float | None = None


@dataclass(frozen=True)
class Sheet:
    """One question answered."""

    question: str
    title: str
    summary: str
    lines: list[Line]
    given: Mapping[str, Any]
    answer: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    curve: Curve | None = None


def bytes_words(n: int) -> str:
    """Return a size to four digits, and exactly beside it."""
    return f"{amount_text(n, 'B')} ({n:,} B)" if n >= 1_000 else f"{n} B"
