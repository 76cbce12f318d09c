"""The planner's pages opened: each curve is drawn, and nothing is asked of the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import chromium
from browser.chromium import Browser
from longpole.report import plan_page
from report.test_plan_page import SHEETS

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "a browser is here"),
]

_LINES = """
return [...document.querySelectorAll('.chart svg .mark-line path')].filter(
  (path) => path.getTotalLength() > 100 && !/NaN|Infinity/.test(path.getAttribute('d'))).length;
"""


@pytest.mark.parametrize(
    ("question", "n_lines"),
    [
        ("duration", 1),
        ("tokens", 0),
        ("memory", 2),
        ("allreduce", 2),
        ("bubble", 4),
        ("clocks", 4),
        ("matmul", 2),
        ("decode", 2),
        ("buckets", 1),
    ],
)
def test_every_line_of_a_curve_is_drawn_and_nothing_is_asked_of_the_network(
    window: Browser, tmp_path: Path, question: str, n_lines: int
) -> None:
    path = tmp_path / f"{question}.html"
    path.write_text(plan_page.render(SHEETS[question], tool_version="1.2.3"))

    window.open(path)

    assert window.js(_LINES) == n_lines
    assert window.js("return document.documentElement.dataset.errors ?? '0'") == "0"
    assert window.requests() == [path.resolve().as_uri()]
    assert window.log() == []
