"""The shipped SQL is what its headers say: names, columns, types, order, and who reads whom."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, get_type_hints

import duckdb
import pyarrow as pa
import pytest

from longpole import catalog
from longpole.catalog import Relation, Scope
from longpole.config import Parallel, RunConfig
from longpole.events import RAW_SCHEMA
from longpole.formats.flight_recorder import RAW_FLIGHT
from longpole.formats.op_timeline import RAW_OPS
from longpole.formats.telemetry_csv import RAW_TELEMETRY
from longpole.formats.timers_log import RAW_TIMERS
from longpole.store import DUMP_TABLE

Columns = list[tuple[str, str]]

PHASES: Columns = [("phase", "VARCHAR"), ("pattern", "VARCHAR")]

ROOT = Path(__file__).parents[1]
KNOWN = catalog.relations()
EVERY = pytest.mark.parametrize("name", sorted(KNOWN))
PAGES = pytest.mark.parametrize("name", sorted(n for n, r in KNOWN.items() if r.scope == "page"))
DATA = tuple(sorted(p.stem for p in (ROOT / "sql" / "data").glob("*.csv")))

GIVEN: dict[Scope, set[str]] = {
    "lib": set(),
    "dump": {"raw", "raw_memory", "context", *DATA},
    "rank": {"events", "memory_events", "context", "dump_facts", "phase_patterns", "told_hardware", *DATA},
    "clock": {"dumps", "topology", "parallel", *DATA},
    "steps": {"dumps", "shard"},
    "run": {"dumps", "parallel"},
    "mfu": {"dumps", "run_config", *DATA},
    "path": {"events", "context", "dump_facts", *DATA},
    "elements": {"events", "context", "dump_facts", *DATA},
    "medians": set(),
    "graph": {"events", "context", "dump_facts", "changes", "scenarios", "phase_patterns", *DATA},
    "predict": {"changes", "scenarios"},
    "paths": {"shard"},
    "replay": set(),
    "priced": set(),
    "ops": {"raw_ops"},
    "timeline": {*DATA},
    "replays": {*DATA},
    "workers": set(),
    "whatif": set(),
    "flight": {"raw_flight", "context"},
    "hang": {"flight_ranks", *DATA},
    "timers": {"raw_timers", *DATA},
    "telemetry": {"raw_telemetry", *DATA},
    "sampled": {"context"},
    "measures": {"dumps"},
    "fleet": {"dumps", "told_runs", "told_gates", *DATA},
    "check": {"dumps"},
    "page": {"dumps"},
}
"""Tables that no relation makes, by the scope that is given them."""

_RUN: set[Scope] = {"lib", "rank", "path", "paths", "clock", "steps", "run", "mfu"}
_TIMELINE: set[Scope] = {"ops", "timeline", "replays", "workers", "whatif"}
_FLIGHT: set[Scope] = {"flight", "hang"}
_SAMPLED: set[Scope] = {"telemetry", "sampled"}
_SESSION: set[Scope] = {*_RUN, *_TIMELINE, *_FLIGHT, *_SAMPLED, "priced", "measures", "dump", "fleet"}

BELOW: dict[Scope, set[Scope]] = {
    "lib": set(),
    "dump": {"lib", "dump"},
    "rank": {"lib", "rank"},
    "clock": {"lib", "rank", "clock"},
    "steps": {"lib", "rank", "clock", "steps", "sampled"},
    "run": (_RUN - {"mfu"}) | _SAMPLED,
    "mfu": _RUN,
    "measures": {*_RUN, "measures"},
    "path": {"lib", "rank", "path", "graph", "clock", "steps"},
    "elements": {"lib", "rank", "clock", "graph"},
    "medians": {"elements"},
    "graph": {"lib", "rank", "clock", "path", "graph", "medians"},
    "predict": {"lib", "rank", "clock", "steps", "run", "graph", "predict", "replay"},
    "priced": {"run", "whatif"},
    "paths": {"path", "paths"},
    "replay": {"replay", "predict"},
    "ops": {"lib", "ops"},
    "timeline": {"lib", "ops", "timeline"},
    "replays": {"lib", "ops", "timeline", "replay", "replays", "workers"},
    "workers": {"lib", "ops", "replays", "workers"},
    "whatif": {"lib", "timeline", "replays", "workers", "whatif"},
    "flight": {"lib", "flight"},
    "hang": {"lib", "steps", "flight", "hang"},
    "timers": {"lib", "timers"},
    "telemetry": {"lib", "telemetry"},
    "sampled": {"lib", "rank", "clock", "telemetry", "sampled"},
    "fleet": _SESSION,
    "check": _SESSION,
    "page": {*_SESSION, "predict", "page"},
}
"""Scopes whose relations each scope may read."""

KEYWORDS = {
    *(
        "SELECT",
        "DISTINCT",
        "FROM",
        "WHERE",
        "GROUP",
        "ORDER",
        "BY",
        "HAVING",
        "QUALIFY",
        "LIMIT",
        "WITH",
        "UNION",
        "ALL",
    ),
    *(
        "JOIN",
        "LEFT",
        "INNER",
        "CROSS",
        "ASOF",
        "POSITIONAL",
        "ON",
        "USING",
        "AS",
        "OVER",
        "WINDOW",
        "PARTITION",
        "FILTER",
    ),
    *("CASE", "WHEN", "THEN", "ELSE", "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "EXISTS"),
}


def columns_of(con: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any] | None = None) -> Columns:
    return [(row[0], row[1]) for row in con.execute(f"DESCRIBE {sql}", parameters or {}).fetchall()]


def create(con: duckdb.DuckDBPyConnection, name: str, columns: Columns) -> None:
    listed = ", ".join(f'"{column}" {kind}' for column, kind in columns)
    con.execute(f"CREATE TABLE {name} ({listed})")


def header_of(relation: Relation) -> Columns:
    return [(c.name, c.type) for c in relation.columns]


def arrow_columns(schema: pa.Schema) -> Columns:
    plain = pa.schema([(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in schema])
    con = duckdb.connect()
    con.register("rows", plain.empty_table())
    return columns_of(con, "FROM rows")


def evaluated(scope: Scope, tables: dict[str, Columns]) -> dict[str, Columns]:
    """Return the columns of every relation that `scope` evaluates over these tables, all of them empty."""
    con = duckdb.connect()
    catalog.load_macros(con)
    for name in DATA:
        catalog.load_data(con, name)
    for name, columns in tables.items():
        create(con, name, columns)
    found: dict[str, Columns] = {}
    for relation in catalog.needed(scope, {*tables, *DATA}):
        con.execute(f"CREATE TEMP TABLE {relation.name} AS {relation.sql}")
        assert con.execute(f"FROM {relation.name}").fetchall() is not None
        found[relation.name] = columns_of(con, f"FROM {relation.name}")
    return found


@pytest.fixture(scope="module")
def chain() -> dict[str, Columns]:
    """Return the columns of every relation but the pages' as DuckDB sees them, each level built on the one before."""
    found: dict[str, Columns] = {}

    def made(*scopes: Scope) -> dict[str, Columns]:
        return {n: c for n, c in found.items() if KNOWN[n].scope in scopes and not KNOWN[n].is_private}

    raw = [*arrow_columns(RAW_SCHEMA), ("row_id", "BIGINT")]
    found |= evaluated("lib", {})
    found |= evaluated(
        "dump", {"raw": raw, "raw_memory": raw, "context": [("base_ns", "BIGINT"), ("step_pattern", "VARCHAR")]}
    )
    facts = [("dump_no", "BIGINT"), ("is_truncated", "BOOLEAN"), ("n_dropped", "BIGINT"), ("format", "VARCHAR")]
    rates = ("peak_flops", "hbm_bytes_per_s", "link_bytes_per_s")
    found |= evaluated(
        "rank",
        {
            "events": [("dump_no", "BIGINT"), *found["events"]],
            "memory_events": found["memory_events"],
            "context": [("rank", "INTEGER")],
            "dump_facts": facts,
            "phase_patterns": PHASES,
            "told_hardware": [("device", "VARCHAR"), ("dtype", "VARCHAR"), *((n, "DOUBLE") for n in rates)],
        },
    )
    dumps = arrow_columns(DUMP_TABLE)
    shard = [("first_step", "BIGINT"), ("last_step", "BIGINT")]
    topology = [("rank", "INTEGER"), *((n, "VARCHAR") for n in ("host", "node", "rack", "rail"))]
    parallel = [(n, "BIGINT") for n in get_type_hints(Parallel)]
    found |= evaluated("clock", {**made("rank"), "dumps": dumps, "topology": topology, "parallel": parallel})
    found |= evaluated("telemetry", {"raw_telemetry": arrow_columns(RAW_TELEMETRY)})
    found |= evaluated("sampled", {**made("rank", "clock", "telemetry"), "context": [("rank", "INTEGER")]})
    found |= evaluated("steps", {**made("rank", "clock", "sampled"), "dumps": dumps, "shard": shard})
    given = {"events": [("dump_no", "BIGINT"), *found["events"]], "context": [("rank", "INTEGER")]}
    known = {n: c for n, c in made("clock", "steps").items() if n in ("rank_clocks", "path_pieces")}
    given["dump_facts"] = facts
    intervals = [("point_no", "BIGINT"), ("dump_no", "BIGINT"), ("thread", "BIGINT")]
    intervals += [("start_ns", "BIGINT"), ("end_ns", "BIGINT")]
    found |= evaluated("path", {**known, **given, "_host_intervals": intervals})
    found |= evaluated("elements", {**known, **given})
    found |= evaluated("medians", made("elements"))
    asked = {
        "changes": [
            *(("scenario", "INTEGER"), ("what", "VARCHAR"), ("kind", "VARCHAR"), ("rank", "INTEGER")),
            *(("pattern", "VARCHAR"), ("phase", "VARCHAR"), ("group_id", "VARCHAR"), ("factor", "DOUBLE")),
            ("amount_ns", "BIGINT"),
        ],
        "scenarios": [("scenario", "INTEGER")],
        "phase_patterns": PHASES,
    }
    hosts = {"_path_hosts": found["_path_hosts"]}
    found |= evaluated("graph", {**known, **given, **asked, **hosts, **made("medians")})
    found |= evaluated("paths", {**made("path"), "shard": shard})
    found |= evaluated(
        "run",
        {**made("rank", "clock", "steps", "paths", *_SAMPLED), "dumps": dumps, "parallel": parallel},
    )
    answers = made("rank", "clock", "steps", "paths", "run")
    figures = [(name, kind) for name, kind, _ in RunConfig().figures()]
    found |= evaluated("mfu", {**made("rank", "clock", "steps"), "dumps": dumps, "run_config": figures})
    found |= evaluated("measures", {**answers, **made("mfu"), "dumps": dumps})
    priced = {n: found[n] for n in ("straggler_scenarios", "opportunity_changes")}
    found |= evaluated("predict", {**made("rank", "clock", "steps", "graph"), **asked, **priced})
    edges = [("scenario", "INTEGER"), ("source", "BIGINT"), ("node", "BIGINT"), ("cost_ns", "BIGINT")]
    found |= evaluated("replay", {"replay_edges": edges})
    found |= evaluated("ops", {"raw_ops": arrow_columns(RAW_OPS)})
    found |= evaluated("timeline", made("ops"))
    # A task before knows the workers' scores, or their table is empty: its columns are what the header says.
    scores = {"timeline_workers": header_of(KNOWN["timeline_workers"])}
    found |= evaluated("replays", {**made("ops", "timeline"), **scores, "replay_edges": edges})
    found |= evaluated("workers", made("ops", "replays"))
    found |= evaluated("whatif", made("timeline", "replays", "workers"))
    found |= evaluated("timers", {"raw_timers": arrow_columns(RAW_TIMERS)})
    found |= evaluated("flight", {"raw_flight": arrow_columns(RAW_FLIGHT), "context": [("rank", "INTEGER")]})
    found |= evaluated(
        "hang", {**made("flight"), "flight_ranks": [("rank", "INTEGER")], "collectives": found["collectives"]}
    )
    found |= evaluated("priced", {n: found[n] for n in ("straggler_ranks", "run_whatif")})
    views = session_views(found)
    told = [("run", "VARCHAR"), ("job", "VARCHAR"), ("workload", "VARCHAR"), ("baseline", "VARCHAR")]
    gates = [("run", "VARCHAR"), ("gate", "VARCHAR"), ("threshold", "DOUBLE")]
    found |= evaluated("fleet", {**views, "told_runs": told, "told_gates": gates})
    found |= evaluated("check", {**views, **{n: c for n, c in found.items() if KNOWN[n].scope == "fleet"}})
    return found


