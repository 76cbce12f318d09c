"""What is installed is what stands in the tree: no folder forgotten, no file too many."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
import tomllib
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import longpole

ROOT = Path(__file__).parents[1]

SHIPPED = {"pipeline/longpole": "longpole", "sql": "longpole.sql", "reports": "longpole.reports"}
"""Folders that make the package, and the names they have in it."""

BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def shipped_files() -> dict[str, Path]:
    """Return the files that a checkout would have, by the path they have in a wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SHIPPED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    found: dict[str, Path] = {}
    for name in filter(None, listed.stdout.split("\0")):
        top = next(t for t in SHIPPED if name.startswith(f"{t}/"))
        if (ROOT / name).is_file():  # one that is deleted and not yet committed is listed too
            found[SHIPPED[top].replace(".", "/") + name.removeprefix(top)] = ROOT / name
    return found


def test_every_folder_that_ships_is_declared(project: dict[str, Any]) -> None:
    found = {str(Path(path).parent).replace("/", ".") for path in shipped_files()}
    assert set(project["tool"]["setuptools"]["packages"]) == found
    assert len(project["tool"]["setuptools"]["packages"]) == len(found)


def test_every_file_that_ships_is_found_where_programs_look_for_it() -> None:
    for path in shipped_files():
        package, _, name = path.rpartition("/")
        top = next(
            n
            for n in sorted(SHIPPED.values(), key=len, reverse=True)
            if f"{package}/".startswith(n.replace(".", "/") + "/")
        )
        inside = f"{package}/{name}".removeprefix(top.replace(".", "/") + "/")
        assert files(top).joinpath(inside).is_file(), path


def test_folders_of_data_hold_no_python_but_a_docstring() -> None:
    for path, source in shipped_files().items():
        if path.endswith(".py") and path.startswith(("longpole/sql/", "longpole/reports/")):
            assert source.name == "__init__.py"
            assert len(source.read_text(encoding="utf-8").splitlines()) == 1


def test_the_version_is_said_once(project: dict[str, Any]) -> None:
    assert importlib.metadata.version("longpole") == longpole.__version__ == project["project"]["version"]


def test_the_command_is_the_function_that_the_script_names(project: dict[str, Any]) -> None:
    assert project["project"]["scripts"] == {"longpole": "longpole.cli:main"}
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="longpole")
    assert callable(script.load())


def test_what_is_imported_is_required(project: dict[str, Any]) -> None:
    required = {r.split(">")[0].split("[")[0] for r in project["project"]["dependencies"]}
    names = {"vl_convert": "vl-convert-python", "yaml": "pyyaml"}
    imported: set[str] = set()
    for path, source in shipped_files().items():
        if path.endswith(".py"):
            for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    imported.add(node.module.split(".")[0])
    outside = {names.get(n, n) for n in imported - set(sys.stdlib_module_names) - {"longpole"}}
    assert outside <= required


def test_a_wheel_holds_every_file_of_the_tree_and_nothing_else(tmp_path: Path) -> None:
    # A build in the tree itself would leave a build/ folder, and a later one would ship what lies in it.
    if int(importlib.metadata.version("setuptools").split(".")[0]) < 77:
        pytest.skip("setuptools 77 or later is not installed: the build would have to fetch it")
    expected = shipped_files()
    copy = tmp_path / "copy"
    for source in [*expected.values(), ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"]:
        target = copy / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    (tmp_path / "wheels").mkdir()
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path / "wheels")], cwd=copy, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    assert wheel.name == f"longpole-{longpole.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        held = {n: archive.read(n) for n in archive.namelist() if ".dist-info/" not in n}
        assert [n for n in archive.namelist() if n.endswith("licenses/LICENSE")]
    assert held.keys() == expected.keys()
    assert [n for n, content in held.items() if content != expected[n].read_bytes()] == []
