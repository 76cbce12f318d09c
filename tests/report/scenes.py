"""Made runs: the session's views as tables, filled with rows whose answers can be worked out in the head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb
import polars as pl

from evaluation import create_empty
from longpole import catalog

MS = 1_000_000

_VIEWS = """
CREATE TABLE runs (run VARCHAR, world_size INTEGER, n_ranks INTEGER, n_steps BIGINT, device VARCHAR,
    first_ns BIGINT, last_ns BIGINT, verdict VARCHAR, reasons VARCHAR[]);
CREATE TABLE ranks (run VARCHAR, rank INTEGER, host VARCHAR, device_index INTEGER, device_name VARCHAR,
    process BIGINT, dp INTEGER, pp INTEGER, is_recorded BOOLEAN);
CREATE TABLE dumps (run VARCHAR, dump VARCHAR, path VARCHAR, format VARCHAR, schema VARCHAR, rank INTEGER,
    device_index INTEGER, device_memory_bytes BIGINT,
    n_bytes BIGINT, n_events BIGINT, n_stored BIGINT, n_skipped BIGINT, n_dropped BIGINT, n_salvaged BIGINT,
    n_rounded BIGINT, is_truncated BOOLEAN, verdict VARCHAR, error VARCHAR);
CREATE TABLE rank_steps (run VARCHAR, rank INTEGER, capture BIGINT, step BIGINT, start_ns BIGINT, end_ns BIGINT,
    duration_ns BIGINT, compute_ns BIGINT, comm_ns BIGINT, exposed_comm_ns BIGINT, overlapped_comm_ns BIGINT,
    copy_ns BIGINT, exposed_copy_ns BIGINT, idle_ns BIGINT, idle_input_ns BIGINT, idle_sync_ns BIGINT,
    idle_host_ns BIGINT, idle_launch_ns BIGINT, idle_turnaround_ns BIGINT, idle_other_ns BIGINT,
    n_activities BIGINT, n_unlinked BIGINT, verdict VARCHAR);
CREATE TABLE rank_captures (run VARCHAR, rank INTEGER, capture BIGINT, start_ns BIGINT, end_ns BIGINT,
    duration_ns BIGINT, compute_ns BIGINT, comm_ns BIGINT, exposed_comm_ns BIGINT, overlapped_comm_ns BIGINT,
    copy_ns BIGINT, exposed_copy_ns BIGINT, idle_ns BIGINT, idle_input_ns BIGINT, idle_sync_ns BIGINT,
    idle_host_ns BIGINT, idle_launch_ns BIGINT, idle_turnaround_ns BIGINT, idle_other_ns BIGINT,
    n_activities BIGINT, n_unlinked BIGINT, first_step BIGINT, last_step BIGINT, n_steps BIGINT,
    step_source VARCHAR, verdict VARCHAR);
CREATE TABLE steps (run VARCHAR, capture BIGINT, step BIGINT, start_ns BIGINT, end_ns BIGINT, duration_ns BIGINT,
    end_rank INTEGER, end_margin_ns BIGINT, start_skew_ns BIGINT, n_ranks INTEGER, verdict VARCHAR);
CREATE TABLE kernels (run VARCHAR, rank INTEGER, step BIGINT, name VARCHAR, kind VARCHAR, comm_evidence VARCHAR,
    n_calls BIGINT, total_ns BIGINT, exposed_ns BIGINT);
CREATE TABLE step_critical_path (run VARCHAR, step BIGINT, seq BIGINT, rank INTEGER, lane VARCHAR, kind VARCHAR,
    name VARCHAR, start_ns BIGINT, end_ns BIGINT, duration_ns BIGINT, verdict VARCHAR);
CREATE VIEW step_path_kinds AS SELECT run, step, kind, rank, sum(duration_ns)::BIGINT AS duration_ns,
    coalesce(sum(duration_ns) FILTER (name = '(no event)'), 0)::BIGINT AS no_event_ns, count(*) AS n_segments
    FROM step_critical_path GROUP BY run, step, kind, rank;
CREATE TABLE step_stragglers (run VARCHAR, step BIGINT, rank INTEGER, late_ns BIGINT, late_ratio DOUBLE,
    n_last BIGINT, is_straggler BOOLEAN, cause VARCHAR, cause_ns BIGINT, place VARCHAR, verdict VARCHAR);