def session_views(found: dict[str, Columns]) -> dict[str, Columns]:
    """Return the columns of what a session shows below the fleet: `run` comes first."""
    run = ("run", "VARCHAR")
    views = {
        name: [run, *columns]
        for name, columns in found.items()
        if (
            KNOWN[name].scope
            in (*_TIMELINE, *_FLIGHT, "rank", "path", "paths", "clock", "steps", "run", "priced", "mfu", "measures")
            or name in ("step_replays", "run_opportunities")
        )
        and not KNOWN[name].is_private
        and KNOWN[name].table == name
    }
    of_dumps = {n: [run, ("rank", "INTEGER"), *found[n]] for n in ("events", "memory_events")}
    return {**views, "dumps": [run, *arrow_columns(DUMP_TABLE)], **of_dumps}


def tree_of(sql: str) -> dict[str, Any]:
    row = duckdb.execute("SELECT json_serialize_sql($1)", [sql]).fetchone()
    assert row is not None
    tree: dict[str, Any] = json.loads(row[0])
    return tree


def ctes_of(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*(ctes_of(n) for n in node))
    if not isinstance(node, dict):
        return set()
    own = {entry["key"] for entry in (node.get("cte_map") or {}).get("map", [])}
    return own.union(*(ctes_of(v) for v in node.values()))


