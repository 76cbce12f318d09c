"""The page as a document: what it says, that it stands alone, and that nothing in a dump can act in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag

from longpole.report import document, page, words
from longpole.report.overview import Overview, build
from report import scenes


def read(html: str) -> BeautifulSoup:
    """Return the page as a tree."""
    return BeautifulSoup(html, "html.parser")


def block(soup: BeautifulSoup) -> dict[str, Any]:
    """Return the page's one block of chart data."""
    found = soup.find_all("script", type="application/json")
    assert len(found) == 1
    data: dict[str, Any] = json.loads(found[0].string or "")
    return data


def text(node: Tag | None) -> str:
    """Return a node's text with its white space folded."""
    assert node is not None
    return " ".join(node.get_text(" ").split())


def cells(soup: BeautifulSoup, section: str, place: int = 0) -> list[list[str]]:
    """Return the body of a section's table as text."""
    table = soup.select(f"#{section} table")[place]
    return [[text(cell) for cell in row.find_all(["th", "td"])] for row in table.select("tbody tr")]


def render(data: Overview) -> str:
    """Return the page of a fixed version."""
    return page.render(data, tool_version="1.2.3")


@pytest.fixture(scope="module")
def tiny() -> BeautifulSoup:
    return read(render(build(scenes.tiny(), "tiny")))


@pytest.fixture(scope="module", params=["tiny", "hostile", "without_steps", "one_rank_of_sixteen", "nothing"])
def any_page(request: pytest.FixtureRequest) -> str:
    run = scenes.HOSTILE if request.param == "hostile" else "tiny"
    return render(build(getattr(scenes, request.param)(), run))


def test_the_head_names_run_ranks_steps_and_version(tiny: BeautifulSoup) -> None:
    assert text(tiny.title) == "longpole overview: tiny"
    assert text(tiny.h1) == "tiny"
    assert text(tiny.select_one(".meta")) == "2 of 2 ranks recorded · steps 10–12 · H100 · longpole 1.2.3"
    assert text(tiny.select_one(".summary")).startswith("The median step takes 110.0 ms")
    assert [text(entry) for entry in tiny.select(".care-box li")][:2] == [
        "one dump is truncated",
        "2 of 6 windows have a verdict other than ok",
    ]


def test_key_figures_are_named_and_have_units(tiny: BeautifulSoup) -> None:
    names = [text(dt) for dt in tiny.select(".figures dt")]
    values = [text(dd) for dd in tiny.select(".figures dd")]
    assert dict(zip(names, values, strict=True)) == {
        "Median step": "110.0 ms",
        "Shortest–longest step": "101.0 ms – 200.0 ms",
        "Slowest: step 12": "200.0 ms",
        "Communication hidden by compute": "23.1 %",
        "Windows measured": "6",
    }


def test_sections_come_in_order_each_with_its_views_its_query_and_its_words(tiny: BeautifulSoup) -> None:
    sections = tiny.select("main > section")
    assert [section["id"] for section in sections] == [
        "steps",
        "path",
        "stragglers",
        "fix",
        "ledger",
        "exchanges",
        "stages",
        "exposed-comm",
        "idle",
        "kernels",
        "ranks",
        "coverage",
    ]
    assert [text(a) for a in tiny.select("nav a")] == [text(section.h2) for section in sections]
    for section in sections:
        assert len(section.select(".glossary")) == 1
        assert section.select(".source > code")
        assert text(section.select(".command")[-1]).startswith("longpole query 'SELECT ")
        assert text(section.select(".command")[-1]).endswith(" --run tiny")


@pytest.mark.parametrize("section", page.SECTIONS, ids=lambda section: section.id)
def test_the_query_of_a_section_runs_and_reads_only_the_views_it_names(section: document.Section) -> None:
    con = scenes.tiny()
    assert con.sql(section.query).fetchall()
    for view in section.views:
        con.execute(f"SELECT * FROM {view}")
    assert set(re.findall(r"FROM (\w+)", section.query)) <= set(section.views)


