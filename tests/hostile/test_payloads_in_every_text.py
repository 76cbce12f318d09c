"""Of a run whose every text is an attack, pages show text, terminals get no escapes, files parse, and nothing runs."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from browser import chromium
from browser.chromium import Browser
from hostile import payloads
from hostile.payloads import HANG, JOB, KINETO, NSYS, OTHER, PAYLOAD, RUNS
from longpole import cli
from longpole.cli import nightly, options
from longpole.cli.query import print_answer
from longpole.session import Session
from longpole.store import Store

_ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What makes a terminal do more than show a line; a tab and the end of a line are the tables' own."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return payloads.make_runs(tmp_path_factory.mktemp("payloads"))


@pytest.fixture(scope="module")
def pages(store: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return every page of these runs, by what it is."""
    folder = tmp_path_factory.mktemp("pages")
    wanted = {
        **{run: (run,) for run in RUNS},
        "postmortem": (KINETO, "--kind", "postmortem"),
        "postmortem-nsys": (NSYS, "--kind", "postmortem"),
        "compare": (OTHER, "--kind", "compare", "--baseline", KINETO),
    }
    found = {}
    for name, argv in wanted.items():
        path = folder / f"{name}.html"
        assert cli.main(["report", *argv, "-o", str(path), "--store", store.url]) == 0, name
        found[name] = path
    return found


