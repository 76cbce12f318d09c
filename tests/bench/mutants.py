"""Mutants of the shipped SQL: how many of them some test catches.

Run as `python tests/bench/mutants.py [--mutants 200] [--seed 1] [--processes 2] [NAME ...]`. A mutant is one
relation or macro with one change: a predicate dropped, a comparison flipped or moved by its bound, AND for OR, min for
max, a FILTER or a DISTINCT gone, a LEFT join made INNER, plus for minus. What does not bind is no mutant.

All of them are evaluated where tests/test_known_rows.py evaluates the relation, in its place and on what it reads.
Mutants with other rows than the shipped relation, an error or an answer that never comes are caught by that test. Of
the others `--mutants` are drawn, and each runs in a process of its own in which the catalogue holds it, on the test
files that evaluate its relation, or one that calls its macro, the quickest first. It is caught where a test fails, and
fails once more when it is run alone, or where all take three times what they take with the shipped SQL and a minute
more. Each is printed with what was changed and what it failed; some survivors mean the same as what is shipped.

What a survivor costs is all its test files, minutes of them: `--patience` seconds, by what they take with the shipped
SQL, are spent on one at most. More might have caught it, so the share that is printed is the least that is caught.

Which files evaluate which relation is found first, by running each once with the shipped SQL; a file that fails then is
left out and named.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import duckdb
import pytest

from known_rows import evaluate, summary_of
from known_runs import RUNS
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

OUTCOMES = ("caught", "too slow", "survived", "untested", "unclear", "unbound")

CAUGHT = ("caught", "too slow")

MOST_S = 15
"""Seconds that the mutants of one relation may take in one known run; a mutant of many waits for the next run then."""

UNBOUND = ("BinderException", "ParserException", "Binder Error", "Parser Error")

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
    """What became of a mutant, one of `OUTCOMES`, and by what: the test that fails and its words."""

    mutant: Mutant
    outcome: str
    by: str = ""


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


class _FirstFailure:
    """A pytest plugin that keeps the first test that failed, and with what words."""

    def __init__(self) -> None:
        self.test = self.words = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid
            crash = getattr(report.longrepr, "reprcrash", None)
            self.words = " ".join((crash.message if crash else str(report.longrepr)).split())[:300]


def _pytest(tests: Sequence[str], limit_s: int, folder: Path) -> tuple[int, _FirstFailure]:
    """Run tests in this process, which then is a group of its own, and return pytest's exit status.

    Their output goes to a file of `folder`, and what they write to folders in it.
    """
    os.setpgid(0, 0)
    os.dup2(os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(1, 2)
    signal.alarm(limit_s)  # ends the process: no test waits for it
    # Hypothesis' examples are the same each time, and none is kept of one mutant for the next.
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not browser and not slow"]
    failure = _FirstFailure()
    places = ["--rootdir", str(TESTS.parent), "--basetemp", str(folder / "tmp")]
    return int(pytest.main([*options, *places, *tests], plugins=[failure])), failure


def _probe(file: str, folder: Path) -> None:
    for name, relation in list(catalog.relations().items()):
        seen = copy.copy(relation)
        object.__setattr__(seen, "__class__", _Seen)
        catalog.relations()[name] = seen
    setattr(catalog, "fingerprint", lambda *scopes: "mutants")  # noqa: B010
    start = time.monotonic()
    status, _ = _pytest([file], 600, folder)
    (folder / "result.json").write_text(json.dumps([status, time.monotonic() - start, sorted(_Seen.names)]))


def _try(mutant: Mutant, files: Sequence[str], limit_s: int, folder: Path) -> None:
    of: dict[str, Any] = catalog.macros() if mutant.name in catalog.macros() else catalog.relations()
    of[mutant.name] = replace(of[mutant.name], sql=mutant.sql)
    status, failure = _pytest(files, limit_s, folder)
    (folder / "failure.json").write_text(json.dumps([failure.test, failure.words]))
    sys.exit(status)


def _forked(target: Callable[..., None], *args: Any) -> int:
    """Run a function in a fork and return how it ended; nothing it started lives on."""
    process = multiprocessing.get_context("fork").Process(target=target, args=args)
    process.start()
    process.join()
    assert process.pid is not None
    assert process.exitcode is not None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.exitcode


def _judged(mutant: Mutant, files: Sequence[str], takes_s: float) -> Verdict:
    """Return what becomes of a mutant on test files that take `takes_s` seconds with the shipped SQL."""
    limit_s = 60 + int(3 * takes_s)
    tests = files
    test = words = ""
    for _ in range(2):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            status = _forked(_try, mutant, tests, limit_s, Path(folder))
            if status == -signal.SIGALRM:
                return Verdict(mutant, "too slow")
            if status == pytest.ExitCode.OK:
                return Verdict(mutant, "survived", test and f"though once {test} failed: {words}")
            if status != pytest.ExitCode.TESTS_FAILED:
                output = (Path(folder) / "output.txt").read_text(errors="replace")
                return Verdict(mutant, "unclear", f"ended with {status}: {output[-300:]}")
            test, words = json.loads((Path(folder) / "failure.json").read_text())
        if any(error in words for error in UNBOUND):
            return Verdict(mutant, "unbound", words)
        tests = [test]
    return Verdict(mutant, "caught", f"{test}: {words}")


def _on_known_runs(mutants: Sequence[Mutant], n_processes: int, kept: Path | None) -> dict[Mutant, Verdict]:
    """Return the mutants whose rows of a known run are not the shipped relation's, and those that do not bind.

    Args:
        kept: Has what is found after each run, and is gone on from.
    """
    found: dict[Mutant, Verdict] = {}
    done: list[str] = []
    if kept is not None and kept.exists():
        of_texts = {(m.name, m.sql): m for m in mutants}
        done, before = json.loads(kept.read_text())
        judged_before = [(of_texts.get((name, sql)), outcome, by) for name, sql, outcome, by in before]
        found = {m: Verdict(m, outcome, by) for m, outcome, by in judged_before if m is not None}

    for run in RUNS:
        if run in done:
            continue

        def judged(part: int, run: str = run) -> list[Verdict]:
            return _on_a_run(run, [m for m in mutants[part::n_processes] if m not in found])

        n_before = len(found)
        for verdicts in _as_done(range(n_processes), n_processes, judged):
            found.update({v.mutant: v for v in verdicts})
        print(f"{run}: {len(found) - n_before} more, {len(mutants) - len(found)} left", flush=True)
        done.append(run)
        if kept is not None:
            kept.write_text(json.dumps([done, [[m.name, m.sql, v.outcome, v.by] for m, v in found.items()]]))
    return found


def _on_a_run(run: str, mutants: Sequence[Mutant]) -> list[Verdict]:
    """Return those that are caught or do not bind where a known run evaluates their relation."""
    left: dict[str, deque[Mutant]] = defaultdict(deque)
    for mutant in mutants:
        left[mutant.name].append(mutant)
    spent_s: dict[str, float] = defaultdict(float)
    verdicts: list[Verdict] = []
    clock = _Clock()

    def told(con: duckdb.DuckDBPyConnection, relation: Relation, select: str) -> None:
        alike = left[relation.name]
        if not alike or spent_s[relation.name] > MOST_S:
            return
        start = time.monotonic()
        shipped = summary_of(con, relation.sql, relation)
        takes_s = time.monotonic() - start
        for _ in range(len(alike)):
            if spent_s[relation.name] + time.monotonic() - start > MOST_S:
                break
            mutant = alike.popleft()
            verdict = _rows_of(con, mutant, relation, shipped, clock, 5 + 20 * takes_s)
            if verdict is None:
                alike.append(mutant)  # those not tried come first at its next evaluation
            else:
                verdicts.append(replace(verdict, by=f"test_known_rows.py {run}: {verdict.by}"))
        spent_s[relation.name] += time.monotonic() - start

    evaluate(run, told)
    return verdicts


def _rows_of(
    con: duckdb.DuckDBPyConnection,
    mutant: Mutant,
    relation: Relation,
    shipped: tuple[int, int],
    clock: _Clock,
    limit_s: float,
) -> Verdict | None:
    try:
        with clock.interrupting(con, limit_s):
            rows = summary_of(con, mutant.sql, relation)
    except duckdb.InterruptException:
        return Verdict(mutant, "too slow")
    except (duckdb.BinderException, duckdb.ParserException) as error:
        return Verdict(mutant, "unbound", str(error)[:200])
    except duckdb.Error as error:
        return Verdict(mutant, "caught", str(error)[:200])
    return None if rows == shipped else Verdict(mutant, "caught", f"{shipped} -> {rows}")


class _Clock:
    """Interrupts a query that takes too long."""

    def __init__(self) -> None:
        self._running: tuple[float, duckdb.DuckDBPyConnection] | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(0.5)
            running = self._running
            if running is not None and time.monotonic() > running[0]:
                running[1].interrupt()

    @contextlib.contextmanager
    def interrupting(self, con: duckdb.DuckDBPyConnection, limit_s: float) -> Iterator[None]:
        self._running = time.monotonic() + limit_s, con
        try:
            yield
        finally:
            self._running = None


def _as_done(tasks: Sequence[Any], n_processes: int, work: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield what `work` returns of each task, as it is done; each is called in a fork of this thread.

    A fork of one thread of several would inherit the locks that the others hold.
    """
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(tasks))
    running: dict[Connection, Any] = {}
    while waiting or running:
        while waiting and len(running) < n_processes:
            here, there = context.Pipe(duplex=False)
            running[here] = context.Process(target=_send, args=(work, waiting.pop(), there))
            running[here].start()
            there.close()
        for done in [here for here in wait(list(running)) if isinstance(here, Connection)]:
            yield done.recv()
            running.pop(done).join()