def test_the_first_screen_answers_what_is_asked_first(tiny: BeautifulSoup) -> None:
    answers = {text(entry.dt): text(entry.dd) for entry in tiny.select(".answers > div")}
    assert answers == {
        "How long is a step?": "110.0 ms in the median; no trend: nine steps are needed to see one",
        "What decides it?": "compute: 51.1 % of the critical path, 59.9 % of it on rank 1",
        "Who is late?": "rank 0 in 1 of 3 steps, cause input",
        "What to fix first?": "rank 0 at the ranks' median: 1.280x, 30.0 ms a step",
        "How well are devices used?": "MFU n/a: no step has a time",
        "Can it be trusted?": "1 of 2 checks of coverage have doubts",
    }


def test_where_allocations_are_recorded_the_first_screen_has_the_peak_of_a_rank() -> None:
    con = scenes.tiny()
    peaks = [
        (0, 10, 0, 60 << 30),
        (1, 10, 3, 64 << 30),
        (1, 11, 3, 72 << 30),
        (1, 11, None, 90 << 30),
        (0, 12, 0, None),
    ]
    columns = ("rank", "step", "device", "peak_allocated_bytes")
    scenes.add(con, "rank_memory", [{"run": "tiny", **dict(zip(columns, row, strict=True))} for row in peaks])
    size = {"run": "tiny", "rank": 1, "device_index": 3, "device_memory_bytes": 80 << 30}
    scenes.add(con, "dumps", [{**size, "path": "p", "verdict": "ok"}])
    answers = dict(answer[:2] for answer in words.answers(build(con, "tiny")))
    assert answers["How well are devices used?"] == (
        "MFU n/a: no step has a time; peak memory of a rank 72.0 GiB of 80.0 GiB, rank 1"
    )


def test_what_to_fix_first_is_a_table_of_changes(tiny: BeautifulSoup) -> None:
    assert cells(tiny, "fix") == [
        ["rank 0 at the ranks' median", "1.280x", "30.000", "ok"],
        ["host in `gemm` gone", "1.002x", "0.333", "below the error of the unchanged replay"],
    ]


def test_exchanges_have_their_share_their_waits_and_their_bandwidth(tiny: BeautifulSoup) -> None:
    assert cells(tiny, "exchanges") == [
        ["dp", "all_reduce", "1", "2", "4", "2 MB", "82.000", "10.0 %", "25.0 %", "12.5", "ok"]
    ]


def test_stages_have_their_bubble_beside_that_of_the_schedule(tiny: BeautifulSoup) -> None:
    assert cells(tiny, "stages") == [
        ["0", "1", "75.0 %", "15.0 %", "11.1 %", "0.0 %", "ok"],
        ["1", "1", "75.0 %", "20.0 %", "11.1 %", "0.0 %", "ok"],
    ]


def test_the_ledger_says_its_largest_parts(tiny: BeautifulSoup) -> None:
    assert "MFU is n/a, so compute is one part." in text(tiny.select_one("#ledger figcaption"))
    assert "compute 61.9 %, exposed transfer 21.4 % and skew of windows 11.9 %" in text(
        tiny.select_one("#ledger figcaption")
    )


def test_the_kernel_table_has_every_number_with_its_unit(tiny: BeautifulSoup) -> None:
    assert [text(th) for th in tiny.select("#kernels thead th")] == [
        "Kernel",
        "Kind",
        "Calls",
        "Total ms",
        "Exposed ms",
        "Share of windows",
        "Total ms per window",
        "Exposed ms per window",
        "Comm because",
    ]
    assert cells(tiny, "kernels") == [
        ["gemm", "compute", "24", "360.000", "360.000", "43.9 %", "60.000", "60.000", ""],
        ["AllReduce", "comm", "12", "180.000", "120.000", "14.6 %", "30.000", "20.000", "name"],
        ["Memcpy HtoD", "copy", "6", "30.000", "30.000", "3.7 %", "5.000", "5.000", ""],
    ]
    assert [td["data-sort"] for td in tiny.select("#kernels tbody tr:first-child td.number")][:3] == [
        "24",
        "360000000",
        "360000000",
    ]


def test_the_other_kernels_are_one_last_row() -> None:
    found = cells(read(render(build(scenes.many(1, 2), "many"))), "kernels")
    assert len(found) == 41
    assert found[-1][0] == "20 other kernels"