CREATE TABLE run_stragglers (run VARCHAR, rank INTEGER, host VARCHAR, n_steps BIGINT, n_straggler BIGINT,
    share_last_ratio DOUBLE, late_ns BIGINT, late_ratio DOUBLE, lost_gpu_hours DOUBLE, cause VARCHAR,
    cause_ns BIGINT, cause_ratio DOUBLE, place VARCHAR, is_persistent BOOLEAN, pattern VARCHAR, saved_ns BIGINT,
    slowdown_ratio DOUBLE, verdict VARCHAR);
CREATE TABLE run_straggler_places (run VARCHAR, level VARCHAR, place VARCHAR);
CREATE TABLE collectives (run VARCHAR, step BIGINT, rank INTEGER);
CREATE TABLE run_coverage (run VARCHAR, "check" VARCHAR, expected BIGINT, found BIGINT, verdict VARCHAR);
"""

_EMPTY = (
    *("run_mfu", "step_ledger", "run_whatif", "run_opportunities"),
    *("pipeline_stages", "step_exchanges", "group_transfers", "groups"),
    *("step_mfu", "collective_instances", "step_stages", "rank_memory"),
)
"""Views made of their headers alone."""

_NO_PATH = "; ".join(
    f"DELETE FROM {name}"
    for name in (
        *("step_critical_path", "step_stragglers", "run_stragglers", "run_opportunities", "step_ledger"),
        *("step_exchanges", "pipeline_stages"),
    )
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<!-- ${7*7} {{7*7}} \u202e\x1b[31m"

# rank, step, window, compute, comm, exposed comm, exposed copy, then idle by input, sync, host, launch,
# turnaround and other, all in ms. No copy is hidden; hidden comm is comm less exposed comm.
_TINY = [
    (0, 10, 100, 60, 30, 20, 5, 5, 0, 8, 1, 1, 0),
    (0, 11, 110, 60, 40, 30, 5, 5, 0, 8, 1, 1, 0),
    (0, 12, 200, 60, 30, 20, 5, 105, 0, 8, 1, 1, 0),
    (1, 10, 100, 70, 20, 10, 5, 5, 0, 8, 1, 1, 0),
    (1, 11, 110, 80, 20, 10, 5, 5, 0, 8, 1, 1, 0),
    (1, 12, 200, 70, 120, 110, 5, 5, 0, 8, 1, 1, 0),
]

# step, rank, kind, name, ms: the path of each step, from start to end; of 411 ms 210 are compute, 246 rank 1's.
_TINY_PATH = [
    (10, 0, "compute", "gemm", 60),
    (10, 1, "comm", "AllReduce", 30),
    (10, 1, "host", "(no event)", 11),
    (11, 1, "compute", "gemm", 80),
    (11, 1, "host", "aten::mm", 30),
    (12, 0, "input", "next", 105),
    (12, 1, "compute", "gemm", 70),
    (12, 1, "unknown", None, 25),
]


def views() -> duckdb.DuckDBPyConnection:
    """Return a connection with every view of a session, all of them empty."""
    con = duckdb.connect()
    catalog.load_macros(con)
    con.execute(_VIEWS)
    for name in _EMPTY:
        create_empty(con, name, of_runs=True)
    con.execute(f"CREATE VIEW step_order AS {catalog.relations()['step_order'].sql}")
    return con


def add(con: duckdb.DuckDBPyConnection, table: str, rows: Iterable[dict[str, Any]]) -> None:
    """Add rows to one view; a column that a row leaves out is NULL."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    con.register("new_rows", frame.to_arrow())
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")
    con.unregister("new_rows")


def window(values: tuple[int, ...], *, run: str, start_ms: int = 0, verdict: str = "ok") -> dict[str, Any]:
    """Return one row of rank_steps from its numbers in ms, in the order of `_TINY`."""
    rank, step, duration, compute, comm, exposed, copy, by_input, sync, host, launch, turnaround, other = values
    parts = {
        "start": start_ms,
        "end": start_ms + duration,
        "duration": duration,
        "compute": compute,
        "comm": comm,
        "exposed_comm": exposed,
        "overlapped_comm": comm - exposed,
        "copy": copy,
        "exposed_copy": copy,
        "idle": by_input + sync + host + launch + turnaround + other,
        "idle_input": by_input,
        "idle_sync": sync,
        "idle_host": host,
        "idle_launch": launch,
        "idle_turnaround": turnaround,
        "idle_other": other,
    }
    row: dict[str, Any] = {f"{name}_ns": ms * MS for name, ms in parts.items()}
    row |= {"run": run, "rank": rank, "capture": 0, "step": step, "verdict": verdict}
    return row | {"n_activities": 12, "n_unlinked": 1}


