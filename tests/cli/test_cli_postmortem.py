"""`longpole report --kind postmortem` as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from longpole import cli
from longpole.store import Store
from pipeline_inline import make_run

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with the worked example."""
    url = str(tmp_path_factory.mktemp("cli-postmortem") / "store")
    make_run(Store(url), "worked", [FIXTURES / "worked"])
    return url


def _call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = cli.main(["report", "worked", *argv])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "shown"),
    [((), [10]), (("--step", "12"), [12]), (("--steps", "11:13"), [11, 12, 13]), (("--steps", "12:"), [12, 13])],
)
def test_a_post_mortem_is_written_of_the_steps_asked_for(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], shown: list[int]
) -> None:
    target = tmp_path / "page.html"
    code, err = _call(capsys, "--kind", "postmortem", "--store", store, "-o", str(target), *options)
    assert (code, err) == (0, f"wrote {target}\n")
    html = target.read_text()
    assert [step for step in range(10, 14) if f'id="step-{step}-timeline"' in html] == shown


def test_without_a_path_it_is_named_after_the_run_and_the_kind(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _call(capsys, "--kind", "postmortem", "--store", store)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["worked-postmortem.html"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--kind", "postmortem", "--step", "99"), 1, "run 'worked' has no step 99"),
        (("--kind", "postmortem", "--step", "-1"), 2, "--step -1 is no step's number"),
        (("--kind", "postmortem", "--steps", "13:11"), 2, "'13:11' is no range of steps"),
        (("--kind", "postmortem", "--step", "11", "--steps", "11:12"), 2, "--step and --steps say the same twice"),
        (("--step", "11"), 2, "a page of kind overview is of all steps"),
    ],
)
def test_steps_that_are_not_there_and_options_that_make_no_sense_are_errors_in_words(
    store: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    target = tmp_path / "page.html"
    found, err = _call(capsys, "--store", store, "-o", str(target), *options)
    assert (found, said in err) == (code, True)
    assert "Traceback" not in err
    assert not target.exists()