def test_a_long_kernel_name_is_cut_in_the_middle_and_whole_in_its_title() -> None:
    name = "gemm_" + "a" * 60 + "_tail"
    cell = read(render(build(scenes.tiny(kernel=name), "tiny"))).select_one("#kernels th.name")
    assert cell is not None
    assert cell["title"] == name
    assert text(cell) == "gemm_" + "a" * 24 + "…" + "a" * 25 + "_tail"


def test_what_steps_waited_for_is_a_sentence_a_table_and_two_commands(tiny: BeautifulSoup) -> None:
    assert text(tiny.select_one("#path figcaption")) == (
        "Most of all the steps waited for compute: 51.1 % of the time on the path; rank 1 has the largest share, "
        "59.9 %. Unexplained is 6.1 %, host time without an event 2.7 %."
    )
    assert cells(tiny, "path")[:2] == [
        ["gemm", "compute", "1", "150.000", "36.5 %", "2", "2"],
        ["next", "input", "0", "105.000", "25.5 %", "1", "1"],
    ]
    assert text(tiny.select_one("#path caption")) == "All 7 kinds, names and ranks on the paths of 3 steps"
    assert [text(command) for command in tiny.select("#path .command")][:2] == [
        "longpole explain tiny",
        "longpole whatif tiny --opportunities",
    ]


def test_who_was_waited_for_is_a_sentence_and_a_table(tiny: BeautifulSoup) -> None:
    assert text(tiny.select_one("#stragglers figcaption")) == (
        "1 of 3 steps waited for one rank beyond the noise; the longest wait of a step is for rank 0 in step 12: "
        "100.0 ms, 50.0 % of the step."
    )
    assert cells(tiny, "stragglers") == [
        [
            *("0", "node0", "1 of 3", "33.3 %", "100.000", "24.3 %"),
            *("input", "100.000", "100.0 %", "the rank alone", "transient", "n/a", "0.000028"),
            "one step: it may be chance",
        ]
    ]
    assert tiny.select("#stragglers .caveat") == []


def test_the_grid_of_workers_of_a_pipeline_says_who_was_late_longest() -> None:
    soup = read(render(build(scenes.gridded(), "tiny")))
    assert [text(caption) for caption in soup.select("#stragglers figcaption")][1] == (
        "The longest wait is for dp rank 0 in stage 0: 33.3 ms in the mean step, 24.3 % of it."
    )


def test_a_run_of_which_one_rank_is_recorded_says_why_nobody_is_named() -> None:
    soup = read(render(build(scenes.one_rank_of_sixteen(), "tiny")))
    assert [text(note) for note in soup.select("#stragglers .na")] == [
        "n/a: one rank is recorded, and who was late shows only beside others."
    ]
    assert soup.select("#stragglers table, #stragglers .chart") == []


def test_the_ranks_table_shows_shares_causes_and_verdicts(tiny: BeautifulSoup) -> None:
    assert cells(tiny, "ranks")[1] == [
        *("1", "launches missing (2 of its windows)", "node1", "110.000", ""),
        *("53.7 %", "31.7 %", "3.7 %", "11.0 %", ""),
        *("3.7 %", "0.0 %", "5.9 %", "0.7 %", "0.7 %", "0.0 %"),
        *("3", "3"),
    ]
    bar = tiny.select("#ranks tbody .bar")[1]
    assert bar["aria-label"] == "rank 1: 53.7 % compute, 31.7 % exposed comm, 3.7 % exposed copies, 11.0 % idle"
    assert [span["style"] for span in bar.select("span")] == [
        "--c: var(--compute); --w: 53.659%",
        "--c: var(--comm); --w: 31.707%",
        "--c: var(--copy); --w: 3.659%",
        "--c: var(--idle); --w: 10.976%",
    ]


