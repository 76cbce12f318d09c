"""What a night says as plain data, as JUnit XML and as a document."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from bs4 import BeautifulSoup

from longpole.report import nights, nights_page
from longpole.report.nights import Entry, Gate, Host, Measured, Placed, Trend

HOSTILE = "</script><b>x</b>"


def gate(run: str, verdict: str, name: str = "step_time_ns", value: float | None = 812e6) -> Gate:
    return Gate(run, name, "step_time_ns", value, 780e6, True, value, None, None, None, verdict)


def trend() -> Trend:
    """Return three runs of a job, the last slower, and one of no job."""
    runs = tuple(Placed(f"r{n}", HOSTILE, "w", n, n + 1, "ok") for n in range(3))
    times = (750e6, 752e6, 812e6)
    measures = [
        Measured(f"r{n}", "step_time_ns", time, "r0" if n else None, 750e6 if n else None, n, 1e6 if n else None,
                 time / 750e6 - 1 if n else None, "worse" if n == 2 else "ok")
        for n, time in enumerate(times)
    ]  # fmt: skip
    measures += [Measured(f"r{n}", "mfu_ratio", 0.4, None, None, 0, None, None, "ok") for n in range(3)]
    alone = Placed("alone", None, None, 9, 1, "doubts")
    gates = (gate("r1", "passed"), gate("r2", "failed"), gate("r2", "n/a: no model is told", "mfu_ratio", None))
    hosts = (Host("h1", 3, 2, 1.5, ("host",), ("r0", "r2"), "slow in several runs"),)
    return Trend((*runs, alone), tuple(measures), gates, hosts)


def verdict() -> nights.Verdict:
    entries = [
        Entry("r2", "changed"),
        Entry("r1", "unchanged"),
        Entry("bad", "failed", f"{HOSTILE}\x00 is no dump"),
        Entry("late", "waiting", "", ("/d/rank0.json",)),
    ]
    return nights.judge(
        entries, trend(), root="/d", pages=frozenset({"runs/r1.html", "runs/r2.html", "compare/r2.html"})
    )


def page() -> BeautifulSoup:
    return BeautifulSoup(nights_page.render(verdict(), trend(), tool_version="1.2.3"), "html.parser")


def test_the_gates_of_runs_that_changed_are_judged() -> None:
    told = verdict()

    assert [j.entry.run for j in told.runs] == ["bad", "late", "r1", "r2"]
    assert [(g.run, g.verdict) for g in told.failures] == [("r2", "failed")]
    assert told.exit_code == 3
    assert nights.judge([Entry("bad", "failed", "x")], trend(), root="", pages=frozenset()).exit_code == 1
    assert nights.judge([Entry("r1", "changed")], trend(), root="", pages=frozenset()).exit_code == 0


def test_a_gate_in_words_has_its_value_and_limit() -> None:
    assert nights.sentence(gate("r2", "failed")) == "run r2: step_time_ns is 812.0 ms, at most 780.0 ms is allowed"


def test_junit_has_a_suite_for_each_run_that_changed_or_failed() -> None:
    root = ElementTree.fromstring(nights.to_junit(verdict()))  # noqa: S314

    assert [suite.attrib["name"] for suite in root] == ["bad", "r2"]
    errors = [e.attrib["message"] for e in root.iter("error")]
    assert errors == [f"{HOSTILE}\ufffd is no dump"]
    assert [e.attrib["message"] for e in root.iter("skipped")] == ["n/a: no model is told"]
    assert len(list(root.iter("failure"))) == 1


def test_verdict_json_has_what_the_readme_promises() -> None:
    whole = json.loads(nights.to_json(verdict(), tool_version="1.2.3"))

    assert list(whole) == ["version", "tool_version", "root", "exit_code", "n_gates_failed", "runs"]
    run = whole["runs"][3]
    assert {k: run[k] for k in ("run", "status", "baseline_run", "page", "compare")} == {
        "run": "r2",
        "status": "changed",
        "baseline_run": "r0",
        "page": "runs/r2.html",
        "compare": "compare/r2.html",
    }
    assert list(run["measures"][0]) == [
        "measure",
        "value",
        "baseline",
        "n_baseline",
        "noise_floor",
        "change",
        "verdict",
    ]
    assert whole["runs"][1]["waiting"] == ["/d/rank0.json"]


def test_the_index_says_what_needs_a_person_first() -> None:
    soup = page()

    assert soup.h1 is not None and soup.h1.get_text() == "1 gate failed"
    needs = [" ".join(li.get_text().split()) for li in soup.select(".care-box li")]
    assert needs == [
        "gate failed run r2: step_time_ns is 812.0 ms, at most 780.0 ms is allowed",
        f"failed bad: {HOSTILE}\\x00 is no dump",
        "left for the next night late: 1 dump is still being written",
    ]


def test_a_job_s_table_has_its_latest_run_first() -> None:
    tables = page().select("section table")

    cells = [" ".join(td.get_text().split()) for td in tables[0].select_one("tbody tr").find_all(["th", "td"])]  # type: ignore[union-attr]
    assert cells[:5] == ["r2", "3", "changed", "812.0 ms worse", "40.0 %"]
    assert cells[10] == "+8.3 % from r0 and 1 before: worse"
    assert [a["href"] for a in tables[0].select("a")] == ["runs/r2.html", "compare/r2.html", "runs/r1.html"]
    assert "slow in several runs" in tables[-1].get_text()


def test_hostile_names_stay_text_and_the_page_stands_alone() -> None:
    soup = page()

    assert soup.select("h2 b, td b, th b, li b") == []
    assert [h.get_text() for h in soup.select("h2")][1:3] == [f"{HOSTILE} · w", "Runs of no job"]
    assert not [tag for tag in soup.find_all(True) for key in ("src", "href") if "//" in str(tag.get(key, ""))]
    assert nights_page.render(verdict(), trend(), tool_version="1") == nights_page.render(
        verdict(), trend(), tool_version="1"
    )


def test_an_empty_store_has_an_index_too() -> None:
    nothing = nights.judge([], Trend(), root="/d", pages=frozenset())

    soup = BeautifulSoup(nights_page.render(nothing, Trend(), tool_version="1"), "html.parser")
    assert soup.h1 is not None and soup.h1.get_text() == "No gates failed"
