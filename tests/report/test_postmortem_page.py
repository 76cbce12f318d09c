"""The post-mortem as a document: what it says of made runs, and that nothing in a dump can act in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from bs4 import BeautifulSoup, Tag

from longpole.errors import LongpoleError
from longpole.report import postmortem_page
from longpole.report.postmortem import Postmortem, build
from longpole.session import Session
from longpole.store import Store
from pipeline_inline import make_run
from report.postmortem_rows import died_dumps, hostile_dump

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("postmortem")
    store = Store(str(folder / "store"))
    for name in ("worked", "worked-contended", "worked-late-input", "idle-causes", "cpu"):
        make_run(store, name, [FIXTURES / name])
    make_run(store, "hostile", [hostile_dump(folder / "hostile")])
    make_run(store, "died", [died_dumps(folder / "died")])
    return Session(store)


def read(session: Session, run: str, steps: tuple[int | None, int | None] | None = None) -> BeautifulSoup:
    """Return the page as a tree."""
    return BeautifulSoup(page(session, run, steps), "html.parser")


def page(session: Session, run: str, steps: tuple[int | None, int | None] | None = None) -> str:
    """Return the page of a fixed version."""
    return postmortem_page.render(build(session.con, run, steps), tool_version="1.2.3")


def text(node: Tag | None) -> str:
    """Return a node's text with its white space folded."""
    assert node is not None
    return " ".join(node.get_text(" ").split())


def cells(soup: BeautifulSoup, section: str, place: int = 0) -> list[list[str]]:
    """Return the body of a section's table as text."""
    table = soup.select(f"#{section} table")[place]
    return [[text(cell) for cell in row.find_all(["th", "td"])] for row in table.select("tbody tr")]


def rows(soup: BeautifulSoup, name: str) -> list[dict[str, Any]]:
    """Return rows of the page's block of chart data."""
    (found,) = soup.find_all("script", type="application/json")
    columns = json.loads(found.string or "")["datasets"][name]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_without_a_step_the_longest_and_the_median_are_shown(session: Session) -> None:
    soup = read(session, "worked-late-input")
    # four steps of 830 ms: the first is the longest and the median
    assert [section["id"] for section in soup.select("main > section")] == [
        "step-10-timeline",
        "step-10-ranks",
        "step-10-collectives",
        "step-10-different",
        "step-10-stalls",
        "ends",
    ]
    assert text(soup.select_one(".summary")) == "Step 10, the longest of 4 steps, of median length, took 830.0 ms."


def test_the_head_says_run_ranks_steps_and_version(session: Session) -> None:
    soup = read(session, "worked", (11, 12))
    assert text(soup.title) == "longpole post-mortem: worked"
    assert text(soup.select_one(".meta")).startswith("2 of 2 ranks recorded · 4 steps, 10–13 · ")
    assert text(soup.select_one(".meta")).endswith("· longpole 1.2.3")
    assert text(soup.select_one(".summary")) == (
        "Step 11, took 750.0 ms, as long as the median step 10. Step 12, took 750.0 ms, as long as the median step 10."
    )


def test_the_path_of_the_worked_step_is_drawn_from_start_to_end(session: Session) -> None:
    soup = read(session, "worked", (11, 11))
    found = rows(soup, "step_11_path")
    assert (found[0]["offset_ns"], found[-1]["end_ns"]) == (0, 750_000_000)
    assert [row["end_ns"] for row in found[:-1]] == [row["offset_ns"] for row in found[1:]]
    by_kind = {
        kind: sum(row["end_ns"] - row["offset_ns"] for row in found if row["kind"] == kind)
        for kind in ("compute", "comm")
    }
    assert by_kind == {"compute": 700_000_000, "comm": 50_000_000}