def test_coverage_shows_checks_dumps_and_verdicts(tiny: BeautifulSoup) -> None:
    assert cells(tiny, "coverage", 0) == [
        ["events", "1,000", "990", "10 events are malformed"],
        ["ranks", "2", "2", "ok"],
    ]
    assert cells(tiny, "coverage", 1) == [
        ["rank1.json.gz", "1", "500", "2", "10", "1", "truncated"],
        ["rank0.json.gz", "0", "500", "2", "0", "0", "ok"],
    ]
    assert cells(tiny, "coverage", 2) == [["launches missing", "rank_steps", "2", "1", "11–12"]]


def test_a_run_without_steps_says_why_it_has_no_charts() -> None:
    soup = read(render(build(scenes.without_steps(), "tiny")))
    why = "n/a: no step was found; Ranks has each capture as a whole."
    assert [text(note) for note in soup.select("main .na")] == [
        why,
        "n/a: no step has a critical path.",
        "n/a: no rank has events in a step, so who came late cannot be known.",
        "n/a: no what-if was made of this run. Ask for one: longpole whatif tiny --stragglers",
        "MFU n/a: no step has a time.",
        "n/a: no step has a time.",
        "n/a: no collective of a step was found.",
        why,
        why,
    ]
    assert soup.select(".chart") == []
    assert block(soup)["charts"] == []
    assert len(cells(soup, "ranks")) == 2


def test_a_run_that_recorded_nothing_says_why_in_every_section() -> None:
    soup = read(render(build(scenes.nothing(), "tiny")))
    for section in ("steps", "path", "stragglers", "exposed-comm", "idle", "kernels", "ranks", "coverage"):
        assert all(text(note).startswith("n/a: ") for note in soup.select(f"#{section} .na"))
        assert soup.select(f"#{section} .na")
    assert "device n/a: no dump says" in text(soup.select_one(".meta"))


def test_one_recorded_rank_of_sixteen_is_said_at_the_head_and_at_the_chart() -> None:
    soup = read(render(build(scenes.one_rank_of_sixteen(), "tiny")))
    assert text(soup.select_one(".meta")).startswith("1 of 16 ranks recorded (1) · ")
    assert text(soup.select_one("#steps .caveat")) == (
        "3 of 3 step times are the mean window of the ranks: their clocks are not aligned."
    )


def test_more_ranks_than_rows_and_more_steps_than_columns_are_said() -> None:
    soup = read(render(build(scenes.many(70, 302), "many")))
    assert "64 of 70 ranks: those with the largest share over all steps." in text(soup.select_one("#idle figcaption"))
    assert text(soup.select_one("#idle .caveat")).startswith("Each column is 2 steps; colour = mean.")
    drawings = {drawing["id"]: drawing for drawing in block(soup)["charts"]}
    assert drawings["step-chart"]["renderer"] == "svg"
    assert drawings["idle-map"]["renderer"] == "canvas"
    assert len(block(soup)["datasets"]["idle_cells"]["rank"]) == 64 * 151


def test_every_chart_has_a_place_a_finding_and_rows(tiny: BeautifulSoup) -> None:
    data = block(tiny)
    assert [drawing["id"] for drawing in data["charts"]] == [
        "step-chart",
        "cause-chart",
        "path-chart",
        "late-map",
        "ledger-chart",
        "comm-map",
        "idle-map",
    ]
    for drawing in data["charts"]:
        place = tiny.find(id=drawing["id"])
        assert isinstance(place, Tag)
        assert place["role"] == "img"
        assert str(place["aria-label"]).endswith(".")
        assert any(data["datasets"][drawing["spec"]["data"]["name"]].values())


def test_a_chart_that_names_absent_or_empty_rows_is_refused() -> None:
    drawing = {"id": "x", "spec": {"data": {"name": "rows"}, "layer": [{"from": {"data": {"name": "more"}}}]}}
    document.check_names([drawing], {"rows": {"a": [1]}, "more": {"a": [1]}})
    without: dict[str, dict[str, list[Any]]] = {"rows": {"a": [1]}}
    for datasets in (without, without | {"more": {"a": []}}):
        with pytest.raises(ValueError, match=r"chart x names rows that the page has not got: \['more'\]"):
            document.check_names([drawing], datasets)
    with pytest.raises(ValueError, match="chart y"):
        document.check_names([{"id": "y", "spec": {"mark": "bar"}}], {})


