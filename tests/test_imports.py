"""Modules import those of their own level or below, never up, and each does only what its level may."""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "pipeline" / "longpole"

LEVELS = (
    {"errors", "events", "config", "units", "text"},
    {
        *("catalog", "session", "store", "remote", "lock", "topology", "formats", "discover", "engine", "cluster"),
        *("owner", "scratch"),
        *("chrome_trace", "timelines", "flights", "telemetry", "presets", "plan", "whatif", "night", "retention"),
    },
    {"report", "export", "timeline_trace", "analyze", "ingest", "synth"},
    {"cli", "api", "__main__"},
)
"""Parts of longpole from the ground up; a part is a module, or a folder with all its modules."""

LEVEL_OF = {part: level for level, parts in enumerate(LEVELS) for part in parts}

FILES = sorted(SOURCE.rglob("*.py"))
EVERY_FILE = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))


def module_of(path: Path) -> str:
    """Return the module's name below longpole; empty for the package itself."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def part_of(module: str) -> str:
    return module.split(".")[0]


MODULES = {module_of(path): path for path in FILES}


def imports(path: Path, *, deep: bool = True) -> Iterator[str]:
    """Yield the full names of what a file imports; those within functions only where `deep`."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if deep or not isinstance(node, ast.FunctionDef):
            pending += ast.iter_child_nodes(node)


def own_modules(path: Path, *, deep: bool = True) -> set[str]:
    """Return the modules of longpole that a file imports."""
    names = {name.removeprefix("longpole.") for name in imports(path, deep=deep) if name.startswith("longpole.")}
    return {name for name in names if name in MODULES} - {module_of(path)}


def test_every_part_has_a_level() -> None:
    assert {part_of(m) for m in MODULES} - {""} == LEVEL_OF.keys()


@EVERY_FILE
def test_no_module_imports_from_above(path: Path) -> None:
    module = module_of(path)
    if not module:
        assert own_modules(path) == set()
        return
    level = LEVEL_OF[part_of(module)]
    assert {m for m in own_modules(path) if LEVEL_OF[part_of(m)] > level} == set()


@pytest.mark.parametrize("part", sorted(LEVELS[2]))
def test_ingest_analysis_report_and_synth_do_not_know_each_other(part: str) -> None:
    known = {part_of(m) for module, path in MODULES.items() if part_of(module) == part for m in own_modules(path)}
    assert known & LEVELS[2] <= {part}


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: own_modules(path, deep=False) for module, path in MODULES.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("errors") < order.index("store") < order.index("session") < order.index("cli.query")


@EVERY_FILE
def test_pandas_is_not_needed(path: Path) -> None:
    assert not [name for name in imports(path) if name.split(".")[0] == "pandas"]
    attributes = {n.attr for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Attribute)}
    assert not attributes & {"to_pandas", "df", "fetchdf"}


@EVERY_FILE
def test_dask_stands_in_one_module(path: Path) -> None:
    found = [name for name in imports(path) if name.split(".")[0] in ("dask", "distributed")]
    assert bool(found) == (module_of(path) == "cluster")


@EVERY_FILE
def test_only_the_command_line_prints_or_ends_the_process(path: Path) -> None:
    if part_of(module_of(path)) in LEVELS[3]:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not called & {"print", "exit", "quit", "input"}
    assert not [name for name in imports(path) if name in ("sys.exit", "sys.stdout", "sys.stderr", "rich.print")]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in ("stdout", "stderr", "exit")]


@EVERY_FILE
def test_nothing_in_a_dump_can_run(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not called & {"eval", "exec", "compile", "__import__"}
    refused = {"pickle", "marshal", "shelve"} | ({"subprocess"} if part_of(module_of(path)) != "cli" else set())
    assert not {name.split(".")[0] for name in imports(path)} & refused


@EVERY_FILE
def test_a_module_says_its_idea(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_command_that_draws_nothing_loads_nothing_that_draws(command: str) -> None:
    code = (
        "import json, sys\n"
        "from longpole import cli\n"
        f"cli.make_app({command!r})\n"
        "print(json.dumps(sorted({'altair', 'jinja2', 'polars', 'vl_convert'} & sys.modules.keys())))"
    )

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert json.loads(told.stdout) == []
