"""The shipped dumps are what `longpole.synth` makes today, and small."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def _make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fixtures_make", FIXTURES / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_making_them_again_changes_nothing(tmp_path: Path) -> None:
    copy = shutil.copytree(FIXTURES, tmp_path / "fixtures", ignore=shutil.ignore_patterns("__pycache__"))

    assert _make().main(copy) == []


def test_a_changed_fixture_is_put_right_and_a_stray_one_removed(tmp_path: Path) -> None:
    copy = shutil.copytree(FIXTURES, tmp_path / "fixtures", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "cpu" / "truth.json").write_text("{}")
    (copy / "cpu" / "stray.json").write_text("{}")

    assert _make().main(copy) == [copy / "cpu" / "truth.json", copy / "cpu" / "stray.json"]
    assert (copy / "cpu" / "truth.json").read_text() == (FIXTURES / "cpu" / "truth.json").read_text()
    assert not (copy / "cpu" / "stray.json").exists()


def test_they_are_five_runs_in_less_than_a_megabyte() -> None:
    files = [path for path in FIXTURES.rglob("*") if path.is_file() and "__pycache__" not in path.parts]

    assert sorted(path.name for path in FIXTURES.iterdir() if path.is_dir() and path.name != "__pycache__") == [
        "cpu",
        "idle-causes",
        "worked",
        "worked-contended",
        "worked-late-input",
    ]
    assert sum(path.stat().st_size for path in files) < 1_000_000
