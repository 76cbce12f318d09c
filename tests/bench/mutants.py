"""Mutants of the shipped SQL: how many of them some test catches.

Run as `python tests/bench/mutants.py [--processes 2] [--kept FILE] [NAME ...]`. A mutant is one relation or macro with
one change: a predicate dropped, a comparison flipped or moved by its bound, AND for OR, min for max, a FILTER or a
DISTINCT gone, a LEFT join made INNER, plus for minus. What does not bind is no mutant.

Those of relations are evaluated where tests/test_known_rows.py evaluates the relation, in its place and on what it
reads: with other rows than the shipped relation, or an error, a mutant is caught by that test. The others are evaluated
likewise wherever another test evaluates the relation. Each that has other rows in a test, or no answer in time, is held
by the catalogue of a process of its own, which runs that test, `MOST_TESTS` of them at most; what a fixture asked for
counts for the test that comes first. Those of macros run their macro's tests. A mutant is caught where a test fails,
and fails once more when it is run alone, or where they take three times what their whole file takes and a minute more.

The survivors are printed: some mean the same as what is shipped. More tests, or more seconds for the mutants of one
relation (`MOST_S`, `MOST_FILE_S`), might have caught others: the share is the least caught. `--kept` goes on where a
call ended, with what has changed since judged anew.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import hashlib
import json
import multiprocessing
import os
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

from known_rows import Told, evaluate, summary_of, watching
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

OUTCOMES = ("caught", "too slow", "survived", "unclear", "unbound")

CAUGHT = ("caught", "too slow")

SETTLED = (*CAUGHT, "unbound")

OF_MACROS = "test_macros.py"

KNOWN_ROWS = "test_known_rows.py"

MOST_TESTS = 8
"""Tests of a file on which a mutant is run that has other rows in them."""

MOST_S = 15
"""Seconds that the mutants of one relation may take in a known run; a mutant of many waits for the next run then."""

MOST_FILE_S = 240
"""Likewise in a test file, which may be the only one that evaluates it."""

UNBOUND = ("BinderException", "ParserException", "Binder Error", "Parser Error")

Node = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    """One relation or macro with one change; `change` says which, in SQL."""

    name: str
    kind: str
    change: str
    sql: str

    @property
    def key(self) -> str:
        """What stands for its name and SQL where many are kept."""
        return hashlib.sha256(f"{self.name}\n{self.sql}".encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant, one of `OUTCOMES`, and by what: the test that fails and its words."""

    mutant: Mutant
    outcome: str
    by: str = ""


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


class _Running:
    """A pytest plugin that knows which test runs."""

    test = ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid


class _FirstFailure:
    """A pytest plugin that keeps the first test that failed, and with what words."""

    def __init__(self) -> None:
        self.test = self.words = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid
            crash = getattr(report.longrepr, "reprcrash", None)
            self.words = " ".join((crash.message if crash else str(report.longrepr)).split())[:300]


