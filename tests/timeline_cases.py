"""Op timelines for tests: pipelined steps as they would be recorded, and every answer about some in one connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation import connection
from longpole import catalog
from timeline_reference import Graph, Op, graph_of

Tail = Literal["none", "after", "overlapped"]
"""What follows the passes: nothing, gradients and update, or the same with the gradients reduced during the passes."""


def answered(ops: Sequence[Op]) -> duckdb.DuckDBPyConnection:
    """Return a connection with every relation of an op timeline, as its tasks would make them."""
    con = connection()
    con.execute(
        "CREATE TABLE timeline_ops (step BIGINT, dp_rank INTEGER, stage INTEGER, rank INTEGER, optype VARCHAR,"
        " seq_id BIGINT, start_ns BIGINT, duration_ns BIGINT, chunk INTEGER, model_chunk INTEGER, microbatch INTEGER)"
    )
    n_stages = max(o.stage for o in ops) + 1
    con.executemany(
        "INSERT INTO timeline_ops VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        [
            [
                *(o.step, o.dp_rank, o.stage, o.dp_rank * n_stages + o.stage, o.optype, o.seq_id, o.start, o.duration),
                *(o.chunk, o.model_chunk, o.microbatch),
            ]
            for o in ops
        ],
    )
    made = {"timeline_ops", *catalog.data_names()}
    _make(con, made, "timeline")
    con.execute("ALTER TABLE timeline_scenarios RENAME TO every_scenario")
    columns = ", ".join(f"{c.name} {c.type}" for c in catalog.relations()["timeline_workers"].columns)
    con.execute(f"CREATE TABLE timeline_workers ({columns})")
    made.add("timeline_workers")
    for needs_workers in (False, True):
        con.execute(f"CREATE VIEW timeline_scenarios AS FROM every_scenario WHERE needs_workers = {needs_workers}")
        _make(con, made, "replays")
        con.execute(f"CREATE TABLE replays_{needs_workers} AS FROM timeline_replays")
        con.execute(f"CREATE TABLE lanes_{needs_workers} AS FROM _timeline_lanes")
        if not needs_workers:
            con.execute("DROP TABLE timeline_workers")
            made.remove("timeline_workers")
            _make(con, made, "workers")
            con.execute("CREATE TABLE retimed AS FROM timeline_retimed")
        for name in ("timeline_replays", "timeline_retimed", "replayed", "_timeline_edges", "_timeline_lanes"):
            con.execute(f"DROP TABLE {name}")
            made.remove(name)
        con.execute("DROP VIEW replay_edges")
        con.execute("DROP VIEW timeline_scenarios")
    con.execute("CREATE VIEW timeline_replays AS FROM replays_False UNION ALL FROM replays_True")
    con.execute("ALTER TABLE retimed RENAME TO timeline_retimed")
    _make(con, {*made, "timeline_replays"}, "whatif")
    return con


def write_job(path: Path, ops: Sequence[Op]) -> Path:
    """Write the ops as a dump, a rank a worker, and return its path."""
    path.parent.mkdir(exist_ok=True)
    n_stages = max(o.stage for o in ops) + 1
    columns = {
        "dp_rank": [o.dp_rank for o in ops],
        "stage": [o.stage for o in ops],
        "rank": [o.dp_rank * n_stages + o.stage for o in ops],
        "step": [o.step for o in ops],
        "optype": [o.optype for o in ops],
        "start_ts": [o.start / 1e9 for o in ops],
        "duration": [o.duration / 1e9 for o in ops],
        "seq_id": [o.seq_id for o in ops],
        "mc": [o.chunk for o in ops],
        "mb_id": [-1 if o.microbatch is None else o.microbatch for o in ops],
        "gmc": [-1 if o.model_chunk is None else o.model_chunk for o in ops],
    }
    pq.write_table(pa.table(columns), path)
    return path


def _make(con: duckdb.DuckDBPyConnection, made: set[str], scope: catalog.Scope) -> None:
    relations = catalog.needed(scope, {*made, "replay_edges"})
    after_replay = {r.name for r in relations if "replayed" in r.reads} | {"replayed"}
    for relation in sorted(relations, key=lambda r: r.name in after_replay):
        if relation.name == "replayed":
            con.execute("CREATE VIEW replay_edges AS FROM _timeline_edges")
        con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
        made.add(relation.name)


def pipeline(
    n_dp: int, n_stages: int, n_microbatches: int, takes: Callable[[Op], int], *, step: int = 0, tail: Tail = "after"
) -> list[Op]:
    """Return a step of one-forward-one-backward as it runs without gaps, each op taking what `takes` says, from 1 ns.

    A stage does as many forward passes ahead as there are stages behind it, then one backward for each forward.
    """
    planned: list[Op] = []
    for dp_rank in range(n_dp):
        for stage in range(n_stages):
            planned += _worker(dp_rank, stage, n_stages, n_microbatches, step, tail)
    graph = graph_of(planned)  # starts say the order as yet
    costs = [takes(op) for op in planned]
    return recorded(graph, costs)


TAILS: tuple[Tail, ...] = get_args(Tail)


def recorded(graph: Graph, costs: Sequence[int]) -> list[Op]:
    """Return the ops of a graph as they run without gaps: a transfer begins when its worker comes to it."""
    ends = graph.replay(costs)
    ops = []
    for number, op in enumerate(graph.ops):
        start = max((ends[b] for b in graph.after[number]), default=0)
        ops.append(replace(op, start=start, duration=ends[number] - start))
    return ops


def _worker(dp_rank: int, stage: int, n_stages: int, n_microbatches: int, step: int, tail: Tail) -> list[Op]:
    ops: list[Op] = []

    def add(optype: str, seq_id: int, microbatch: int | None = None) -> None:
        is_pass = microbatch is not None
        ops.append(
            Op(
                *(dp_rank, stage, optype, seq_id, len(ops), 1),
                model_chunk=stage if is_pass else None,
                microbatch=microbatch,
                step=step,
            )
        )

    if tail != "none":
        add("params-all-gather", 0)
    ahead = min(n_stages - stage, n_microbatches)
    order = ["forward"] * ahead
    for done in range(n_microbatches):
        order += ["backward"] + (["forward"] if ahead + done < n_microbatches else [])
    counts = {"forward": 0, "backward": 0}
    for direction in order:
        seq_id = counts[direction]
        counts[direction] += 1
        is_first, is_last = (stage == 0, stage == n_stages - 1)
        if direction == "backward":
            is_first, is_last = is_last, is_first
        if not is_first:
            add(f"{direction}-recv", seq_id)
        add(f"{direction}-compute", seq_id, microbatch=seq_id)
        if not is_last:
            add(f"{direction}-send", seq_id)
    if tail != "none":
        add("gc", 0)
        add("layernorm-grads-all-reduce", 0)
        if stage in (0, n_stages - 1):
            add("embedding-grads-all-reduce", 0)
        add("grads-reduce-scatter", 0)
        if tail == "overlapped":
            add("separate-grads-all-reduce", 0)
        add("optimizer-clip-main-grad", 0)
        add("optimizer", 0)
    return ops
