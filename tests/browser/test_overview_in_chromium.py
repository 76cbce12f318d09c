"""The page opened: its charts are drawn, they follow each other, and nothing is asked of the network."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from browser import chromium
from browser.chromium import Browser
from longpole.report.overview import build
from longpole.report.page import render
from report import scenes

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "a browser is here"),
]

_MARKS = """
return [...document.querySelectorAll('.chart')].map((box) => {
  const canvas = box.querySelector('canvas');
  if (canvas) {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return colours.size;
  }
  return box.querySelectorAll('svg .mark-rect.role-mark path').length;
});
"""

_INPUTS = "return [...document.querySelectorAll('#step-range input')].map((input) => input.value)"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "small.html"
    path.write_text(render(build(scenes.many(4, 12), "many"), tool_version="1.2.3"))
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "large.html"
    path.write_text(render(build(scenes.many(64, 900), "many"), tool_version="1.2.3"))
    return path


def until(window: Browser, script: str, wanted: object) -> object:
    """Return what a script answers once it answers `wanted`, or its last answer after 5 s."""
    deadline = time.monotonic() + 5
    while (found := window.js(script)) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_chart_is_drawn_without_an_error_or_a_request(
    window: Browser, small: Path, width: int, is_dark: bool
) -> None:
    window.log()
    window.requests()
    window.open(small, width=width, is_dark=is_dark)
    # 12 columns of 4 parts and the brush's two; of 6 causes; of 9 kinds; 4 ranks by 12 columns, three times
    assert window.js(_MARKS) == [50, 72, 108, 48, 4, 48, 48]
    assert window.log() == []
    assert window.requests() == [small.resolve().as_uri()]
    assert (
        window.js("const { scrollWidth, clientWidth } = document.documentElement; return scrollWidth - clientWidth")
        == 0
    )
    assert window.js("return innerWidth") == width
    assert window.js("return document.documentElement.dataset.errors ?? 0") == 0


def test_charts_take_the_colours_of_the_scheme(window: Browser, small: Path) -> None:
    fills = "return document.querySelector('#step-chart .layer_0_marks path').getAttribute('fill')"
    window.open(small, is_dark=False)
    assert window.js(fills) == "#2f6db3"
    window.open(small, is_dark=True)
    assert window.js(fills) == "#5b9be0"


def test_a_kind_of_the_path_has_the_colour_of_its_legend(window: Browser, small: Path) -> None:
    window.open(small)
    fills = (
        "return [...new Set([...document.querySelectorAll('#path-chart .mark-rect.role-mark path')]"
        ".map((path) => path.getAttribute('fill')))]"
    )
    legend = (
        "return [...document.querySelectorAll('#path .legend .swatch')].map((swatch) => "
        "getComputedStyle(document.documentElement).getPropertyValue(swatch.getAttribute('style').match(/--\\w+(?=\\))/)[0]))"
    )
    assert window.js(fills) == window.js(legend)
    assert len(window.js(fills)) == 9


def test_a_heat_map_of_many_cells_is_painted_on_a_canvas(window: Browser, large: Path) -> None:
    window.open(large)
    assert window.js("return [...document.querySelectorAll('.chart canvas')].length") == 2
    steps, causes, paths, late, _, comm, idle = window.js(_MARKS)
    assert (steps, causes, paths, late) == (300 * 4 + 2, 300 * 6, 300 * 9, 300 * 16)
    assert min(comm, idle) > 50
    assert window.log() == []


def test_a_step_range_typed_in_is_shown_by_every_chart(window: Browser, small: Path) -> None:
    window.open(small)
    assert window.js(_INPUTS) == ["100", "111"]
    window.js(
        "const [from, to] = document.querySelectorAll('#step-range input'); from.value = 103; to.value = 105;"
        "to.dispatchEvent(new Event('change', { bubbles: true }))"
    )
    assert until(window, _MARKS, [14, 18, 27, 12, 4, 12, 12]) == [14, 18, 27, 12, 4, 12, 12]
    window.js("document.querySelector('#step-range button').click()")
    assert until(window, _MARKS, [50, 72, 108, 48, 4, 48, 48]) == [50, 72, 108, 48, 4, 48, 48]
    assert window.js(_INPUTS) == ["100", "111"]


def test_a_rank_typed_in_is_left_alone_in_heat_maps_and_tables(window: Browser, small: Path) -> None:
    window.open(small)
    rows = "[...document.querySelectorAll('#ranks tr[data-rank]')]"
    shown = f"return {rows}.filter((row) => !row.hidden).map((row) => row.dataset.rank)"
    everybody = window.js(shown)
    before = window.js(_MARKS)
    type_rank = "const box = document.querySelector('#rank-range input'); box.value = '{}';"
    window.js(type_rank.format(1) + "box.dispatchEvent(new Event('change', { bubbles: true }))")
    assert until(window, shown, ["1"]) == ["1"]
    maps = "return ['comm-map', 'idle-map'].map((id) => document.querySelectorAll(`#${id} .mark-rect > path`).length)"
    assert until(window, maps, [13, 13]) == [13, 13]  # twelve steps, and the frame
    window.js("document.querySelector('#rank-range button').click()")
    assert until(window, shown, everybody) == everybody
    assert until(window, _MARKS, before) == before
    assert window.log() == []


def test_steps_dragged_over_are_shown_by_every_chart(window: Browser, small: Path) -> None:
    window.open(small, height=1600)
    x, y, width, height = window.js(
        "const box = document.querySelector('#step-chart .background').getBoundingClientRect();"
        "return [box.x, box.y, box.width, box.height]"
    )
    column = width / 12
    track = [("mousePressed", 3.5, 1), ("mouseMoved", 4.5, 1), ("mouseMoved", 6.5, 1), ("mouseReleased", 6.5, 0)]
    for kind, place, buttons in track:
        at = {"x": x + place * column, "y": y + height / 2}
        window.cdp("Input.dispatchMouseEvent", type=kind, button="left", buttons=buttons, clickCount=1, **at)
    assert until(window, _INPUTS, ["103", "106"]) == ["103", "106"]
    assert until(window, _MARKS, [18, 24, 36, 16, 4, 16, 16]) == [18, 24, 36, 16, 4, 16, 16]


def test_a_click_that_drags_nothing_leaves_the_range_alone(window: Browser, small: Path) -> None:
    window.open(small, height=1600)
    x, y = window.js(
        "const box = document.querySelector('#step-chart .background').getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]"
    )
    for kind in ("mousePressed", "mouseReleased"):
        window.cdp("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, x=x, y=y)
    assert window.js(_INPUTS) == ["100", "111"]


def test_a_table_is_sorted_by_the_column_that_is_pressed(window: Browser, small: Path) -> None:
    window.open(small)
    calls = (
        "return [...document.querySelectorAll('#kernels tbody tr')].slice(0, 2).map((row) => row.cells[2].textContent)"
    )
    press = "document.querySelectorAll('#kernels thead button')[2].click()"
    state = "return document.querySelectorAll('#kernels thead th')[2].ariaSort"
    window.js(press)
    assert (window.js(state), window.js(calls)) == ("descending", ["2,064", "2,016"])
    window.js(press)
    assert (window.js(state), window.js(calls)) == ("ascending", ["192", "240"])


def test_the_row_of_all_other_kernels_stays_last(window: Browser, small: Path) -> None:
    window.open(small)
    last = "return [...document.querySelectorAll('#kernels tbody th')].at(-1).textContent"
    for _ in range(2):
        window.js("document.querySelectorAll('#kernels thead button')[2].click()")
        assert window.js(last) == "20 other kernels"


def test_pointing_at_a_bar_shows_milliseconds_and_whole_nanoseconds(window: Browser, small: Path) -> None:
    window.open(small, height=1600)
    x, y = window.js(
        "const box = document.querySelector('#step-chart .layer_0_marks path').getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]"
    )
    for shift in (0, 1):
        window.cdp("Input.dispatchMouseEvent", type="mouseMoved", x=x + shift, y=y)
    shown = "return document.querySelector('#vg-tooltip-element.visible')?.innerText.replace(/\\s+/g, ' ') ?? ''"
    deadline = time.monotonic() + 5
    while not (said := window.js(shown)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert re.fullmatch(
        r"step 100 part of the window compute mean \(ms\) 3\d\d\.\d{3} mean \(ns\) 3\d\d,\d{3},\d{3} windows 4", said
    )


def test_a_chart_whose_rows_are_not_there_says_so_instead_of_drawing_nothing(
    window: Browser, small: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(small.read_text().replace('"comm_cells":{', '"renamed":{'))
    window.open(broken)
    assert window.js("return document.querySelector('#comm-map .na').textContent") == (
        'n/a: the page has no rows named "comm_cells"'
    )
    assert window.js("return document.documentElement.dataset.errors") == "1"
    assert window.js("return document.querySelectorAll('#idle-map svg').length") == 1


def test_hostile_names_run_nothing(window: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render(build(scenes.hostile(), scenes.HOSTILE), tool_version="1.2.3"))
    window.log()
    window.requests()
    window.open(path)
    assert window.log() == []
    assert window.requests() == [path.resolve().as_uri()]
    assert window.js("return document.querySelector('h1').textContent").startswith("</script><script>alert(1)")


def test_a_page_without_charts_loads_without_an_error(window: Browser, tmp_path: Path) -> None:
    for name in ("without_steps", "nothing"):
        path = tmp_path / f"{name}.html"
        path.write_text(render(build(getattr(scenes, name)(), "tiny"), tool_version="1.2.3"))
        window.log()
        window.open(path)
        assert window.log() == []
        assert window.js("return document.querySelectorAll('.chart').length") == 0
