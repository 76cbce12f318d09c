"""Pages of other people's runs, opened: every chart is drawn, nothing is logged, nothing is asked of the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import chromium
from browser.chromium import Browser
from longpole.report import of_run, postmortem, postmortem_page
from longpole.session import Session

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "a browser is here"),
]


def opened(window: Browser, path: Path, html: str) -> None:
    path.write_text(html, encoding="utf-8")
    window.log()
    window.requests()
    window.open(path)
    assert window.js("return document.documentElement.dataset.errors ?? 0") == 0
    assert window.js("return [...document.querySelectorAll('.chart')].every((c) => c.querySelector('svg, canvas'))")
    assert window.log() == []
    assert window.requests() == [path.resolve().as_uri()]


@pytest.mark.parametrize(
    "run", ["nanogpt-8x-h100", "torchrec-4x-v100", "megatron-tp8-a100", "dlrm-8x-v100", "gloo-4x-cpu"]
)
def test_the_pages_of_a_run_open(real: Session, window: Browser, tmp_path: Path, run: str) -> None:
    opened(window, tmp_path / "overview.html", of_run.told(real.con, run, tool_version="1")[0])
    opened(
        window,
        tmp_path / "postmortem.html",
        postmortem_page.render(postmortem.build(real.con, run, None), tool_version="1"),
    )