def tiny(run: str = "tiny", kernel: str = "gemm") -> duckdb.DuckDBPyConnection:
    """Return two ranks, three steps: windows of 820 ms, of them 400 compute, 200 exposed comm, 30 copies, 190 idle."""
    con = views()
    add(
        con,
        "runs",
        [
            {
                "run": run,
                "world_size": 2,
                "n_ranks": 2,
                "n_steps": 3,
                "device": "H100",
                "first_ns": 0,
                "last_ns": 411 * MS,
                "verdict": "read with care",
                "reasons": ["one dump is truncated"],
            },
            {"run": "other", "world_size": 9, "n_ranks": 9, "n_steps": 9, "verdict": "ok"},
        ],
    )
    add(
        con,
        "ranks",
        [
            {"run": run, "rank": rank, "host": f"node{rank}", "device_name": "H100", "is_recorded": True}
            for rank in (0, 1)
        ],
    )
    add(con, "rank_steps", [window(values, run=run) for values in _TINY])
    add(con, "rank_steps", [window(values, run="other") for values in _TINY[:1]])
    con.execute(
        "UPDATE rank_steps SET verdict = 'launches missing' WHERE run = $run AND rank = 1 AND step > 10", {"run": run}
    )
    step_times = {10: 101, 11: 110, 12: 200}
    add(
        con,
        "steps",
        [
            {"run": run, "capture": 0, "step": step, "duration_ns": ms * MS, "n_ranks": 2, "verdict": "ok"}
            for step, ms in step_times.items()
        ],
    )
    for rank in (0, 1):
        for step in (10, 11, 12):
            add(
                con,
                "kernels",
                [
                    {"name": kernel, "kind": "compute", "n_calls": 4, "total_ns": 60 * MS, "exposed_ns": 60 * MS}
                    | {"run": run, "rank": rank, "step": step},
                    {"name": "AllReduce", "kind": "comm", "comm_evidence": "name", "n_calls": 2}
                    | {"total_ns": 30 * MS, "exposed_ns": 20 * MS, "run": run, "rank": rank, "step": step},
                    {"name": "Memcpy HtoD", "kind": "copy", "n_calls": 1, "total_ns": 5 * MS, "exposed_ns": 5 * MS}
                    | {"run": run, "rank": rank, "step": step},
                ],
            )
    add(
        con,
        "kernels",
        [{"run": run, "rank": 0, "name": "before", "kind": "compute", "n_calls": 1, "total_ns": 9, "exposed_ns": 9}],
    )
    at = 0
    for seq, (step, rank, kind, name, ms) in enumerate(_TINY_PATH):
        row = {"run": run, "step": step, "seq": seq, "rank": rank, "kind": kind, "start_ns": at, "end_ns": at + ms * MS}
        row |= {"name": kernel if name == "gemm" else name, "duration_ns": ms * MS, "verdict": "ok"}
        add(con, "step_critical_path", [row])
        at += ms * MS
    add(
        con,
        "step_stragglers",
        [
            {"step": 11, "rank": 1, "late_ns": MS, "late_ratio": 1 / 110, "is_straggler": False}
            | {"run": run, "n_last": 1, "verdict": "below the noise of a step"},
            {"step": 12, "rank": 0, "late_ns": 100 * MS, "late_ratio": 0.5, "is_straggler": True}
            | {"run": run, "n_last": 2, "cause": "input", "cause_ns": 100 * MS, "verdict": "ok"},
        ],
    )
    add(
        con,
        "run_stragglers",
        [
            {"run": run, "rank": 0, "host": "node0", "n_steps": 3, "n_straggler": 1, "share_last_ratio": 1 / 3}
            | {"late_ns": 100 * MS, "late_ratio": 100 / 411, "lost_gpu_hours": 0.1 / 3600, "cause": "input"}
            | {"cause_ns": 100 * MS, "cause_ratio": 1.0, "is_persistent": False, "pattern": "transient"}
            | {"verdict": "one step: it may be chance"}
        ],
    )
    add(
        con,
        "run_opportunities",
        [
            {"run": run, "what": "fix", "rank": 0, "path_ns": 200 * MS, "n_steps": 3, "measured_ns": 411 * MS}
            | {"saved_ns": 90 * MS, "speedup_ratio": 411 / 321, "verdict": "ok"},
            {"run": run, "what": "scale", "kind": "host", "name": kernel, "pattern": f"^{kernel}$", "factor": 0.0}
            | {"path_ns": 30 * MS, "n_steps": 3, "measured_ns": 411 * MS, "saved_ns": MS, "speedup_ratio": 411 / 410}
            | {"verdict": "below the error of the unchanged replay"},
            {"run": run, "what": "waits", "path_ns": 411 * MS, "n_steps": 3, "measured_ns": 411 * MS, "saved_ns": 0}
            | {"speedup_ratio": 1.0, "verdict": "ok"},
        ],
    )
    add(
        con,
        "step_ledger",
        [
            {"run": run, "step": step, "place": place, "part": part, "device_ns": ns * MS, "share_ratio": ns / total}
            for step, total, parts in ((10, 200, (130, 30, 10, 30)), (11, 220, (130, 60, 10, 20)))
            for place, part, ns in zip((3, 6, 9, 15), ("compute", "transfer", "idle_input", "skew"), parts, strict=True)
        ],
    )
    add(
        con,
        "step_exchanges",
        [
            {"run": run, "step": step, "group_id": "world", "op": "all_reduce", "n_ranks": 2, "n_instances": 2}
            | {"n_incomplete": 0, "n_bytes": 4_000_000, "duration_ns": 60 * MS, "exposed_ns": 41 * MS}
            | {"wait_ns": 15 * MS, "busbw_bytes_per_s": 12.5e9}
            for step in (10, 11)
        ],
    )
    add(con, "groups", [{"run": run, "group_id": "world", "rank": rank, "description": "dp"} for rank in (0, 1)])
    add(
        con,
        "pipeline_stages",
        [
            {"run": run, "stage": stage, "n_ranks": 1, "n_steps": 3, "device_ns": 400 * MS, "compute_ns": 300 * MS}
            | {"bubble_ratio": 0.15 + stage / 20, "n_microbatches": 8, "schedule_ratio": 1 / 9, "excess_ratio": 0.0}
            | {"verdict": "ok"}
            for stage in (0, 1)
        ],
    )
    add(con, "collectives", [{"run": run, "step": 10, "rank": rank} for rank in (0, 1)])
    add(
        con,
        "run_coverage",
        [
            {"run": run, "check": "ranks", "expected": 2, "found": 2, "verdict": "ok"},
            {"run": run, "check": "events", "expected": 1000, "found": 990, "verdict": "10 events are malformed"},
        ],
    )
    add(
        con,
        "dumps",
        [
            {"run": run, "dump": "a1", "path": "rank0.json.gz", "rank": 0, "n_events": 500, "n_skipped": 2}
            | {"n_dropped": 0, "n_salvaged": 0, "is_truncated": False, "verdict": "ok"},
            {"run": run, "dump": "b2", "path": "rank1.json.gz", "rank": 1, "n_events": 500, "n_skipped": 2}
            | {"n_dropped": 10, "n_salvaged": 1, "is_truncated": True, "verdict": "truncated"},
        ],
    )
    return con