def test_both_schemes_have_the_same_colours_as_the_style_sheet(tiny: BeautifulSoup) -> None:
    style = text(tiny.style)
    for scheme, config in block(tiny)["config"].items():
        kinds = zip(("compute", "comm", "copy", "idle"), config["range"]["category"], strict=True)
        causes = zip(
            ("input", "sync", "host", "launch", "turnaround", "other"), config["range"]["ordinal"], strict=True
        )
        for name, colour in (*kinds, *causes):
            assert f"--{name}: {colour};" in style, scheme
        assert config["range"]["diverging"][:3] == config["range"]["category"][:3]
        assert "@" not in json.dumps(config)


def test_the_page_loads_nothing_and_links_nowhere(any_page: str) -> None:
    soup = read(any_page)
    for node in soup.find_all(True):
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = node.get(name)
            assert value is None or value == "data:," or str(value).startswith("#"), f"<{node.name} {name}={value}>"
    meta = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})
    assert isinstance(meta, Tag)
    assert meta["content"] == (
        "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
    )
    assert "url(" not in text(soup.style)
    assert "@import" not in text(soup.style)


def test_hostile_text_stays_text(any_page: str) -> None:
    soup = read(any_page)
    has_charts = bool(soup.find_all(class_="chart"))
    assert len(soup.find_all("script")) == (3 if has_charts else 2)  # the drawing library, the data, the page's script
    assert soup.find_all("img") == []
    assert not any(name.startswith("on") for node in soup.find_all(True) for name in node.attrs)


def test_a_hostile_name_is_shown_as_it_is_written() -> None:
    soup = read(render(build(scenes.hostile(), scenes.HOSTILE)))
    shown = scenes.HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert text(soup.h1) == shown
    assert cells(soup, "coverage", 0)[0][0] == shown
    kernel = soup.select_one("#kernels th.name")
    assert kernel is not None
    assert kernel["title"] == shown


def test_data_in_a_script_element_cannot_end_it() -> None:
    assert document.json_block({"a": "</script><!--&"}) == '{"a":"\\u003c/script\\u003e\\u003c!--\\u0026"}'
    assert json.loads(document.json_block({"a": "</script>"})) == {"a": "</script>"}


def test_the_script_stays_small_enough_to_be_read(tiny: BeautifulSoup) -> None:
    script = tiny.find_all("script")[-1].string
    assert script is not None
    assert len(script.strip().splitlines()) <= 120


def test_chart_data_holds_numbers_alone() -> None:
    def leaves(node: Any) -> Iterator[Any]:
        if isinstance(node, dict):
            for child in node.values():
                yield from leaves(child)
        elif isinstance(node, list):
            for child in node:
                yield from leaves(child)
        else:
            yield node

    data = block(read(render(build(scenes.hostile(), scenes.HOSTILE))))
    assert {type(leaf) for leaf in leaves(data["datasets"])} <= {int, float, type(None)}


def test_the_same_run_gives_the_same_bytes() -> None:
    first, second = (render(build(scenes.tiny(), "tiny")) for _ in range(2))
    assert first == second


def test_a_page_of_1024_ranks_and_1000_steps_stays_small() -> None:
    html = render(build(scenes.many(1024, 1000), "many"))
    assert len(html.encode()) < 8_000_000
    assert "The other 960 ranks by pipeline stage" in html


def test_a_page_of_64_ranks_and_5000_steps_stays_small() -> None:
    assert len(render(build(scenes.many(64, 5000), "many")).encode()) < 5_000_000


def test_headings_tables_and_regions_are_named(any_page: str) -> None:
    soup = read(any_page)
    assert len(soup.find_all("h1")) == 1
    assert len(soup.find_all("main")) == 1
    assert soup.select_one("a.skip[href='#main']")
    assert all(table.find("caption") for table in soup.find_all("table"))
    assert all(th.get("scope") in ("col", "row") for th in soup.find_all("th"))
    ids = [node["id"] for node in soup.find_all(id=True)]
    assert len(ids) == len(set(ids))
    for node in soup.select("[aria-labelledby]"):
        assert node["aria-labelledby"] in ids
    for control in soup.find_all(["input", "nav"]):
        assert control.get("aria-label")
