"""The shipped SQL: find each relation, read its header, order relations by what they read.

A relation is one file: a header that says what a row is and what each column means, then a bare SELECT whose
relation name is the file's. Nothing declares the order; it follows from the tables each SELECT names.
"""

from __future__ import annotations

import csv
import functools
import graphlib
import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal, get_args

import duckdb

Scope = Literal[
    "lib",
    "dump",
    "rank",
    "clock",
    "steps",
    "path",
    "paths",
    "run",
    "mfu",
    "measures",
    "elements",
    "medians",
    "graph",
    "predict",
    "replay",
    "priced",
    "ops",
    "timeline",
    "replays",
    "workers",
    "whatif",
    "flight",
    "hang",
    "timers",
    "telemetry",
    "sampled",
    "fleet",
    "page",
    "check",
]
"""What one evaluation of a relation sees: one dump, one rank, a sample of every rank, a range of steps, a run, all.

From path to paths the critical path's names: one rank, a range of steps. mfu alone sees what run.toml says of model
and batch; measures follows from it and all others. From elements to replay a what-if: one rank, a range of steps, one
rank's graph, the run's; priced what follows from it. From ops to whatif an op timeline: the file, all its ops, a range
of steps, all steps, all answers. flight is one rank's flight recorder, hang those of all ranks; timers one timers log,
telemetry one file of samples, sampled one rank's windows beside all samples.
"""

LEVELS: dict[str, tuple[Scope, ...]] = {
    "lib": ("lib",),
    "rank": ("dump", "rank", "path", "elements", "graph", "ops", "flight", "timers", "telemetry", "sampled"),
    "run": (
        *("clock", "steps", "paths", "run", "mfu", "measures", "medians", "predict", "replay", "priced"),
        *("timeline", "replays", "workers", "whatif", "hang"),
    ),
    "fleet": ("fleet",),
    "pages": ("page",),
    "checks": ("check",),
}
"""The scopes that may stand in each folder of sql/."""

_COLUMN = re.compile(r"^-- (\w+|\"\w+\")\s+([A-Z][A-Z0-9_]*(?:\(\d+, ?\d+\))?(?:\[\])?)\s+(\S.*)$")

_MACRO = "-- Macro: "

_PARAMETER = re.compile(r"^-- \$(\w+)\s+([A-Z]+) = (\S+)\s+(\S.*)$")


@dataclass(frozen=True)
class Column:
    """One column as the header documents it."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Relation:
    """One file of sql/: `name` is the file's stem, `sql` the bare SELECT without its header."""

    name: str
    folder: str
    scope: Scope
    grain: str
    columns: tuple[Column, ...]
    how: str
    order: str  # what its stored rows are sorted by: a total order
    is_view: bool  # read once, so not worth a table of its own
    is_sorted: bool  # its rows nearly always come in that order
    sql: str
    reads: frozenset[str]
    table: str  # what its rows are stored as: its own name, but where kinds of runs answer the same differently

    @property
    def is_recursive(self) -> bool:
        """Whether it goes round until nothing new comes."""
        return self.sql.startswith("WITH RECURSIVE")

    @property
    def is_private(self) -> bool:
        """Whether it is a step on the way, never stored and never shown."""
        return self.name.startswith("_")


@dataclass(frozen=True)
class Macro:
    """Arithmetic of sql/lib that relations share: `name` called with its parameters stands for the expression `sql`."""

    name: str
    meaning: str
    parameters: tuple[Column, ...]
    returns: Column
    how: str
    sql: str

    def is_called_by(self, relation: Relation) -> bool:
        """Whether the relation's SQL calls it."""
        return f"{self.name}(" in relation.sql


@dataclass(frozen=True)
class Parameter:
    """What a recipe may be told: `$name` of its SELECT; `default` is text that casts to `type`, None for NULL."""

    name: str
    type: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class Recipe:
    """One file of sql/recipes: a question people ask, and the SELECT over public views that answers it."""

    name: str
    question: str
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    when_empty: str  # where there are no rows; empty where a run always has some
    text: str  # the whole file, to read or to change
    sql: str
    reads: frozenset[str]


@functools.cache
def relations() -> dict[str, Relation]:
    """Return every shipped relation that has a scope of its own, by name.

    Raises:
        ValueError: Two files share a name, or a header is wrong; a defect of the package, caught by its tests.
    """
    found: dict[str, Relation] = {}
    con = duckdb.connect()
    for folder in LEVELS:
        for name, text in _texts(folder):
            if folder == "lib" and text.startswith(_MACRO):
                continue
            if name in found:
                raise ValueError(f"two relations are named {name}")
            found[name] = parse(name, folder, text, con)
    return found


@functools.cache
def macros() -> dict[str, Macro]:
    """Return every shipped macro, by name.

    Raises:
        ValueError: A header or a body is wrong; a defect of the package, caught by its tests.
    """
    con = duckdb.connect()
    return {name: parse_macro(name, text, con) for name, text in _texts("lib") if text.startswith(_MACRO)}