def hostile() -> duckdb.DuckDBPyConnection:
    """Return the tiny run with a name, kernels, hosts, paths, checks and verdicts made to break out of a page."""
    con = tiny(run=HOSTILE, kernel=HOSTILE)
    names = {"text": HOSTILE}
    con.execute("UPDATE ranks SET host = $text, device_name = $text", names)
    con.execute("UPDATE dumps SET path = $text, verdict = $text, error = $text", names)
    con.execute('UPDATE run_coverage SET "check" = $text, verdict = $text', names)
    con.execute("UPDATE steps SET verdict = $text", names)
    con.execute("UPDATE rank_steps SET verdict = $text WHERE step = 12", names)
    con.execute("UPDATE kernels SET comm_evidence = $text, kind = $text WHERE kind = 'comm'", names)
    con.execute("UPDATE step_critical_path SET name = $text WHERE kind = 'host'", names)
    con.execute("UPDATE step_critical_path SET kind = $text WHERE kind = 'comm'", names)
    con.execute(
        "UPDATE run_stragglers SET host = $text, cause = $text, place = $text, pattern = $text, verdict = $text", names
    )
    con.execute("UPDATE groups SET description = $text", names)
    con.execute("UPDATE step_exchanges SET op = $text", names)
    con.execute("UPDATE run_opportunities SET verdict = $text", names)
    con.execute("UPDATE step_ledger SET reason = $text", names)
    con.execute("UPDATE pipeline_stages SET verdict = $text", names)
    con.execute("UPDATE runs SET device = $text, verdict = $text, reasons = [$text]", names)
    return con


