"""What tests of several folders share: a browser, and one store of all real dumps, made once.

Real dumps are other people's runs with known answers, kept beside the checkout.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import chromium
from browser.chromium import Browser
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run

TRACES = Path(__file__).parents[1].parent / "shared" / "traces"

SETS = ("nanogpt-8x-h100", "torchrec-4x-v100", "megatron-tp8-a100", "dlrm-8x-v100", "gloo-4x-cpu")

PRICED = ("nanogpt-8x-h100", "torchrec-4x-v100")
"""Sets with stragglers whose cost is known."""


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of real dumps, or skip where there is none."""
    if not TRACES.is_dir():
        pytest.skip(f"no real dumps at {TRACES.name}/ beside the checkout")
    return TRACES


@pytest.fixture(scope="session")
def real_store(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store with a run for each set and each single dump."""
    store = Store(str(tmp_path_factory.mktemp("real") / "store"))
    for name in SETS:
        make_run(store, name, [traces / name], has_what_ifs=name in PRICED)
    for dump in sorted((traces / "single").glob("*.json.gz")):
        make_run(store, dump.name.split(".")[0], [dump])
    return store


@pytest.fixture(scope="session")
def real(real_store: Store) -> Iterator[Session]:
    """Return a session over all real runs."""
    with Session(real_store) as session:
        yield session


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a browser whose own first requests are over."""
    with chromium.browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.js("return 1")
        opened.requests()
        yield opened