def commands(store: Store, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield every command that shows something of a store, of each run that it is for."""
    at = ("--store", store.url)
    yield ("runs", *at)
    yield ("prune", "--keep", "1", *at)
    yield ("recipes", *at)
    yield ("inspect", *(str(Path(store.url).parent / run) for run in (KINETO, NSYS, HANG, JOB)))
    for run in RUNS:
        yield ("query", "FROM dumps WHERE run = '" + run + "'", *at)
        yield ("export", run, "-o", str(folder / f"{run}.json.gz"), *at)
    for run in (KINETO, HANG, JOB):
        yield ("check", run, *at)
    for run in (KINETO, NSYS):
        for form in ("table", "json"):
            yield ("explain", run, "--format", form, *at)
    yield ("whatif", KINETO, "--opportunities", *at)
    yield ("whatif", KINETO, "--scale", f"kernel:{PAYLOAD[:30]}=0.5", *at)
    yield ("compare", KINETO, OTHER, *at)
    yield ("compare", KINETO, OTHER, "--format", "json", *at)
    yield ("query", f"SELECT error('{PAYLOAD.replace(chr(39), '')}')", *at)
    yield ("explain", PAYLOAD, *at)
    yield ("report", PAYLOAD, *at)
    yield ("inspect", PAYLOAD)
    yield ("plan", PAYLOAD)
    yield ("views", PAYLOAD)


def test_no_command_lets_a_text_act_on_the_terminal_or_fake_a_line(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options.Work, "runner", _inline)
    tried = set()
    for argv in commands(store, tmp_path):
        code = cli.main(list(argv))
        out, err = capsys.readouterr()
        assert code in (0, 1, 2, 3)
        assert "Traceback" not in err
        for text in (out, err):
            found = _ACTING.search(text)
            assert found is None, (argv[:2], text[max(0, found.start() - 60) : found.start() + 20])
            if (
                argv[0] != "query" and PAYLOAD not in argv
            ):  # a table shows the lines of a cell, an error those of its user
                assert not re.search(r"^\s*PWNED", text, re.MULTILINE), argv[:2]
        tried.add(argv[0])
    makes = {"run", "ingest", "analyze", "nightly", "synth", "shell"}
    assert tried | makes == set(cli.COMMANDS)


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_an_answer_on_a_terminal_has_no_escapes(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    sql = "SELECT DISTINCT name, [name] AS listed FROM events WHERE run = 'kineto' ORDER BY name LIMIT 5"

    assert cli.main(["query", sql, "--format", form, "--store", store.url]) == 0

    out, _ = capsys.readouterr()
    assert "pwned" in out
    assert _ACTING.search(out) is None


def test_an_answer_in_json_is_json_whatever_its_texts_hold(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    sql = (
        "SELECT 'a\u2028b\u0085c' || chr(11) || chr(28) || '\"\\' || chr(10) AS a, 1 AS n"
        " UNION ALL SELECT 'z', 2 ORDER BY n"
    )

    assert cli.main(["query", sql, "--format", "json", "--store", store.url]) == 0

    assert json.loads(capsys.readouterr().out) == [
        {"a": 'a\u2028b\u0085c\x0b\x1c"\\\n', "n": 1}, {"a": "z", "n": 2},
    ]  # fmt: skip


def test_an_answer_in_csv_has_no_formula_and_every_row(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    sql = (
        "SELECT * FROM (VALUES ('=1+1', 1), ('+1-2', 2), ('-2', 3), ('-1.5e-3', 4), ('@SUM(A1)', 5),"
        " (chr(9) || '=1', 6), ('a=1', 7), (NULL, 8), ('-2+3|x', 9), ('＝1', 10)) t(\"=a\", n) ORDER BY n"
    )

    assert cli.main(["query", sql, "--format", "csv", "--store", store.url]) == 0

    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["'=a", "n"], ["'=1+1", "1"], ["'+1-2", "2"], ["-2", "3"], ["-1.5e-3", "4"], ["'@SUM(A1)", "5"], ["'\t=1", "6"],
        ["a=1", "7"], ["", "8"], ["'-2+3|x", "9"], ["'＝1", "10"],
    ]  # fmt: skip


def test_a_csv_without_rows_quotes_its_header(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    sql = 'SELECT 1 AS "a,b", 2 AS "=c" WHERE FALSE'

    assert cli.main(["query", sql, "--format", "csv", "--store", store.url]) == 0

    assert capsys.readouterr().out == '"a,b",\'=c\n'


def test_every_text_of_the_store_comes_back_from_csv_as_it_was_or_with_a_quote_before_it(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with Session(store) as session:
        for view in ("dumps", "ranks", "kernels", "flight_records"):
            answer = session.sql(f"SELECT * FROM {view} ORDER BY ALL")
            n_rows, columns = len(answer.fetchall()), answer.columns
            print_answer(session, answer, "csv", limit=1)
            rows = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))
            assert len(rows) == n_rows + 1, view
            assert rows[0] == columns
            assert {len(row) for row in rows} == {len(columns)}
            assert not any(cell.startswith(("=", "@", "\t", "+")) for row in rows for cell in row)


def test_a_page_has_no_element_and_no_attribute_of_a_text(pages: dict[str, Path], tmp_path: Path) -> None:
    for name, path in pages.items():
        html = path.read_text(encoding="utf-8")
        assert name in (JOB, OTHER) or PAYLOAD[:20] in BeautifulSoup(html, "html.parser").get_text(), name
        for parser in ("html.parser",):
            soup = BeautifulSoup(html, parser)
            assert not soup.find_all(["img", "svg", "iframe", "object", "embed", "form", "pwned", "textarea"]), name
            assert len(soup.find_all("title")) == len(soup.find_all("style")) == 1, name
            assert {str(s.get("type")) for s in soup.find_all("script")} <= {"None", "application/json"}
            for script in soup.find_all("script"):
                assert "<!--" not in (script.string or "") or "pwned" not in (script.string or ""), name
            for node in soup.find_all(True):
                for key, value in node.attrs.items():
                    assert re.fullmatch(r"[a-z-]+", key) and not key.startswith("on"), (name, node.name, key)
                    if "pwned" in str(value):
                        assert key in {"title", "aria-label", "value", "data-name"}, (name, node.name, key)


def test_nothing_in_a_page_can_act_in_an_editor_or_a_terminal(pages: dict[str, Path]) -> None:
    for name, path in pages.items():
        found = _ACTING.search(path.read_text(encoding="utf-8"))
        assert found is None, (name, found)


@pytest.mark.browser
@pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "a browser is here")
def test_a_page_opened_and_pointed_at_runs_nothing(window: Browser, pages: dict[str, Path]) -> None:
    for path in pages.values():
        window.log()
        window.requests()
        window.open(path)
        window.js(_POINT_AT_EVERYTHING)
        assert window.js("return String(window.pwned)") == "undefined"
        assert window.js("return document.documentElement.dataset.errors ?? 0") == 0
        assert window.log() == []
        assert window.requests() == [path.resolve().as_uri()]


_POINT_AT_EVERYTHING = """
for (const node of document.querySelectorAll('.chart canvas, .chart svg')) {
  const box = node.getBoundingClientRect();
  for (let n = 0; n < 400; n++) {
    const at = { clientX: box.left + box.width * (n % 20 + .5) / 20, clientY: box.top + box.height * (n / 400) };
    for (const kind of ['pointermove', 'mousemove', 'pointerover', 'mouseover'])
      node.dispatchEvent(new MouseEvent(kind, { bubbles: true, view: window, ...at }));
  }
}
for (const node of document.querySelectorAll('details')) node.open = true;
for (const node of document.querySelectorAll('th, td, summary, input')) { node.click(); node.focus(); }
"""


def test_a_night_over_such_dumps_leaves_files_that_parse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    payloads.write_kineto(root / "kineto")
    (root / "kineto" / "run.toml").write_text(payloads.config(), encoding="utf-8")
    (root / "bad").mkdir()
    (root / "bad" / "rank0.json").write_text(PAYLOAD, encoding="utf-8")
    (root / "odd").mkdir()
    payloads.write_nsys(root / "odd" / "in")
    (root / "odd" / "run.toml").write_text(f"[{json.dumps(PAYLOAD.replace(chr(0x9B), ''))}]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nightly, "_pause", lambda seconds: None)
    monkeypatch.setattr(options.Work, "runner", _inline)

    code = cli.main(["nightly", "root", "-o", "out", "--settle", "0s", "--store", str(tmp_path / "store")])

    out, err = capsys.readouterr()
    assert code == 3  # a gate of run.toml fails
    assert _ACTING.search(out + err) is None
    verdict = json.loads(Path("out", "verdict.json").read_text(encoding="utf-8"))
    assert {r["run"]: r["status"] for r in verdict["runs"]} == {"bad": "failed", "kineto": "changed", "odd": "failed"}
    suites = ElementTree.parse(Path("out", "junit.xml"))  # noqa: S314  our own
    assert {node.tag for node in suites.iter()} <= {
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
        "error",
        "skipped",
    }
    for page in Path("out").rglob("*.html"):
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        assert not soup.find_all(["img", "svg", "pwned"])
        assert all(str(a["href"]).startswith(("runs/", "compare/", "#", "data:,")) for a in soup.find_all(href=True))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "root", "store"]
    assert {p.name for p in Path("out").iterdir()} <= {"index.html", "runs", "compare", "verdict.json", "junit.xml"}


def _inline(self: Any, what: str) -> Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]:
    return lambda task, tasks: [task(t) for t in tasks]


def test_a_run_is_never_named_by_a_text_of_a_dump(store: Store) -> None:
    assert sorted(os.listdir(store.path("runs"))) == sorted(RUNS)  # noqa: PTH208
    assert all(re.fullmatch(r"[A-Za-z0-9._+=@/-]*", str(p.relative_to(store.url))) for p in Path(store.url).rglob("*"))
