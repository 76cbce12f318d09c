"""Runs for the post-mortem: rows that can be worked out in the head, and dumps that something is wrong with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from longpole import catalog, synth
from longpole.store import DUMP_TABLE

Row = dict[str, Any]

MS = 1_000_000
START = 1_700_000_000_000_000_000
"""Start of step 7, ns since 1970: what a double cannot hold."""

VIEWS = (
    *("runs", "ranks", "groups", "rank_clocks", "rank_steps", "rank_captures", "steps", "step_critical_path"),
    *("step_path_kinds", "step_stragglers", "collectives", "collective_instances", "kernels", "events", "path_pieces"),
)


def views(**rows: list[Row]) -> duckdb.DuckDBPyConnection:
    """Return a connection with the views that a post-mortem reads, these rows of run `r` in them."""
    con = duckdb.connect()
    catalog.load_macros(con)
    known = catalog.relations()
    for name in VIEWS:
        columns = {"run": "VARCHAR", **({"rank": "INTEGER"} if name == "events" else {})}
        columns |= {c.name: c.type for c in known[name].columns}
        listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        con.execute(f"CREATE TABLE {name} ({listed})")
    con.register("dump_rows", DUMP_TABLE.empty_table())
    con.execute("CREATE TABLE dumps AS SELECT NULL::VARCHAR AS run, * FROM dump_rows")
    for name, made in rows.items():
        add(con, name, made)
    return con


def add(con: duckdb.DuckDBPyConnection, table: str, rows: list[Row]) -> None:
    """Add rows of run `r` to one view; a column that a row leaves out is NULL."""
    frame = pl.DataFrame([{"run": "r", **row} for row in rows], infer_schema_length=None)
    con.register("new_rows", frame.to_arrow())
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")
    con.unregister("new_rows")


def ask(con: duckdb.DuckDBPyConnection, query: str, **parameters: Any) -> list[Row]:
    """Return the rows of one page query."""
    found: list[Row] = con.sql(catalog.page_query(query), params={"run": "r", **parameters}).pl().to_dicts()
    return found


def step(number: int, start_ms: int, end_ms: int, **more: Any) -> Row:
    """Return a step from and to ms after START."""
    times = {"start_ns": START + start_ms * MS, "end_ns": START + end_ms * MS}
    length = (end_ms - start_ms) * MS
    return {"step": number, **times, "duration_ns": length, "end_rank": 0, "n_ranks": 1, "verdict": "ok", **more}


def window(rank: int, number: int, *, start_ms: int = 0, **parts_ms: int) -> Row:
    """Return a row of rank_steps from its parts in ms; what is left out is 0."""
    parts = ("compute", "exposed_comm", "exposed_copy")
    causes = ("input", "sync", "host", "launch", "turnaround", "other")
    row: Row = {f"{part}_ns": parts_ms.get(part, 0) * MS for part in parts}
    row |= {f"idle_{cause}_ns": parts_ms.get(cause, 0) * MS for cause in causes}
    row["idle_ns"] = sum(row[f"idle_{cause}_ns"] for cause in causes)
    row["duration_ns"] = row["idle_ns"] + sum(row[f"{part}_ns"] for part in parts)
    times = {"start_ns": START + start_ms * MS, "end_ns": START + start_ms * MS + row["duration_ns"]}
    return {"rank": rank, "step": number, "capture": 0, **times, **row, "wait_ns": 0, "verdict": "ok"}


def path(number: int, at_ms: int, *segments: tuple[int, str, str, str, int]) -> list[Row]:
    """Return a step's path of (rank, lane, kind, name, ms), one after the other from `at_ms`."""
    rows: list[Row] = []
    at = START + at_ms * MS
    for seq, (rank, lane, kind, name, ms) in enumerate(segments):
        row: Row = {"step": number, "seq": seq, "rank": rank, "lane": lane, "kind": kind, "name": name, "verdict": "ok"}
        rows.append(row | {"start_ns": at, "end_ns": at + ms * MS, "duration_ns": ms * MS})
        at += ms * MS
    return rows


def event(category: str, name: str, start_ms: float, end_ms: float, *, rank: int = 1, **more: Any) -> Row:
    """Return an event, on a clock that is 5 ms ahead of the run's."""
    start = START + round((start_ms + 5) * MS)
    return {
        "rank": rank, "category": category, "name": name, "start_ns": start,
        "duration_ns": round((end_ms - start_ms) * MS), **more,
    }  # fmt: skip


FIXTURES = Path(__file__).parents[2] / "fixtures"

HOSTILE = "</script><img src=x onerror=alert(1)><!-- ${7*7} {{7*7}} \u202e"


def hostile_dump(folder: Path) -> Path:
    """Write the first rank of the worked example with names made to break out of a page; return the folder."""
    (source,) = (FIXTURES / "worked").glob("rank0*")
    dump = json.loads(gzip.decompress(source.read_bytes()))
    for one in dump["traceEvents"]:
        if one.get("cat") in ("kernel", "cpu_op"):
            one["name"] = HOSTILE + one["name"]
    folder.mkdir()
    (folder / "rank0.json").write_text(json.dumps(dump))
    return folder


def died_dumps(folder: Path) -> Path:
    """Write four ranks of five steps, of which rank 1's dump lost 15 %, the device's end; return the folder."""
    synth.write("training", folder, ranks=4, steps=5)
    (cut,) = folder.glob("rank1*")
    content = cut.read_bytes()
    cut.write_bytes(content[: len(content) * 85 // 100])
    return folder