@functools.cache
def recipes() -> dict[str, Recipe]:
    """Return every shipped question, by name.

    Raises:
        ValueError: A header is wrong; a defect of the package, caught by its tests.
    """
    con = duckdb.connect()
    return {name: parse_recipe(name, text, con) for name, text in _texts("recipes")}


def parse_recipe(name: str, text: str, con: duckdb.DuckDBPyConnection) -> Recipe:
    """Return the question that `text` asks.

    Raises:
        ValueError: The header lacks its question or has another line, or the SELECT does not parse.
    """
    file = f"recipes/{name}.sql"
    header, sql = _split(text)
    if not header or not header[0].startswith("-- ") or not header[0].endswith("?"):
        raise ValueError(f"{file}: the first line must be a question")
    parameters: list[Parameter] = []
    columns: list[Column] = []
    when_empty = ""
    for line in header[1:]:
        if match := _PARAMETER.match(line):
            parameters.append(Parameter(match[1], match[2], None if match[3] == "NULL" else match[3], match[4]))
        elif match := _COLUMN.match(line):
            columns.append(Column(match[1].strip('"'), match[2], match[3].strip()))
        elif line.startswith("-- Empty: "):
            when_empty = line.removeprefix("-- Empty: ").strip()
        else:
            raise ValueError(f"{file}: not a header line: {line}")
    question = header[0].removeprefix("-- ")
    return Recipe(name, question, tuple(parameters), tuple(columns), when_empty, text, sql, _reads(con, sql, file))


def parse(name: str, folder: str, text: str, con: duckdb.DuckDBPyConnection) -> Relation:
    """Return the relation that `text` defines.

    Raises:
        ValueError: The header lacks its grain or scope, or the SELECT does not parse.
    """
    file = f"{folder}/{name}.sql"
    header, sql = _split(text)
    if not header or not header[0].startswith("-- One row"):
        raise ValueError(f"{file}: the first line must say what one row is")
    columns: list[Column] = []
    how: list[str] = []
    scope = ""
    order = "ALL"
    table = name
    is_view = "-- As: view" in header
    is_sorted = "-- As: sorted" in header
    for line in header[1:]:
        if line.startswith("-- Scope: "):
            scope = line.removeprefix("-- Scope: ").strip()
        elif line in ("-- As: view", "-- As: sorted"):
            continue
        elif line.startswith("-- Table: "):
            table = line.removeprefix("-- Table: ").strip()
        elif line.startswith("-- Order: "):
            order = line.removeprefix("-- Order: ").strip()
        elif line.startswith("-- How: ") or how:
            how.append(line.removeprefix("-- How: ").removeprefix("--").strip())
        elif match := _COLUMN.match(line):
            columns.append(Column(match[1].strip('"'), match[2], match[3].strip()))
        elif line.startswith("--     ") and columns:
            last = columns[-1]
            columns[-1] = Column(last.name, last.type, f"{last.meaning} {line[2:].strip()}")
        elif line.strip() != "--":
            raise ValueError(f"{file}: not a header line: {line}")
    if not scope and folder == "pages":
        scope = "page"
    if scope not in get_args(Scope) or scope not in LEVELS[folder]:
        raise ValueError(f"{file}: scope {scope!r} does not belong in {folder}/")
    if is_sorted and order == "ALL":
        raise ValueError(f"{file}: rows that come sorted need the columns of their order")
    grain = header[0].removeprefix("-- ").strip()
    return Relation(
        name,
        folder,
        scope,
        grain,
        tuple(columns),
        " ".join(how).strip(),
        order,
        is_view,
        is_sorted,
        sql,
        _reads(con, sql, file),
        table,
    )


def parse_macro(name: str, text: str, con: duckdb.DuckDBPyConnection) -> Macro:
    """Return the macro that `text` defines.

    Raises:
        ValueError: The header does not say what it returns or has another line, or the body does not parse or names a
            table: what a relation reads is found in its own SELECT.
    """
    file = f"lib/{name}.sql"
    header, sql = _split(text)
    parameters: list[Column] = []
    returns: Column | None = None
    how: list[str] = []
    for line in header[1:]:
        match = _COLUMN.match(line.replace("-- Returns:", f"-- {name}"))
        if line.startswith("-- How: ") or how:
            how.append(line.removeprefix("-- How: ").removeprefix("--").strip())
        elif match and line.startswith("-- Returns: "):
            returns = Column(match[1], match[2], match[3])
        elif match:
            parameters.append(Column(match[1], match[2], match[3]))
        elif line.strip() != "--":
            raise ValueError(f"{file}: not a header line: {line}")
    if returns is None:
        raise ValueError(f"{file}: the header must say what it returns")
    if tables := _reads(con, f"SELECT {sql}", file):
        raise ValueError(f"{file} must name no table: {', '.join(sorted(tables))}")
    meaning = header[0].removeprefix(_MACRO)
    return Macro(name, meaning, tuple(parameters), returns, " ".join(how), sql)


def ordered(scopes: Iterable[Scope]) -> list[Relation]:
    """Return the relations of these scopes, each after what it reads.

    Raises:
        ValueError: They read each other in a circle; names the loop.
    """
    return _sorted({r.name: r for r in relations().values() if r.scope in set(scopes)})


