"""Mutants of the shipped SQL: how many of them some test catches.

Run as `python tests/bench/mutants.py [--mutants 200] [--seed 1] [--processes 2] [NAME ...]`. A mutant is one
relation or macro with one change: a predicate dropped, a comparison flipped or moved by its bound, AND for OR, min for
max, a FILTER or a DISTINCT gone, a LEFT join made INNER, plus for minus. Each runs in a process of its own in which the
catalogue holds the mutant, on the test files that evaluate its relation, or one that calls its macro, the quickest
first. It is caught where a test fails, or where all take three times what they take with the shipped SQL and a minute
more. Survivors are printed with what was changed; some mean the same as what is shipped.

What a survivor costs is all its test files, minutes of them: `--patience` seconds, by what they take with the shipped
SQL, are spent on one at most. More might have caught it, so the share that is printed is the least that is caught.

Which files evaluate which relation is found first, by running each once with the shipped SQL; a file that fails then is
left out and named.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longpole import catalog
from longpole.catalog import Macro, Relation

TESTS = Path(__file__).parents[1]

FILES = (
    "sql",
    "test_worked_examples.py",
    "test_path_answers.py",
    "test_mesh_answers.py",
    "test_straggler_answers.py",
    "test_pipeline_stages.py",
    "test_compare_answers.py",
    "test_mfu_runs.py",
    "test_hangs.py",
    "test_flights_beside_kernels.py",
    "test_telemetry_answers.py",
    "test_timers_answers.py",
    "test_export.py",
    "test_timeline_tasks.py",
    "test_analyze.py",
    "test_night.py",
    "test_recipes.py",
    "report",
    "real",
)
"""Tests that evaluate SQL in their own process, where a mutant can stand."""

FOLDERS = ("lib", "rank", "run", "fleet", "checks")

NEXT = {
    "COMPARE_EQUAL": "COMPARE_NOTEQUAL",
    "COMPARE_NOTEQUAL": "COMPARE_EQUAL",
    "COMPARE_LESSTHAN": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHAN": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_GREATERTHAN",
}
OPPOSITE = {
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}
FUNCTIONS = {
    **{"min": "max", "max": "min", "least": "greatest", "greatest": "least"},
    **{"arg_min": "arg_max", "arg_max": "arg_min", "+": "-", "-": "+", "bool_or": "bool_and", "bool_and": "bool_or"},
}

Node = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    """One relation or macro with one change; `change` says which, in SQL."""

    name: str
    kind: str
    change: str
    sql: str


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: caught by a failing test or by its time, survived, or untested."""

    mutant: Mutant
    outcome: str
    seconds: float


class _Seen(Relation):
    """A relation that notes whose SQL was asked for."""

    names: set[str] = set()  # noqa: RUF012

    def __getattribute__(self, name: str) -> Any:
        if name == "sql":
            _Seen.names.add(object.__getattribute__(self, "name"))
        return object.__getattribute__(self, name)


def mutants_of(shared: Relation | Macro, con: duckdb.DuckDBPyConnection) -> list[Mutant]:
    """Return every mutant of a relation or a macro, in the order of its SQL."""
    before = "SELECT " if isinstance(shared, Macro) else ""
    row = con.execute("SELECT json_serialize_sql($1)", [before + shared.sql]).fetchone()
    assert row is not None
    tree: Node = json.loads(row[0])
    found: list[Mutant] = []

    def written() -> str:
        text = con.execute("SELECT json_deserialize_sql($1)", [json.dumps(tree)]).fetchone()
        assert text is not None
        return str(text[0]).removeprefix(before)

    shipped = written()
    for kind, change in _changes(tree):
        undo = change()
        sql = written()
        undo()
        found.append(Mutant(shared.name, kind, _difference(shipped, sql), sql))
    return found


Change = tuple[str, Callable[[], Callable[[], None]]]