def gridded() -> duckdb.DuckDBPyConnection:
    """Return the tiny run as a pipeline of two stages: rank 0 the first, which is late in one step, rank 1 the last."""
    con = tiny()
    con.execute("UPDATE ranks SET dp = 0, pp = rank")
    return con


def without_steps() -> duckdb.DuckDBPyConnection:
    """Return the tiny run with no step found: each rank is one capture of 410 ms."""
    con = tiny()
    con.execute(
        "DELETE FROM rank_steps; DELETE FROM steps; UPDATE kernels SET step = NULL; UPDATE runs SET n_steps = 0"
    )
    con.execute(_NO_PATH)
    rows = [
        window((0, 0, 410, 180, 100, 70, 15, 115, 0, 24, 3, 3, 0), run="tiny"),
        window((1, 0, 410, 220, 160, 130, 15, 15, 0, 24, 3, 3, 0), run="tiny"),
    ]
    for row in rows:
        row["step_source"] = "window"
        del row["step"]
    add(con, "rank_captures", rows)
    return con


def one_rank_of_sixteen() -> duckdb.DuckDBPyConnection:
    """Return the tiny run of which only rank 1 was recorded, so no step has a time of its own."""
    con = tiny()
    con.execute(
        "DELETE FROM ranks WHERE rank = 0; DELETE FROM rank_steps WHERE rank = 0; DELETE FROM kernels WHERE rank = 0"
    )
    con.execute("UPDATE runs SET world_size = 16, n_ranks = 1")
    con.execute("UPDATE steps SET duration_ns = NULL, n_ranks = 1, verdict = 'clock not aligned'")
    con.execute(_NO_PATH)
    add(
        con,
        "ranks",
        [{"run": "tiny", "rank": rank, "is_recorded": False} for rank in range(16) if rank != 1],
    )
    return con


def nothing() -> duckdb.DuckDBPyConnection:
    """Return a run that recorded no work at all."""
    con = views()
    add(con, "runs", [{"run": "tiny", "n_ranks": 0, "n_steps": 0, "verdict": "no events", "reasons": ["no events"]}])
    return con


def many(n_ranks: int, n_steps: int, *, seed: int = 1, first_step: int = 100) -> duckdb.DuckDBPyConnection:
    """Return a run of any size: a slow rank, slow stretches, outliers; 60 kernel names in its first 200 steps."""
    con = views()
    size = {"n_ranks": n_ranks, "n_steps": n_steps, "first": first_step}
    con.execute("SELECT setseed($seed)", {"seed": 1 / (1 + seed)})
    con.execute(
        "INSERT INTO runs SELECT 'many', $n_ranks, $n_ranks, $n_steps, 'NVIDIA H100', 1700000000000000000, "
        "1700000000000000000 + $n_steps * 412000000::BIGINT, 'ok', []",
        {"n_ranks": n_ranks, "n_steps": n_steps},
    )
    con.execute(
        "INSERT INTO ranks SELECT 'many', r, 'node' || lpad((r // 8)::VARCHAR, 3, '0'), r % 8, 'NVIDIA H100', "
        "1000 + r, r // 2, r % 2, TRUE FROM range($n_ranks) AS t (r)",
        {"n_ranks": n_ranks},
    )
    con.execute(_MANY_STEPS, size)
    con.execute(
        "INSERT INTO steps SELECT 'many', 0, step, NULL, NULL, max(duration_ns) + 120000, "
        "arg_max(rank, duration_ns), 1000, 0, count(*), 'ok' FROM rank_steps GROUP BY step"
    )
    con.execute(
        "INSERT INTO step_critical_path BY NAME SELECT 'many' AS run, step, 0 AS seq, rank, kind, 'work' AS name, "
        "CASE kind WHEN 'compute' THEN compute_ns ELSE idle_host_ns END AS duration_ns, 'ok' AS verdict "
        "FROM rank_steps CROSS JOIN (VALUES ('compute'), ('host')) AS kinds (kind) WHERE rank = 0"
    )
    con.execute(
        "INSERT INTO step_stragglers BY NAME SELECT 'many' AS run, step, (step % n_ranks)::INTEGER AS rank, 1000000 AS "
        "late_ns, 1e6 / duration_ns AS late_ratio, FALSE AS is_straggler, 'below the noise of a step' AS verdict "
        "FROM steps"
    )
    con.execute(_MANY_KERNELS, {"first": first_step})
    con.execute("INSERT INTO run_coverage VALUES ('many', 'ranks', $n_ranks, $n_ranks, 'ok')", {"n_ranks": n_ranks})
    con.execute(
        "INSERT INTO dumps BY NAME SELECT 'many' AS run, md5(r::VARCHAR) AS dump, 'dumps/rank' || r || '.json.gz' AS "
        "path, r AS rank, 81234 AS n_events, 120 AS n_skipped, 0 AS n_dropped, 0 AS n_salvaged, FALSE AS "
        "is_truncated, 'ok' AS verdict FROM range($n_ranks) AS t (r)",
        {"n_ranks": n_ranks},
    )
    return con


