"""The page of an op timeline: what stragglers cost its steps, drawn from the run's own answers."""

from __future__ import annotations

import json

import pytest
from bs4 import BeautifulSoup

from longpole.report import of_run
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from timeline_cases import pipeline, write_job
from timeline_reference import Op


def takes(op: Op) -> int:
    """Return 10 ms for a pass, 20 on dp rank 1, and nothing for a transfer."""
    return (20_000_000 if op.dp_rank == 1 else 10_000_000) if op.optype.endswith("-compute") else 0


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[BeautifulSoup, str]:
    folder = tmp_path_factory.mktemp("job")
    ops = [op for step in range(3) for op in pipeline(4, 2, 4, takes, step=step, tail="after")]
    store = Store(str(folder / "store"))
    make_run(store, "job", [write_job(folder / "dumps" / "trace-job.parquet", ops)])
    with Session(store) as session:
        html, text = of_run.told(session.con, "job", tool_version="1")
        again, _ = of_run.told(session.con, "job", tool_version="1")
    assert html == again
    return BeautifulSoup(html, "html.parser"), text


def text_of(soup: BeautifulSoup, id_: str) -> str:
    section = soup.find(id=id_)
    assert section is not None
    return " ".join(section.get_text().split())


def test_the_page_says_what_the_terminal_says(page: tuple[BeautifulSoup, str]) -> None:
    soup, text = page
    header = soup.header
    assert header is not None
    shown = " ".join(header.get_text().split())
    for line in text.split("\n"):
        assert " ".join(line.split()) in shown


def test_the_slow_replica_is_the_slowest_worker(page: tuple[BeautifulSoup, str]) -> None:
    soup, _ = page
    assert "The slowest worker is rank 3, dp rank 1 of stage 1" in text_of(soup, "workers")


def test_each_chart_has_its_rows(page: tuple[BeautifulSoup, str]) -> None:
    soup, _ = page
    block = soup.find(id="page-data")
    assert block is not None
    data = json.loads(block.get_text())
    assert [chart["id"] for chart in data["charts"]] == ["step-chart", "worker-map"]
    assert data["datasets"]["step_bins"]["first_step"] == [0, 1, 2]
    assert len(data["datasets"]["workers"]["rank"]) == 8


def test_stages_stand_beside_their_schedule(page: tuple[BeautifulSoup, str]) -> None:
    soup, _ = page
    # Two stages, four microbatches: 1 / (4 + 1).
    assert "4 microbatches a step" in text_of(soup, "stages")
    assert text_of(soup, "stages").count("20.0 %") >= 2


def test_every_section_has_its_query(page: tuple[BeautifulSoup, str]) -> None:
    soup, _ = page
    sections = soup.find_all("section")
    assert [s["id"] for s in sections] == ["steps", "workers", "groups", "stages", "coverage"]
    assert all("longpole query" in s.get_text() for s in sections)
