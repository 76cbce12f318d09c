"""The page of a comparison opened: its charts are drawn, and nothing is asked of the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import chromium
from browser.chromium import Browser
from longpole.report import compare, compare_page
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "a browser is here"),
]

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare-page")
    store = Store(str(folder / "store"))
    old, new = (make_run(store, name, [FIXTURES / name]) for name in ("worked", "worked-contended"))
    with Session(store) as session:
        html = compare_page.render(compare.build(session.con, old, new), tool_version="1.2.3")
    path = folder / "page.html"
    path.write_text(html)
    return path


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_its_charts_are_drawn_without_an_error_or_a_request(
    window: Browser, page: Path, width: int, is_dark: bool
) -> None:
    window.log()
    window.requests()
    window.open(page, width=width, is_dark=is_dark)

    bars = (
        "return [...document.querySelectorAll('.chart')].map((box) => box.querySelectorAll('.mark-rect path').length)"
    )
    # No bar among the step times; a band and a bar for each of 9 parts of the window, 4 phases and 2 kinds.
    assert window.js(bars) == [0, 18, 8, 4]
    assert window.js("return document.querySelectorAll('#step-chart .mark-line path').length") == 2
    assert window.log() == []
    assert window.requests() == [page.resolve().as_uri()]
    assert window.js("return document.documentElement.dataset.errors ?? 0") == 0
    assert (
        window.js("const { scrollWidth, clientWidth } = document.documentElement; return scrollWidth - clientWidth")
        == 0
    )


def test_parts_stand_in_the_order_of_the_table(window: Browser, page: Path) -> None:
    window.open(page)
    labels = "return [...document.querySelectorAll('#phase-chart .role-axis-label text')].map((t) => t.textContent)"

    assert [label for label in window.js(labels) if label[0].isalpha()] == ["backward", "sync", "forward", "optimizer"]