def _changes(node: Any) -> Iterator[Change]:
    """Yield each change of a tree: its kind, and what makes it and returns how to undo it."""
    if isinstance(node, list):
        for value in node:
            yield from _changes(value)
        return
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
        for place, child in enumerate(node["children"]):
            rest = [c for c in node["children"] if c is not child]
            if len(rest) > 1:
                yield "predicate dropped", _set(node, "children", rest)
            elif place < 2:
                yield "predicate dropped", _become(node, rest[0])
        other = "CONJUNCTION_OR" if kind == "CONJUNCTION_AND" else "CONJUNCTION_AND"
        yield "and for or", _set(node, "type", other)
    if kind in NEXT:
        yield "bound moved" if kind in OPPOSITE else "comparison flipped", _set(node, "type", NEXT[kind])
    if kind in OPPOSITE:
        yield "comparison flipped", _set(node, "type", OPPOSITE[kind])
    for clause in ("where_clause", "having", "qualify"):
        if isinstance(node.get(clause), dict) and not node[clause]["type"].startswith("CONJUNCTION"):
            yield "predicate dropped", _set(node, clause, None)
    if kind == "FUNCTION":
        name = node["function_name"]
        if name in FUNCTIONS and not (name in "+-" and len(node["arguments"]) < 2):
            yield "other function", _rename(node, FUNCTIONS[name])
        if isinstance(node.get("filter"), dict):
            yield "filter dropped", _set(node, "filter", None)
        if node.get("distinct"):
            yield "distinct dropped", _set(node, "distinct", False)
    if kind == "JOIN" and node.get("join_type") == "LEFT":
        yield "inner join", _set(node, "join_type", "INNER")
    for value in list(node.values()):
        yield from _changes(value)


def _difference(shipped: str, mutant: str) -> str:
    """Return what was changed into what, with some text before and behind it."""
    start = _alike(shipped, mutant)
    same = _alike(shipped[start:][::-1], mutant[start:][::-1])
    old, new = (text[start : len(text) - same] for text in (shipped, mutant))
    return f"{shipped[max(0, start - 60) : start]}[{old} -> {new}]{shipped[len(shipped) - same :][:60]}"


def _alike(one: str, other: str) -> int:
    """Return how many of their first characters are the same."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _set(node: Node, key: str, value: Any) -> Callable[[], Callable[[], None]]:
    def change() -> Callable[[], None]:
        old = node[key]
        node[key] = value
        return lambda: node.__setitem__(key, old)

    return change


def _become(node: Node, other: Node) -> Callable[[], Callable[[], None]]:
    def change() -> Callable[[], None]:
        old = dict(node)
        node.clear()
        node.update(other)

        def undo() -> None:
            node.clear()
            node.update(old)

        return undo

    return change


def _rename(node: Node, name: str) -> Callable[[], Callable[[], None]]:
    def change() -> Callable[[], None]:
        old = node["function_name"], copy.deepcopy(node.get("qualified_name"))
        node["function_name"] = name
        if node.get("qualified_name"):
            node["qualified_name"]["path"][-1] = name

        def undo() -> None:
            node["function_name"] = old[0]
            if old[1] is not None:
                node["qualified_name"] = old[1]

        return undo

    return change


def _pytest(files: Sequence[str], limit_s: int) -> int:
    """Run test files in this process, its output thrown away, and return pytest's exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    signal.alarm(limit_s)  # ends the process: no test waits for it
    # Hypothesis' examples are the same each time, and none is kept of one mutant for the next.
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not browser and not slow"]
    return int(pytest.main([*options, "--rootdir", str(TESTS.parent), *files]))


def _probe(file: str, out: Path) -> None:
    for name, relation in list(catalog.relations().items()):
        seen = copy.copy(relation)
        object.__setattr__(seen, "__class__", _Seen)
        catalog.relations()[name] = seen
    setattr(catalog, "fingerprint", lambda *scopes: "mutants")  # noqa: B010
    start = time.monotonic()
    status = _pytest([file], 600)
    out.write_text(json.dumps([status, time.monotonic() - start, sorted(_Seen.names)]))


def _try(mutant: Mutant, files: Sequence[str], limit_s: int) -> None:
    of: dict[str, Any] = catalog.macros() if mutant.name in catalog.macros() else catalog.relations()
    of[mutant.name] = replace(of[mutant.name], sql=mutant.sql)
    sys.exit(_pytest(files, limit_s))


def _forked(target: Callable[..., None], *args: Any) -> tuple[int, float]:
    """Run a function in a fork and return how it ended and after how many seconds."""
    process = multiprocessing.get_context("fork").Process(target=target, args=args)
    start = time.monotonic()
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode, time.monotonic() - start