def final_selects(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the SELECTs whose rows are the relation's: one, or the sides of a UNION."""
    sides = node.get("children") or [node[side] for side in ("left", "right") if side in node]
    if node["type"] == "SELECT_NODE":
        return [node]
    return [select for side in sides for select in final_selects(side)]


def uncommented(sql: str) -> str:
    return re.sub(r"--[^\n]*|'(?:[^']|'')*'", " ", sql)


def words_of(sql: str) -> set[str]:
    """Return the words of the SELECT, as written, outside comments and quotes."""
    return set(re.findall(r"[A-Za-z_]+", re.sub(r'"[^"]*"', " ", uncommented(sql))))


def test_every_sql_file_is_a_relation_or_a_macro_of_the_catalogue() -> None:
    files = {p.stem: p.parent.name for p in (ROOT / "sql").glob("*/*.sql") if p.parent.name in catalog.LEVELS}
    assert files == {**{n: r.folder for n, r in KNOWN.items()}, **dict.fromkeys(catalog.macros(), "lib")}
    assert not list((ROOT / "sql").glob("*.sql"))
    assert not list((ROOT / "sql").glob("*/*/*.sql"))


def test_two_files_never_share_a_name() -> None:
    stems = [p.stem for p in (ROOT / "sql").rglob("*.sql")]
    assert sorted(stems) == sorted(set(stems))


def test_a_relation_has_no_name_that_is_given_or_that_sql_reserves() -> None:
    words = duckdb.execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'").fetchall()
    assert not {n for n in KNOWN if (n,) in words}
    assert not KNOWN.keys() & (set().union(*GIVEN.values()) - {"events", "memory_events"})


@pytest.mark.parametrize("name", sorted(n for n, r in KNOWN.items() if r.scope != "page"))
def test_the_header_lists_the_columns_the_relation_has(name: str, chain: dict[str, Columns]) -> None:
    assert header_of(KNOWN[name]) == chain[name]


@pytest.mark.parametrize("name", sorted(n for n, r in KNOWN.items() if r.table != n))
def test_what_is_stored_as_another_has_its_columns(name: str, chain: dict[str, Columns]) -> None:
    assert chain[name] == chain[KNOWN[name].table]


@PAGES
def test_the_header_lists_the_columns_the_page_query_has(name: str, chain: dict[str, Columns]) -> None:
    con = duckdb.connect()
    catalog.load_macros(con)
    tables = {**session_views(chain), **{n: c for n, c in chain.items() if KNOWN[n].scope == "fleet"}}
    for table, columns in tables.items():
        create(con, table, columns)
    for relation in catalog.needed("page", tables):
        if relation.scope == "lib":
            con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
    texts = {"run": "one", "baseline": "two", "measure": "idle", "ranges": []}
    wanted = con.extract_statements(KNOWN[name].sql)[0].named_parameters
    given = {p: texts.get(p, 10) for p in wanted}
    assert header_of(KNOWN[name]) == columns_of(con, KNOWN[name].sql, given)


@EVERY
def test_a_header_says_what_a_row_is_and_what_every_column_means(name: str) -> None:
    relation = KNOWN[name]
    assert re.match(r"One row( per .+)?[:,]? .+\.$|One row per .+\.$", relation.grain)
    assert relation.columns
    assert all(c.meaning.endswith((".", ".)", "?")) for c in relation.columns), name


@EVERY
def test_no_cte_has_the_name_of_a_relation(name: str) -> None:
    others = KNOWN.keys() | set().union(*GIVEN.values())
    assert not ctes_of(tree_of(KNOWN[name].sql)) & others


@EVERY
def test_a_relation_reads_its_own_level_and_those_below(name: str) -> None:
    relation = KNOWN[name]
    assert {KNOWN[r].scope for r in relation.reads & KNOWN.keys() - GIVEN[relation.scope]} <= BELOW[relation.scope]


@EVERY
def test_a_relation_reads_relations_and_given_tables_only(name: str) -> None:
    relation = KNOWN[name]
    assert relation.reads <= KNOWN.keys() | GIVEN[relation.scope]


@EVERY
def test_a_private_relation_is_read_in_its_own_folder_only(name: str) -> None:
    relation = KNOWN[name]
    private = {r for r in relation.reads & KNOWN.keys() if KNOWN[r].is_private}
    assert {KNOWN[r].folder for r in private} <= {relation.folder}


@EVERY
def test_the_final_select_names_its_columns(name: str) -> None:
    if name == "events":
        pytest.skip("events lays rows of one shape under each other: FROM linked UNION ALL BY NAME FROM whole")
    selects = final_selects(tree_of(KNOWN[name].sql)["statements"][0]["node"])
    assert selects
    assert "STAR" not in {item["class"] for select in selects for item in select["select_list"]}


@EVERY
def test_keywords_are_in_capitals(name: str) -> None:
    assert not {w for w in words_of(KNOWN[name].sql) if w.upper() in KEYWORDS and w != w.upper()}


@EVERY
def test_a_threshold_is_a_column_of_params(name: str) -> None:
    if KNOWN[name].scope == "lib":
        pytest.skip("this is where thresholds stand, with their reasons")
    numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])", uncommented(KNOWN[name].sql))
    units = {"1e3", "1e6", "1e9"}  # of ns to µs, ms and s, and of parts per billion
    assert max((float(n) for n in numbers if n not in units), default=0) <= 1000