def _send(work: Callable[[Any], Any], task: Any, there: Connection) -> None:
    there.send(work(task))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--patience", type=float, default=600)
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--map", type=Path, help="keeps which files evaluate what, for the next time")
    parser.add_argument("--known", type=Path, help="keeps which have other rows of known runs, likewise")
    told = parser.parse_args(arguments)
    macros = catalog.macros().values()
    all_of: list[Relation | Macro] = [*macros, *(r for r in catalog.relations().values() if r.folder in FOLDERS)]
    chosen = [r for r in all_of if not told.names or r.name in told.names]

    con = duckdb.connect()
    of_relations = [mutants_of(r, con) for r in chosen]
    con.close()
    every = [mutant for mutants in of_relations for mutant in mutants]
    known = _on_known_runs(every, told.processes, told.known)
    n_mutants = len(every) - sum(v.outcome == "unbound" for v in known.values())
    n_caught = sum(v.outcome in CAUGHT for v in known.values())
    print(f"{100 * n_caught / n_mutants:.1f} % of {n_mutants} have other rows of known runs", flush=True)
    _print_by_kind(list(known.values()))
    left = [[m for m in mutants if m not in known] for mutants in of_relations]
    drawn = _drawn(left, told.mutants, random.Random(told.seed))  # noqa: S311 - the same mutants again, not secrets
    if not drawn:
        return 0

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

    def judged(mutant: Mutant) -> Verdict:
        files, takes_s = _within(told.patience, sorted(readers.get(mutant.name, [])))
        return _judged(mutant, files, takes_s) if files else Verdict(mutant, "untested")

    verdicts = []
    for verdict in _as_done(drawn, told.processes, judged):
        verdicts.append(verdict)
        print(f"{verdict.outcome}: {verdict.mutant.name}: {verdict.mutant.change}\n    {verdict.by}", flush=True)
    _print_by_kind(verdicts)
    n_drawn = sum(v.outcome != "unbound" for v in verdicts)
    share = sum(v.outcome in CAUGHT for v in verdicts) / max(1, n_drawn)
    print(f"{100 * share:.1f} % of {n_drawn} of the {n_mutants - n_caught} others are caught by other tests")
    print(f"{100 * (n_caught + share * (n_mutants - n_caught)) / n_mutants:.1f} % of all, so drawn, are caught")
    return 0


