"""A night's index opened: each line of a trend is drawn, and nothing is asked of the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import chromium
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


def test_every_trend_is_drawn_and_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(nights_page.render(verdict(), trend(), tool_version="1.2.3"))

    with chromium.browser(tmp_path / "profile") as window:
        window.js("return 1")
        window.requests()
        window.open(path)

        assert window.js(_LINES) == 2
        assert window.js("return document.documentElement.dataset.errors ?? '0'") == "0"
        assert window.requests() == [path.resolve().as_uri()]
        assert window.log() == []