def _sorted(chosen: dict[str, Relation]) -> list[Relation]:
    graph = {name: sorted(r.reads & chosen.keys()) for name, r in sorted(chosen.items())}
    try:
        return [chosen[name] for name in graphlib.TopologicalSorter(graph).static_order()]
    except graphlib.CycleError as error:
        raise ValueError(f"relations read each other in a circle: {' -> '.join(error.args[1])}") from error


def needed(scope: Scope, given: Iterable[str]) -> list[Relation]:
    """Return the relations of `scope` and all that they read, short of what is `given`, each after what it reads."""
    return leading_to([r.name for r in relations().values() if r.scope == scope], given)


def leading_to(names: Iterable[str], given: Iterable[str]) -> list[Relation]:
    """Return these relations and all that they read, short of what is `given`, each after what it reads."""
    known = relations()
    given = set(given)
    wanted: dict[str, Relation] = {}
    queue = list(names)
    while queue:
        name = queue.pop()
        if name in given or name in wanted or name not in known:
            continue
        wanted[name] = known[name]
        queue += sorted(known[name].reads)
    return [r for r in _sorted(known) if r.name in wanted]


def page_query(name: str) -> str:
    """Return the SELECT of one page query of sql/pages."""
    relation = relations()[name]
    if relation.scope != "page":
        raise KeyError(name)
    return relation.sql


@functools.cache
def data(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of sql/data/NAME.csv, every value as text."""
    text = files("longpole.sql").joinpath("data", f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(io.StringIO(text)))


def load_data(con: duckdb.DuckDBPyConnection, name: str, extra: Iterable[dict[str, str]] = ()) -> None:
    """Make the table NAME of sql/data/NAME.csv, with `extra` rows of the same columns behind its own."""
    rows = [*data(name), *extra]
    columns = list(data(name)[0])
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({', '.join(f'{c} VARCHAR' for c in columns)})")
    places = ", ".join(f"({', '.join('?' * len(columns))})" for _ in rows)
    con.execute(f"INSERT INTO {name} VALUES {places}", [row[c] for row in rows for c in columns])


def load_data_of(con: duckdb.DuckDBPyConnection, relations: Iterable[Relation]) -> None:
    """Make the tables of sql/data that these relations read."""
    for name in sorted({n for r in relations for n in r.reads} & set(data_names())):
        load_data(con, name)


def load_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Make every macro in the connection's database: relations and page queries call them."""
    for macro in macros().values():
        parameters = ", ".join(p.name for p in macro.parameters)
        con.execute(f"CREATE OR REPLACE MACRO {macro.name}({parameters}) AS (\n{macro.sql}\n)")


def data_names() -> list[str]:
    """Return the names of the tables of sql/data, sorted: every relation of any scope may read them."""
    return sorted(e.name.removesuffix(".csv") for e in _folder("data") if e.name.endswith(".csv"))


@functools.cache
def fingerprint(*scopes: Scope) -> str:
    """Return a hash of the SQL of these scopes, its macros and all data: what other SQL made is made anew."""
    digest = hashlib.sha256()
    chosen = ordered(("lib", *scopes))
    for macro in macros().values():
        if any(map(macro.is_called_by, chosen)):
            digest.update(f"{macro.name}\0{[p.name for p in macro.parameters]}\0{macro.sql}\0".encode())
    for relation in chosen:
        digest.update(f"{relation.name}\0{relation.sql}\0".encode())
    for entry in sorted(_folder("data"), key=lambda e: e.name):
        if entry.name.endswith(".csv"):
            digest.update(f"{entry.name}\0".encode() + entry.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _folder(name: str) -> list[Traversable]:
    folder = files("longpole.sql").joinpath(name)
    return list(folder.iterdir()) if folder.is_dir() else []


def _texts(folder: str) -> list[tuple[str, str]]:
    """Return the names and the texts of a folder's SQL files, sorted."""
    entries = sorted((e for e in _folder(folder) if e.name.endswith(".sql")), key=lambda e: e.name)
    return [(e.name.removesuffix(".sql"), e.read_text(encoding="utf-8")) for e in entries]


def _split(text: str) -> tuple[list[str], str]:
    """Return a file's header, line by line, and the SQL below it."""
    lines = text.splitlines()
    n_header = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return lines[:n_header], "\n".join(lines[n_header:]).strip()


def _reads(con: duckdb.DuckDBPyConnection, sql: str, file: str) -> frozenset[str]:
    """Return the tables the SELECT names, its own CTEs left out."""
    row = con.execute("SELECT json_serialize_sql($1)", [sql]).fetchone()
    assert row is not None
    tree: dict[str, Any] = json.loads(row[0])
    if tree["error"]:
        raise ValueError(f"{file} does not parse: {tree.get('error_message', sql[:80])}")
    if len(tree["statements"]) != 1 or sql.endswith(";"):
        raise ValueError(f"{file} must hold one SELECT and no semicolon")
    tables: set[str] = set()
    ctes: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                tables.add(node["table_name"])
            for entry in (node.get("cte_map") or {}).get("map", []):
                ctes.add(entry["key"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(tree)
    return frozenset(tables - ctes)