def _print_by_kind(verdicts: Sequence[Verdict]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.mutant.kind][verdict.outcome] += 1
    print(f"{'mutants':20}" + "".join(f"{o:>10}" for o in OUTCOMES))
    for kind, found in [*sorted(counts.items()), ("all", sum(counts.values(), Counter[str]()))]:
        print(f"{kind:20}" + "".join(f"{found[o]:10}" for o in OUTCOMES), flush=True)


def _readers(names: Sequence[str], n_processes: int) -> dict[str, list[tuple[float, str]]]:
    """Return for each relation the test files that evaluate it, with the seconds they take."""
    places = [TESTS / name for name in names]
    files = [str(f) for p in places for f in (sorted(p.rglob("test_*.py")) if p.is_dir() else [p])]
    readers: dict[str, list[tuple[float, str]]] = defaultdict(list)

    def probed(file: str) -> tuple[str, int, list[Any]]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            status = _forked(_probe, file, Path(folder))
            out = Path(folder) / "result.json"
            return file, status, json.loads(out.read_text()) if out.exists() else []

    for file, status, result in _as_done(files, n_processes, probed):
        if not result:
            print(f"left out, ended with {status}: {file}", flush=True)
            continue
        failed, seconds, seen = result
        if failed:
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
    chance.shuffle(shuffled)
    rounds = [m[place] for place in range(max(map(len, shuffled))) for m in shuffled if place < len(m)]
    return rounds[:n]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