def test_the_lanes_of_the_worked_step_show_the_exchange_and_the_compute(session: Session) -> None:
    soup = read(session, "worked", (11, 11))
    lanes = {row["place"]: (row["rank"], row["lane"]) for row in rows(soup, "step_11_lanes")}
    bars = [(*lanes[row["place"]], row["kind"], row["offset_ns"] // 10**6, row["end_ns"] // 10**6)
            for row in rows(soup, "step_11_bars")]  # fmt: skip
    assert [bar[3:] for bar in bars if bar[:3] == (0, "stream 20", "comm")] == [
        (300, 400),
        (400, 500),
        (500, 600),
        (600, 650),
    ]
    assert min(bar[3] for bar in bars if bar[:3] == (1, "stream 7", "compute")) == 0
    assert max(bar[4] for bar in bars if bar[:3] == (1, "stream 7", "compute")) == 750
    assert sum(bar[4] - bar[3] for bar in bars if bar[:3] == (1, "stream 7", "compute")) == 700


def test_the_ranks_of_the_worked_step_are_told_with_their_parts(session: Session) -> None:
    found = cells(read(session, "worked", (11, 11)), "step-11-ranks")
    assert [row[0] for row in found] == ["0", "1"]
    assert [row[3:8] for row in found] == [["750.000", "700.000", "50.000", "0.000", "0.000"]] * 2
    assert [row[11] for row in found] == ["n/a: fewer than 3 ranks"] * 2


def test_the_collectives_of_the_worked_step_are_told_in_order(session: Session) -> None:
    found = cells(read(session, "worked", (11, 11)), "step-11-collectives")
    assert [row[5] for row in found] == ["300.000", "400.000", "500.000", "600.000"]
    assert {row[1] for row in found} == {"all_reduce"}
    assert [row[8] for row in found] == ["100.000", "100.000", "100.000", "50.000"]


def test_a_late_batch_is_the_longest_stall_and_says_the_loader(session: Session) -> None:
    soup = read(session, "worked-late-input", (11, 11))
    stall = soup.select_one("#step-11-stalls .stall")
    assert stall is not None
    assert text(stall.h3) == (
        "79.9 ms of input in enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ , 9.6 % of the step"
    )
    assert "enumerate(DataLoader)" in text(stall.select(".around > div")[1])


def test_every_section_has_its_views_its_query_and_its_words(session: Session) -> None:
    soup = read(session, "worked")
    for section in soup.select("main > section"):
        assert len(section.select(".glossary")) == 1
        assert section.select(".source > code")
        assert text(section.select(".command")[-1]).startswith("longpole query 'SELECT ")
        assert text(section.select(".command")[-1]).endswith(" --run worked")


@pytest.mark.parametrize("name", postmortem_page.sections(11))
def test_the_query_of_a_section_runs_and_reads_only_the_views_it_names(session: Session, name: str) -> None:
    section = postmortem_page.sections(11)[name]
    assert session.con.sql(section.query).fetchall()
    assert set(re.findall(r"FROM (\w+)", section.query)) <= set(section.views)
    assert set(section.views) <= set(session.views())


def test_a_run_of_one_step_has_nothing_to_compare_and_one_rank_nobody_to_wait_for(session: Session) -> None:
    soup = read(session, "idle-causes")
    assert text(soup.select_one("#step-10-different .na")) == (
        "n/a: the run has one step, so there is nothing to compare it with."
    )
    assert text(soup.select_one("#step-10-collectives .na")).startswith("n/a: ")
    assert "One rank is recorded" in text(soup.select_one("#step-10-ranks .finding"))


def test_training_without_a_device_has_its_threads_for_lanes(session: Session) -> None:
    lanes = rows(read(session, "cpu", (4, 4)), "step_4_lanes")
    assert {lane["lane"].split()[0] for lane in lanes} == {"thread"}
    assert {lane["rank"] for lane in lanes} == {0, 1}


def test_a_run_that_died_says_who_stopped_first_and_what_was_missing(session: Session) -> None:
    soup = read(session, "died")
    assert text(soup.select_one("#ends .finding")) == (
        "1 of 4 ranks stopped early. Rank 1 stopped first, 71.3 ms before the last: its dump lost its end. The first "
        "collective after it that lacks a recorded rank is all_reduce 37 in step 103: 3 of 4 came, not rank 1; 24 in "
        "all lack one."
    )
    assert [row[:3] for row in cells(soup, "ends", 0)][:2] == [["all_reduce", "0", "37"], ["all_reduce", "0", "38"]]
    assert [row[5] for row in cells(soup, "ends", 0)] == ["1"] * 5
    last = cells(soup, "ends", 1)
    assert [row[:3] for row in last[:3]] == [["1", "stream 7", "102"]] * 3
    assert [row[:3] for row in cells(soup, "ends", 2)] == [
        ["1", "node0", "yes"],
        ["0", "node0", "no"],
        ["3", "node0", "no"],
        ["2", "node0", "no"],
    ]


def test_a_run_that_ended_well_says_so(session: Session) -> None:
    soup = read(session, "worked")
    assert text(soup.select_one("#ends .finding")) == (
        "No rank stopped early: 2 ranks go equally far, to step 13, and no dump lost its end."
    )


def test_hostile_names_are_text(session: Session) -> None:
    html = page(session, "hostile")
    soup = BeautifulSoup(html, "html.parser")
    assert not soup.find_all("img")
    assert "<img src=x" not in html
    assert len(soup.find_all("script")) == 3
    names = [row["name"] for row in rows(soup, "step_10_names")]
    assert any(name.startswith("</script><img src=x onerror=") for name in names)
    assert not any("\u202e" in name for name in names)


def test_the_page_stands_alone_and_is_the_same_twice(session: Session) -> None:
    html = page(session, "worked")
    soup = BeautifulSoup(html, "html.parser")
    assert html == page(session, "worked")
    assert not [tag for tag in soup.find_all(src=True) if not str(tag["src"]).startswith("data:")]
    assert [tag["href"] for tag in soup.find_all(href=True) if not str(tag["href"]).startswith("#")] == ["data:,"]
    (policy,) = soup.find_all("meta", attrs={"http-equiv": "Content-Security-Policy"})
    assert str(policy["content"]).startswith("default-src 'none'")


def test_every_chart_has_a_title_units_and_rows(session: Session) -> None:
    soup = read(session, "worked", (11, 11))
    (found,) = soup.find_all("script", type="application/json")
    block = json.loads(found.string or "")
    assert [chart["id"] for chart in block["charts"]] == ["step-11-gantt", "step-11-arrivals"]
    for chart in block["charts"]:
        assert chart["spec"]["title"]
        assert "(ms)" in json.dumps(chart["spec"])
    assert [box["id"] for box in soup.select(".chart")] == ["step-11-gantt", "step-11-arrivals"]


def test_a_timeline_with_too_many_bars_is_cut_into_fewer_parts(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine: Postmortem = build(session.con, "died", (101, 101))
    most = fine.steps[0].bars.height // 2
    monkeypatch.setattr("longpole.report.postmortem.MAX_BARS", most)
    coarse: Postmortem = build(session.con, "died", (101, 101))
    assert fine.steps[0].n_bins == 400
    assert 25 < coarse.steps[0].n_bins < 200
    assert coarse.steps[0].bars.height <= most
    lanes = []
    for data in (fine, coarse):
        bars = data.steps[0].bars
        assert bars["n_events"].sum() == bars.unique(["rank", "lane_no"])["n_lane_events"].sum()
        lanes.append(bars.group_by("rank", "lane_no").agg(pl.col("busy_ns").sum(), pl.col("longest_ns").max()))
    assert lanes[0].sort("rank", "lane_no").equals(lanes[1].sort("rank", "lane_no"))


def test_a_step_that_is_not_there_is_an_error_with_the_steps_that_are(session: Session) -> None:
    with pytest.raises(LongpoleError, match=r"run 'worked' has no step 99\n\nIt has 4 steps, 10 to 13\."):
        build(session.con, "worked", (99, 99))
    with pytest.raises(LongpoleError, match=r"run 'worked' has no step from 20 to 30\n"):
        build(session.con, "worked", (20, 30))
    with pytest.raises(LongpoleError, match="has no step 9\n\nIt has step 10"):
        build(session.con, "idle-causes", (9, 9))


def test_more_steps_than_a_page_shows_are_an_error_that_says_how_many(session: Session) -> None:
    with pytest.raises(LongpoleError, match=r"more than the 4 that a page shows\n\nGive fewer, as --steps 100:103\."):
        build(session.con, "died", (100, 104))