def _as_done(tasks: Sequence[Any], n_processes: int, work: Callable[[Any], Any]) -> Iterator[Any]:
    with ThreadPoolExecutor(n_processes) as pool:
        yield from (done.result() for done in as_completed(pool.submit(work, task) for task in tasks))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--patience", type=float, default=600)
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--map", type=Path, help="keeps which files evaluate what, for the next time")
    told = parser.parse_args(arguments)
    macros = catalog.macros().values()
    all_of: list[Relation | Macro] = [*macros, *(r for r in catalog.relations().values() if r.folder in FOLDERS)]
    chosen = [r for r in all_of if not told.names or r.name in told.names]

    if told.map and told.map.exists():
        readers: dict[str, list[tuple[float, str]]] = json.loads(told.map.read_text())
    else:
        readers = _readers(told.files, told.processes)
        if told.map:
            told.map.write_text(json.dumps(readers))
    for macro in macros:
        callers = [r.name for r in filter(macro.is_called_by, catalog.relations().values())]
        of_callers = {file: (s, file) for name in callers for s, file in readers.get(name, [])}
        readers[macro.name] = [(0.0, str(TESTS / "sql" / "test_macros.py")), *of_callers.values()]
    con = duckdb.connect()
    drawn = _drawn([mutants_of(r, con) for r in chosen], told.mutants, random.Random(told.seed))  # noqa: S311 - the same mutants again, not secrets
    con.close()

    def judged(mutant: Mutant) -> Verdict:
        files, takes_s = _within(told.patience, sorted(readers.get(mutant.name, [])))
        if not files:
            return Verdict(mutant, "untested", 0.0)
        status, seconds = _forked(_try, mutant, files, 60 + int(3 * takes_s))
        outcome = {0: "survived", -signal.SIGALRM: "too slow"}.get(status, "caught")
        return Verdict(mutant, outcome, seconds)

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in _as_done(drawn, told.processes, judged):
        counts[verdict.mutant.kind][verdict.outcome] += 1
        if verdict.outcome != "caught":
            print(f"{verdict.outcome}: {verdict.mutant.name} {verdict.mutant.change}", flush=True)
    outcomes = ("caught", "too slow", "survived", "untested")
    print(f"{'mutants':20}" + "".join(f"{o:>10}" for o in outcomes))
    for kind, found in sorted(counts.items()):
        print(f"{kind:20}" + "".join(f"{found[o]:10}" for o in outcomes))
    total = sum(counts.values(), Counter[str]())
    print(f"{'all':20}" + "".join(f"{total[o]:10}" for o in outcomes))
    print(f"{100 * (total['caught'] + total['too slow']) / max(1, total.total()):.1f} % caught")
    return 0


def _readers(names: Sequence[str], n_processes: int) -> dict[str, list[tuple[float, str]]]:
    """Return for each relation the test files that evaluate it, with the seconds they take."""
    places = [TESTS / name for name in names]
    files = [str(f) for p in places for f in (sorted(p.rglob("test_*.py")) if p.is_dir() else [p])]
    readers: dict[str, list[tuple[float, str]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:

        def probed(place: int) -> tuple[str, Path, int]:
            out = Path(folder) / f"{place}.json"
            return files[place], out, _forked(_probe, files[place], out)[0]

        for file, out, status in _as_done(range(len(files)), n_processes, probed):
            if not out.exists():
                print(f"left out, ended with {status}: {file}", flush=True)
                continue
            result, seconds, seen = json.loads(out.read_text())
            if result:
                print(f"left out, its tests fail or are none: {file}", flush=True)
                continue
            for relation in seen:
                readers[relation].append((seconds, file))
    return readers


def _within(patience_s: float, known: Sequence[tuple[float, str]]) -> tuple[list[str], float]:
    """Return the quickest files that take no longer together, at least one, and what they take."""
    files: list[str] = []
    total = 0.0
    for seconds, file in known:
        if files and total + seconds > patience_s:
            break
        files.append(file)
        total += seconds
    return files, total


def _drawn(of_relations: Sequence[Sequence[Mutant]], n: int, chance: random.Random) -> list[Mutant]:
    """Return `n` mutants, as many of each relation as of the next as far as it has them."""
    shuffled = [chance.sample(list(mutants), len(mutants)) for mutants in of_relations]
    rounds = [m[place] for place in range(max(map(len, shuffled))) for m in shuffled if place < len(m)]
    return rounds[:n]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
