"""A night's index opened: each line of a trend is drawn, runs are sorted, and nothing is asked of the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import chromium
from browser.chromium import Browser
from longpole.report import nights_page
from report.test_nights_page import trend, verdict

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "a browser is here"),
]

_LINES = """
return [...document.querySelectorAll('.chart svg .mark-line path')].filter(
  (path) => path.getTotalLength() > 100 && !/NaN|Infinity/.test(path.getAttribute('d'))).length;
"""

_RUNS_BY = """
const table = document.querySelector('table.sortable');
[...table.querySelectorAll('thead button')].find((button) => button.textContent === 'COLUMN').click();
return [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("night") / "index.html"
    path.write_text(nights_page.render(verdict(), trend(), tool_version="1.2.3"))
    return path


def test_every_trend_is_drawn_and_nothing_is_asked_of_the_network(window: Browser, page: Path) -> None:
    window.open(page)

    assert window.js(_LINES) == 2
    assert window.js("return document.documentElement.dataset.errors ?? '0'") == "0"
    assert window.requests() == [page.resolve().as_uri()]
    assert window.log() == []


def test_runs_are_sorted_by_the_column_that_is_clicked(window: Browser, page: Path) -> None:
    window.open(page)

    assert window.js(_RUNS_BY.replace("COLUMN", "No.")) == ["r2", "r1", "r0"]
    assert window.js(_RUNS_BY.replace("COLUMN", "Run")) == ["r0", "r1", "r2"]
    assert window.js(_RUNS_BY.replace("COLUMN", "Step time")) == ["r2", "r1", "r0"]