def _pytest(tests: Sequence[str], limit_s: int, folder: Path, *plugins: object) -> tuple[int, _FirstFailure]:
    """Run tests in this process, which then is a group of its own, and return pytest's exit status.

    Their output goes to a file of `folder`, and what they write to folders in it.
    """
    os.setpgid(0, 0)
    os.dup2(os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(1, 2)
    signal.alarm(limit_s)  # ends the process: no test waits for it
    # Hypothesis' examples are the same each time, and none is kept of one mutant for the next.
    options = [] if plugins else ["-x"]
    options += ["-q", "-n0", "-p", "no:cacheprovider", "-m", "not browser and not slow"]
    failure = _FirstFailure()
    places = ["--rootdir", str(TESTS.parent), "--basetemp", str(folder / "tmp")]
    return int(pytest.main([*options, *places, *tests], plugins=[failure, *plugins])), failure


def _watch(file: str, mutants: Sequence[Mutant], folder: Path) -> None:
    """Write in which tests of a file each mutant has other rows, and how many seconds the file takes."""
    tests: dict[int, list[str]] = defaultdict(list)
    spent_s: dict[str, float] = defaultdict(float)
    running = _Running()
    place_of = {mutant: place for place, mutant in enumerate(mutants)}

    def differs(verdict: Verdict) -> bool:
        of_mutant = tests[place_of[verdict.mutant]]
        if running.test not in of_mutant:
            of_mutant.append(running.test)
        return len(of_mutant) == MOST_TESTS

    start = time.monotonic()
    with watching(_told_of(mutants, differs, MOST_FILE_S, spent_s)):
        status, _ = _pytest([file], 1800, folder, running)
    takes_s = time.monotonic() - start - sum(spent_s.values())
    (folder / "result.json").write_text(json.dumps([status, takes_s, sorted(tests.items())]))


def _try(mutant: Mutant, tests: Sequence[str], limit_s: int, folder: Path) -> None:
    of: dict[str, Any] = catalog.macros() if mutant.name in catalog.macros() else catalog.relations()
    of[mutant.name] = replace(of[mutant.name], sql=mutant.sql)
    status, failure = _pytest(tests, limit_s, folder)
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


def _judged(mutant: Mutant, tests: Sequence[str], takes_s: float) -> Verdict:
    """Return what becomes of a mutant on tests of a file that takes `takes_s` seconds with the shipped SQL."""
    limit_s = 60 + int(3 * takes_s)
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


def _on_a_run(run: str, mutants: Sequence[Mutant]) -> list[Verdict]:
    """Return those that are caught or do not bind where a known run evaluates their relation."""
    verdicts: list[Verdict] = []

    def differs(verdict: Verdict) -> bool:
        if verdict.outcome == "too slow":
            return True  # the test of known rows would wait for it
        verdicts.append(replace(verdict, by=f"{KNOWN_ROWS} {run}: {verdict.by}"))
        return True

    evaluate(run, _told_of(mutants, differs, MOST_S, defaultdict(float)))
    return verdicts


def _told_of(
    mutants: Sequence[Mutant], differs: Callable[[Verdict], bool], most_s: float, spent_s: dict[str, float]
) -> Told:
    """Return what evaluates the mutants of each relation that it is told of, beside it.

    Args:
        differs: Is called with each that has other rows there, and says whether it is done with.
        most_s: Seconds for the mutants of one relation, all its evaluations together.
        spent_s: Has what those of each have taken, 0 at first.
    """
    left: dict[str, deque[Mutant]] = defaultdict(deque)
    for mutant in mutants:
        left[mutant.name].append(mutant)
    clock = _Clock()

    def told(con: duckdb.DuckDBPyConnection, relation: Relation, select: str) -> None:
        alike = left[relation.name]
        if not alike or spent_s[relation.name] > most_s:
            return
        start = time.monotonic()
        shipped = summary_of(con, relation.sql, relation)
        takes_s = time.monotonic() - start
        for _ in range(len(alike)):
            if spent_s[relation.name] + time.monotonic() - start > most_s:
                break
            mutant = alike.popleft()
            verdict = _rows_of(con, mutant, relation, shipped, clock, 5 + 20 * takes_s)
            if verdict is None or not differs(verdict):
                alike.append(mutant)  # those not tried come first at its next evaluation
        spent_s[relation.name] += time.monotonic() - start

    return told


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
        self._lock = threading.Lock()  # what runs after a query is not interrupted in its place
        self._running: tuple[float, duckdb.DuckDBPyConnection] | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(0.5)
            with self._lock:
                if self._running is not None and time.monotonic() > self._running[0]:
                    self._running[1].interrupt()

    @contextlib.contextmanager
    def interrupting(self, con: duckdb.DuckDBPyConnection, limit_s: float) -> Iterator[None]:
        self._running = time.monotonic() + limit_s, con
        try:
            yield
        finally:
            with self._lock:
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


def _on_a_file(file: str, mutants: Sequence[Mutant], n_processes: int) -> list[Verdict] | None:
    """Return what becomes of those that have other rows in some test of a file, or whose macro it tests.

    None: the file is left out, for its tests fail.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        status = _forked(_watch, file, mutants, Path(folder))
        if status or not (Path(folder) / "result.json").exists():
            print(f"left out, ended with {status}: {file}", flush=True)
            return None
        failed, takes_s, places = json.loads((Path(folder) / "result.json").read_text())
    if failed:
        print(f"left out, its tests fail or are none: {file}", flush=True)
        return None
    tests_of = {mutants[place]: tests for place, tests in places}
    if Path(file).name == OF_MACROS:
        tests_of |= {m: [file] for m in mutants if m.name in catalog.macros()}

    def judged(mutant: Mutant) -> Verdict:
        verdict = _judged(mutant, tests_of[mutant], takes_s)
        what = "passes" if mutant.name in catalog.macros() else "has other rows in"
        return verdict if verdict.by else replace(verdict, by=f"{what} {tests_of[mutant][0]}")

    return list(_as_done(list(tests_of), n_processes, judged))


class _Kept:
    """Verdicts and what they are of, in a file that a later call goes on from; in memory where there is none."""

    def __init__(self, path: Path | None, mutants: Sequence[Mutant]) -> None:
        self._path = path
        self._mutants = mutants
        self._done: dict[str, set[str]] = {}  # by known run or file, the keys of the mutants it judged
        self._fates: dict[str, tuple[str, str]] = {}  # by key, outcome and by what
        if path is not None and path.exists():
            done, fates = json.loads(path.read_text())
            self._done = {unit: set(keys) for unit, keys in done.items()}
            self._fates = {key: (outcome, by) for key, (outcome, by) in fates.items()}

    def left(self, unit: str) -> list[Mutant]:
        """Return the mutants that are not settled and that a known run or a file has not judged."""
        done = self._done.get(unit, set())
        return [m for m in self._mutants if m.key not in done and self.verdict(m).outcome not in SETTLED]

    def verdict(self, mutant: Mutant) -> Verdict:
        return Verdict(mutant, *self._fates.get(mutant.key, ("survived", "no test has other rows of it")))

    def add(self, unit: str, judged: Sequence[Mutant], verdicts: Sequence[Verdict]) -> None:
        """Keep what a known run or a test file says of those that it judged."""
        self._done.setdefault(unit, set()).update(m.key for m in judged)
        self._fates |= {v.mutant.key: (v.outcome, v.by) for v in verdicts}
        n_settled = sum(v.outcome in SETTLED for v in verdicts)
        print(f"{unit}: {n_settled} more of {len(verdicts)} with other rows", flush=True)
        if self._path is not None:
            done = {unit: sorted(keys) for unit, keys in self._done.items()}
            self._path.write_text(json.dumps([done, self._fates]))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--kept", type=Path, help="keeps what each known run and each file says, and is gone on from")
    told = parser.parse_args(arguments)
    all_of: list[Relation | Macro] = [
        *catalog.macros().values(),
        *(r for r in catalog.relations().values() if r.folder in FOLDERS),
    ]
    con = duckdb.connect()
    mutants = [m for r in all_of if not told.names or r.name in told.names for m in mutants_of(r, con)]
    con.close()

    kept = _Kept(told.kept, mutants)
    for run in RUNS:
        if left := kept.left(run):
            parts = [left[part :: told.processes] for part in range(told.processes)]
            of_parts = _as_done(parts, told.processes, functools.partial(_on_a_run, run))
            kept.add(run, left, [verdict for verdicts in of_parts for verdict in verdicts])
    _print_share("have other rows of known runs", [kept.verdict(m) for m in mutants], KNOWN_ROWS)

    places = [TESTS / name for name in told.files]
    for path in [f for p in places for f in (sorted(p.rglob("test_*.py")) if p.is_dir() else [p])]:
        name = str(path.relative_to(TESTS))
        if left := kept.left(name):
            judged = _on_a_file(str(path), left, told.processes)
            if judged is not None:
                kept.add(name, left, judged)
    verdicts = [kept.verdict(m) for m in mutants]
    for verdict in verdicts:
        if verdict.outcome not in SETTLED:
            print(f"{verdict.outcome}: {verdict.mutant.name}: {verdict.mutant.change}\n    {verdict.by}")
    _print_by_kind(verdicts)
    _print_share("are caught", verdicts)
    return 0


def _print_share(what: str, verdicts: Sequence[Verdict], by: str = "") -> None:
    """Print how many of those that bind are caught, by tests whose name begins so."""
    n_bound = sum(v.outcome != "unbound" for v in verdicts)
    n_caught = sum(v.outcome in CAUGHT and v.by.startswith(by) for v in verdicts)
    print(f"{100 * n_caught / max(1, n_bound):.1f} % of {n_bound} {what}", flush=True)


def _print_by_kind(verdicts: Sequence[Verdict]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.mutant.kind][verdict.outcome] += 1
    print(f"{'mutants':20}" + "".join(f"{o:>10}" for o in OUTCOMES))
    for kind, found in [*sorted(counts.items()), ("all", sum(counts.values(), Counter[str]()))]:
        print(f"{kind:20}" + "".join(f"{found[o]:10}" for o in OUTCOMES), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