@EVERY
def test_a_relation_runs_as_it_stands_without_a_semicolon_or_a_create(name: str) -> None:
    sql = KNOWN[name].sql
    assert not sql.endswith(";")
    assert [s.type for s in duckdb.extract_statements(sql)] == [duckdb.StatementType.SELECT]


def test_a_macro_is_what_relations_share() -> None:
    macros = catalog.macros().items()
    assert {name for name, macro in macros if sum(map(macro.is_called_by, KNOWN.values())) < 2} == set()


def test_no_relation_brings_an_instant_to_the_runs_clock_by_itself() -> None:
    by_itself = re.compile(r"drift_ppb \* \([^)]*reference_ns\)\s*/ 1e9")
    assert by_itself.search(catalog.macros()["aligned_ns"].sql)
    assert [r.name for r in KNOWN.values() if by_itself.search(r.sql)] == []


def test_relations_come_after_what_they_read() -> None:
    for scopes in (("dump",), ("rank",), ("clock", "steps", "run"), ("fleet", "check")):
        names = [r.name for r in catalog.ordered(scopes)]
        for place, name in enumerate(names):
            assert not KNOWN[name].reads & set(names[place + 1 :])


def test_what_is_given_is_not_made_again() -> None:
    given = {"events", "context", "dump_facts", "phase_patterns", "told_hardware", *DATA}
    names = [r.name for r in catalog.needed("rank", given)]
    assert "events" not in names
    assert names.index("_activities") < names.index("_coverage") < names.index("rank_captures")


