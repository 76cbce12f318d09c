"""`longpole compare` and its page as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longpole import cli
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("cli-compare") / "store")
    for name in ("worked", "worked-contended"):
        make_run(Store(url), name, [FIXTURES / name])
    return url


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_compare_tells_the_verdict_first(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "compare", "worked", "worked-contended", "--store", store)

    assert (code, err) == (0, "")
    assert out.startswith("worked-contended is slower than worked: a median step of 780.0 ms beside 750.0 ms, +30.0 ms")
    assert len(out.splitlines()) == 10


def test_json_is_one_object(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "compare", "worked", "worked-contended", "--store", store, "--format", "json")

    assert code == 0
    assert json.loads(out)["change_ns"] == 30_000_000


def test_the_page_is_written_with_its_baseline(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"

    code, out, err = call(
        capsys,
        "report",
        "worked-contended",
        "--kind",
        "compare",
        "--baseline",
        "worked",
        "-o",
        str(page),
        "--store",
        store,
    )

    assert (code, out, err) == (0, "", f"wrote {page}\n")
    assert "<title>longpole compare: worked-contended and worked</title>" in page.read_text()


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        (["compare", "worked", "worked"], 2, "'worked' is both runs"),
        (["compare", "worked", "nothing"], 1, "nothing"),
        (["report", "worked", "--kind", "compare"], 2, "Name it with --baseline."),
        (["report", "worked", "--baseline", "worked-contended"], 2, "ask for --kind compare"),
    ],
)
def test_what_cannot_be_compared_is_said_with_a_cure(
    store: str, argv: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = call(capsys, *argv, "--store", store)

    assert (found, out) == (code, "")
    assert told in err
