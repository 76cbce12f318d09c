"""The planner's page as a document: its numbers, its curve, and that it stands alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from bs4 import BeautifulSoup

from longpole.plan.buckets import Exchange
from longpole.plan.clocks import Machine
from longpole.plan.duration import Job
from longpole.report import clock_sheets, exchange_sheets, plan_page, run_sheets
from longpole.report.sheets import Line, Sheet

H100 = Machine(989e12, 3.35e12, 450e9)

SHEETS = {
    "duration": run_sheets.duration_sheet(Job(7 * 10**9, 100 * 10**9, 64, 300e12, 0.4)),
    "tokens": run_sheets.tokens_sheet(data_parallel=4, sequences=2, accumulation=8, seq_len=2048),
    "memory": run_sheets.memory_sheet(
        10**9, "adam", "mixed", run_sheets.Shape(2, 8, 2, 2, 4, 16), device_bytes=80 * 10**9, node_devices=8
    ),
    "allreduce": exchange_sheets.allreduce_sheet(141 * 10**9, ranks=8, links={"nvlink": 450e9, "400G": 50e9}),
    "bubble": exchange_sheets.bubble_sheet(stages=16, microbatches=16, virtual_stages=3),
    "clocks": clock_sheets.clocks_sheet(H100, params=856 * 10**6, tokens=8_192, ranks=8, launches=90),
    "matmul": clock_sheets.matmul_sheet(H100, rows=8_192, inner=8_192, columns=28_672),
    "decode": clock_sheets.decode_sheet(
        H100,
        params=10**9,
        batch=4,
        context=0,
        kv_token_bytes=0,
        devices=1,
        launches=0,
        all_params=10**9,
        device_bytes=None,
    ),
    "buckets": exchange_sheets.buckets_sheet(Exchange(10**9, 10**8, 8, 50e9, 50_000), bucket_bytes=None),
}

EVERY_SHEET = pytest.mark.parametrize("sheet", SHEETS.values(), ids=SHEETS)


def read(sheet: Sheet) -> BeautifulSoup:
    return BeautifulSoup(plan_page.render(sheet, tool_version="1.2.3"), "html.parser")


@EVERY_SHEET
def test_the_page_has_each_line_of_the_table(sheet: Sheet) -> None:
    cells = [
        tuple(" ".join(cell.get_text().split()) for cell in row.find_all(["th", "td"]))
        for row in read(sheet).select("#answer tbody tr")
    ]
    assert cells == [(line.what, line.value, line.how) for line in sheet.lines]


@EVERY_SHEET
def test_the_page_asks_nothing_of_a_network_and_is_the_same_each_time(sheet: Sheet) -> None:
    soup = read(sheet)
    policy = soup.select_one('meta[http-equiv="Content-Security-Policy"]')
    assert policy is not None and str(policy["content"]).startswith("default-src 'none'")
    assert not [tag for tag in soup.find_all(True) for name in ("src", "href") if "//" in str(tag.get(name, ""))]
    assert plan_page.render(sheet, tool_version="1.2.3") == plan_page.render(sheet, tool_version="1.2.3")


@EVERY_SHEET
def test_a_curve_has_titles_with_units_and_rows_of_its_own(sheet: Sheet) -> None:
    block = json.loads(str(read(sheet).select_one("#page-data").string))  # type: ignore[union-attr]
    if sheet.curve is None:
        assert block["charts"] == []
        return
    (chart,) = block["charts"]
    encoding = chart["spec"]["layer"][-1]["encoding"]
    assert chart["spec"]["title"] == sheet.curve.title
    assert (encoding["x"]["title"], encoding["y"]["title"]) == (sheet.curve.x.title, sheet.curve.y.title)
    assert len(block["datasets"]["curve"]["series"]) == len(sheet.curve.rows) > 10
    assert {row["series"] for row in sheet.curve.rows} <= set(sheet.curve.series)


@EVERY_SHEET
def test_a_curve_passes_through_the_answer(sheet: Sheet) -> None:
    if sheet.curve is not None:
        assert sheet.curve.at in {row[sheet.curve.x.column] for row in sheet.curve.rows}


def test_the_curve_of_buckets_is_lowest_at_the_best() -> None:
    sheet = SHEETS["buckets"]
    assert sheet.curve is not None
    lowest = min(sheet.curve.rows, key=lambda row: row["tail_ns"])
    assert lowest["tail_ns"] == sheet.answer["best"]["tail_ns"]


def test_what_was_given_is_listed_and_what_was_not_is_left_out() -> None:
    soup = read(SHEETS["clocks"])
    given = {row.th.get_text(): row.td.get_text() for row in soup.select("#given tbody tr")}  # type: ignore[union-attr]
    assert given["params"] == "856,000,000"
    assert given["launch_s"] == "6e-06"
    unlinked = clock_sheets.matmul_sheet(Machine(1e12, 1e12), rows=1, inner=1, columns=1)
    assert "link_bytes_per_s" not in read(unlinked).select_one("#given").get_text()  # type: ignore[union-attr]


def test_a_name_that_a_person_gave_cannot_act_in_the_page() -> None:
    hostile = "</script><script>alert(1)</script>"
    sheet = exchange_sheets.allreduce_sheet(10, ranks=2, links={hostile: 1.0})
    html = plan_page.render(replace(sheet, lines=[*sheet.lines, Line(hostile, "1", hostile)]), tool_version="1")
    assert hostile not in html
    assert len(BeautifulSoup(html, "html.parser").find_all("script")) == 3
