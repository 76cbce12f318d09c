"""The post-mortem opened: its timelines are drawn, nothing is asked of the network, and hostile names are inert."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from browser import chromium
from browser.chromium import Browser
from longpole import synth
from longpole.report.postmortem import build
from longpole.report.postmortem_page import render
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from report.postmortem_rows import FIXTURES, hostile_dump

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "a browser is here"),
]

_DRAWN = """
return [...document.querySelectorAll('.chart')].map((box) => {
  const canvas = box.querySelector('canvas');
  if (!canvas) return box.querySelectorAll('svg .mark-rect.role-mark path').length > 3;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return colours.size > 3;
});
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages of the worked example, of a run of hostile names and of 20 ranks."""
    folder = tmp_path_factory.mktemp("postmortems")
    store = Store(str(folder / "store"))
    make_run(store, "worked", [FIXTURES / "worked"])
    make_run(store, "hostile", [hostile_dump(folder / "hostile")])
    synth.write("training", folder / "training", ranks=20, steps=2)
    make_run(store, "training", [folder / "training"])
    made = {}
    with Session(store) as session:
        for run in ("worked", "hostile", "training"):
            made[run] = folder / f"{run}.html"
            made[run].write_text(render(build(session.con, run), tool_version="1.2.3"))
    return made


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("run", ["worked", "training"])
def test_every_chart_is_drawn_without_an_error_or_a_request(
    window: Browser, pages: dict[str, Path], run: str, width: int, is_dark: bool
) -> None:
    window.log()
    window.requests()
    window.open(pages[run], width=width, is_dark=is_dark)
    assert window.js(_DRAWN) == [True] * (2 if run == "worked" else 4)
    assert window.log() == []
    assert window.requests() == [pages[run].resolve().as_uri()]
    assert window.js("return document.documentElement.dataset.errors ?? 0") == 0
    assert (
        window.js("const { scrollWidth, clientWidth } = document.documentElement; return scrollWidth - clientWidth")
        == 0
    )


def test_pointing_at_hostile_work_shows_its_name_as_text_and_runs_nothing(
    window: Browser, pages: dict[str, Path]
) -> None:
    window.log()
    window.requests()
    window.open(pages["hostile"], height=1600)
    x, y = window.js(
        "const bars = [...document.querySelectorAll('#step-10-gantt .layer_1_marks path[fill=\"#2f6db3\"]')];"
        "const boxes = bars.map((bar) => bar.getBoundingClientRect()).sort((a, b) => b.width - a.width);"
        "return [boxes[0].x + boxes[0].width / 2, boxes[0].y + 3]"
    )
    for shift in (0, 1):
        window.cdp("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y)
    shown = "return document.querySelector('#vg-tooltip-element.visible')?.innerText.replace(/\\s+/g, ' ') ?? ''"
    deadline = time.monotonic() + 5
    while not (said := window.js(shown)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "</script><img src=x onerror=" in said
    assert window.js("return document.querySelectorAll('img').length") == 0
    assert window.log() == []
    assert window.requests() == [pages["hostile"].resolve().as_uri()]