def relation(name: str, *reads: str) -> Relation:
    return dataclasses.replace(KNOWN["steps"], name=name, reads=frozenset(reads), sql=f"SELECT 1 AS {name}")


def test_a_circle_is_an_error_that_names_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    circle = {n: relation(n, r) for n, r in (("first", "second"), ("second", "third"), ("third", "first"))}
    monkeypatch.setattr(catalog, "relations", lambda: circle)
    with pytest.raises(ValueError, match="circle") as caught:
        catalog.ordered(["steps"])
    loop = str(caught.value).split(": ")[1].split(" -> ")
    assert len(loop) == 4
    assert set(loop) == {"first", "second", "third"}
    assert loop[0] == loop[-1]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT 1 AS a", "the first line must say what one row is"),
        ("", "the first line must say what one row is"),
        ("-- One row per x.\n--\n-- a BIGINT A.\nSELECT 1 AS a", "scope '' does not belong in rank/"),
        ("-- One row per x.\n-- Scope: fleet\nSELECT 1 AS a", "scope 'fleet' does not belong in rank/"),
        ("-- One row per x.\n-- Scope: rank\nSELEC 1 AS a", "does not parse: syntax error at or near"),
        ("-- One row per x.\n-- Scope: rank\nCREATE TABLE t AS SELECT 1", "does not parse: Only SELECT"),
        ("-- One row per x.\n-- Scope: rank\nSELECT 1 AS a; SELECT 2 AS a", "must hold one SELECT and no semicolon"),
        ("-- One row per x.\n-- Scope: rank\nSELECT 1 AS a;", "must hold one SELECT and no semicolon"),
        ("-- One row per x.\n-- Scope: rank\n", "must hold one SELECT and no semicolon"),
        ("-- One row per x.\n-- a bigint A.\n-- Scope: rank\nSELECT 1 AS a", "not a header line: -- a bigint A."),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)) as caught:
        catalog.parse("wrong", "rank", text, duckdb.connect())
    assert str(caught.value).startswith("rank/wrong.sql")