_MANY_STEPS = """
INSERT INTO rank_steps BY NAME
WITH drawn AS (
    SELECT
        r AS rank,
        $first + s AS step,
        (300e6 + 6e6 * random() + CASE WHEN r = 5 THEN 24e6 ELSE 0 END)::BIGINT AS compute_ns,
        (CASE WHEN s % 97 = 60 THEN 240e6 * (0.8 + 0.2 * random()) WHEN s % 50 BETWEEN 30 AND 35
            THEN 60e6 + 8e6 * random() ELSE 22e6 + 4e6 * random() END)::BIGINT AS idle_host_ns,
        (2e6 + 1e6 * random() + CASE WHEN s % 10 = 0 THEN 30e6 ELSE 0 END)::BIGINT AS idle_input_ns,
        (3e6 + 2e6 * random())::BIGINT AS idle_sync_ns,
        (1e6 + 4e5 * random())::BIGINT AS idle_launch_ns,
        (8e5 + 2e5 * random())::BIGINT AS idle_turnaround_ns,
        (4e6 + 1e6 * random())::BIGINT AS exposed_copy_ns,
        (40e6 + 10e6 * random())::BIGINT AS tail_ns
    FROM range($n_ranks) AS ranks (r), range($n_steps) AS steps (s)
),
waited AS (
    SELECT *,
        idle_host_ns + idle_input_ns + idle_sync_ns + idle_launch_ns + idle_turnaround_ns AS idle_ns
    FROM drawn
),
late AS (
    SELECT *,
        max(compute_ns + idle_ns) OVER (PARTITION BY step) - compute_ns - idle_ns + tail_ns AS exposed_comm_ns
    FROM waited
)
SELECT 'many' AS run, rank, 0 AS capture, step,
    compute_ns + exposed_comm_ns + exposed_copy_ns + idle_ns AS duration_ns,
    compute_ns, exposed_comm_ns + 90000000 AS comm_ns, exposed_comm_ns, 90000000 AS overlapped_comm_ns,
    exposed_copy_ns AS copy_ns, exposed_copy_ns, idle_ns, idle_input_ns, idle_sync_ns, idle_host_ns, idle_launch_ns,
    idle_turnaround_ns, 0 AS idle_other_ns, 4200 AS n_activities, 0 AS n_unlinked, 'ok' AS verdict
FROM late
"""

_MANY_KERNELS = """
INSERT INTO kernels
SELECT 'many', rank, step,
    CASE k WHEN 0 THEN 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)'
        WHEN 1 THEN 'Memcpy HtoD (Pinned -> Device)'
        ELSE 'void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_' || (64 * k)
            || 'x128_32x5_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_params::Params)' END,
    CASE k WHEN 0 THEN 'comm' WHEN 1 THEN 'copy' ELSE 'compute' END,
    CASE k WHEN 0 THEN 'name; under c10d' END,
    4 + k,
    CASE k WHEN 0 THEN comm_ns WHEN 1 THEN copy_ns ELSE compute_ns * 2 // (k * k) END,
    CASE k WHEN 0 THEN exposed_comm_ns WHEN 1 THEN exposed_copy_ns ELSE compute_ns // (k * k) END
FROM rank_steps, range(60) AS names (k)
WHERE step < $first + 200
"""