def test_a_header_is_read_as_written() -> None:
    text = (
        "-- One row per thing: what it is.\n--\n-- a         BIGINT  First, in words\n--     that go on.\n"
        '-- "check"   VARCHAR[]  A word that SQL reserves.\n-- c DECIMAL(23,3) Third.\n--\n-- Scope: run\n'
        "-- How: first this,\n-- then that.\nWITH t AS (SELECT * FROM steps) SELECT 1 AS a FROM t, ranks"
    )
    made = catalog.parse("thing", "run", text, duckdb.connect())
    assert [(c.name, c.type, c.meaning) for c in made.columns] == [
        ("a", "BIGINT", "First, in words that go on."),
        ("check", "VARCHAR[]", "A word that SQL reserves."),
        ("c", "DECIMAL(23,3)", "Third."),
    ]
    assert made.grain == "One row per thing: what it is."
    assert made.how == "first this, then that."
    assert made.reads == {"steps", "ranks"}
    assert made.sql.startswith("WITH t AS")


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("FROM a", {"a"}),
        ("SELECT * FROM a ASOF JOIN b ON a.x >= b.x", {"a", "b"}),
        ("SELECT * FROM a WHERE EXISTS (FROM b) AND x IN (SELECT x FROM c)", {"a", "b", "c"}),
        ("WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r, a) FROM r", {"a"}),
        ("WITH w AS (WITH v AS (FROM a) FROM v) SELECT (SELECT max(x) FROM b) FROM w", {"a", "b"}),
        ("SELECT * FROM a POSITIONAL JOIN main.b", {"a", "b"}),
    ],
)
def test_what_a_relation_reads_is_found_wherever_it_stands(sql: str, reads: set[str]) -> None:
    made = catalog.parse("r", "rank", f"-- One row.\n-- Scope: rank\n{sql}", duckdb.connect())
    assert made.reads == reads


def test_rows_of_a_run_come_behind_those_of_the_data() -> None:
    con = duckdb.connect()
    catalog.load_data(con, "comm_patterns", [{"pattern": "^mine$", "library": "run.toml"}])
    rows = con.execute("FROM comm_patterns").fetchall()
    assert rows[-1] == ("^mine$", "run.toml")
    assert len(rows) == 1 + len(catalog.data("comm_patterns"))


@pytest.mark.parametrize("name", DATA)
def test_every_row_of_data_has_every_value(name: str) -> None:
    rows = catalog.data(name)
    assert rows
    assert all(None not in row and all(row.values()) for row in rows)
    keys = [tuple(row.values()) for row in rows]
    assert len(keys) == len(set(keys))


def test_every_pattern_of_data_is_one_that_the_engine_knows() -> None:
    for name in ("comm_patterns", "input_ranges", "step_classes", "timer_ranges"):
        for row in catalog.data(name):
            duckdb.execute("SELECT regexp_matches('x', $1)", [row["pattern"]]).fetchall()


def test_a_fingerprint_follows_the_sql_and_not_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint(**changes: str) -> str:
        changed = {**KNOWN, "steps": dataclasses.replace(KNOWN["steps"], **changes)}  # type: ignore[arg-type]
        monkeypatch.setattr(catalog, "relations", lambda: changed)
        return catalog.fingerprint.__wrapped__("steps")

    as_is = fingerprint()
    assert fingerprint(grain="One row per step.") == as_is
    assert fingerprint(sql=KNOWN["steps"].sql + " ") != as_is
    assert re.fullmatch(r"[0-9a-f]{16}", as_is)


def test_a_fingerprint_follows_the_macros_that_its_relations_call(monkeypatch: pytest.MonkeyPatch) -> None:
    as_is = catalog.fingerprint.__wrapped__("steps")
    known = catalog.macros()
    macro = known["aligned_ns"]
    turned = dataclasses.replace(macro, parameters=macro.parameters[::-1])
    for changed in (dataclasses.replace(macro, sql=macro.sql + " + 1"), turned):
        monkeypatch.setattr(catalog, "macros", lambda of=changed: {**known, "aligned_ns": of})
        assert catalog.fingerprint.__wrapped__("steps") != as_is
        assert catalog.fingerprint.__wrapped__("dump") == catalog.fingerprint("dump")
    reworded = dataclasses.replace(macro, meaning="An instant.")
    monkeypatch.setattr(catalog, "macros", lambda: {**known, "aligned_ns": reworded})
    assert catalog.fingerprint.__wrapped__("steps") == as_is


def test_a_fingerprint_leaves_other_scopes_out() -> None:
    assert len({catalog.fingerprint("dump"), catalog.fingerprint("rank"), catalog.fingerprint("clock", "steps")}) == 3


def test_only_a_page_query_is_given_as_one() -> None:
    assert catalog.page_query("overview_run") == KNOWN["overview_run"].sql
    for name in ("steps", "no_such_query"):
        with pytest.raises(KeyError):
            catalog.page_query(name)
