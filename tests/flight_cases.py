"""Made flight recorders' dumps: one rank's calls as a test lists them, in the form PyTorch 2.x writes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from evaluation import connection
from longpole import catalog
from longpole.formats.flight_recorder import read_flight

START_NS = 1_795_958_155_000_000_000
MS = 1_000_000

Groups = Mapping[str, tuple[str, Sequence[int]]]
"""Description and ranks of each process group by its name."""

TP_DP: Groups = {
    "0": ("default_pg", range(8)),
    **{str(1 + n): (f"tp{n}", [2 * n, 2 * n + 1]) for n in range(4)},
    **{str(5 + n): (f"dp{n}", list(range(n, 8, 2))) for n in range(2)},
}
"""Eight ranks as four tensor-parallel pairs and two data-parallel groups of four."""


def call(
    group: str, seq: int, op: str, at_ms: float, state: str = "completed", size: int = 1000, **other: Any
) -> dict[str, Any]:
    """Return one record; `at_ms` is when it was enqueued, `other` what differs from the usual."""
    created = START_NS + round(at_ms * MS)
    return {
        "frames": [
            {"name": op, "filename": "/v/site-packages/torch/distributed/distributed_c10d.py", "line": 3245},
            {"name": "step", "filename": "/job/train.py", "line": 10 + seq},
        ],
        "pg_id": int(group) if group.isdigit() else 0,
        "process_group": (group, "undefined"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": created,
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "output_sizes": [[size]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": None if state == "scheduled" else created + 10_000,
        "time_discovered_completed_ns": created + 50_000 if state == "completed" else None,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": False,
    } | other


def dump(entries: Sequence[dict[str, Any]], groups: Groups, rank: int, *, first: int = 0) -> dict[str, Any]:
    """Return a rank's dump; its records are numbered from `first`."""
    mine = {name: told for name, told in groups.items() if rank in told[1]}
    return {
        "version": "2.5",
        "pg_config": {
            name: {"name": name, "desc": told, "ranks": str(list(ranks))} for name, (told, ranks) in mine.items()
        },
        "pg_status": {},
        "entries": [
            {**e, "process_group": (e["process_group"][0], mine[e["process_group"][0]][0]), "record_id": first + n}
            for n, e in enumerate(entries)
        ],
    }


def write_dumps(folder: Path, dumps: Mapping[int, Any], *, as_json: bool = False) -> Path:
    """Write a dump for each rank, named as PyTorch does by default, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, value in dumps.items():
        if as_json:
            (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(value))
        else:
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(value, 2))
    return folder


def of_calls(calls: Mapping[int, Sequence[dict[str, Any]]], groups: Groups) -> dict[int, dict[str, Any]]:
    """Return the dumps of ranks that made these calls."""
    return {rank: dump(entries, groups, rank) for rank, entries in calls.items()}


def lost_rank_5() -> dict[int, dict[str, Any]]:
    """Return dumps of eight ranks of which rank 5 never came to its pair's call 3; all others wait for that.

    Rank 5's data-parallel peers 1, 3, 7 come first of all to theirs; rank 4 waits in the pair, so 0, 2, 6 wait for it.
    """
    calls: dict[int, list[dict[str, Any]]] = {}
    for rank in range(8):
        tp, dp = str(1 + rank // 2), str(5 + rank % 2)
        calls[rank] = [call(tp, 1, "all_reduce", 1), call(tp, 2, "all_reduce", 2), call(dp, 1, "all_reduce", 3)]
        if rank == 5:
            continue
        if rank == 4:
            calls[rank].append(call(tp, 3, "all_reduce", 20, "started"))
        else:
            late = {1: 30, 3: 31, 7: 32}.get(rank, 40 + rank)
            calls[rank] += [call(tp, 3, "all_reduce", 10), call(dp, 2, "all_reduce", late, "started")]
    return of_calls(calls, TP_DP)


def analyzed(dumps: Mapping[int, Any]) -> duckdb.DuckDBPyConnection:
    """Return a connection with every relation that is made of these ranks' dumps."""
    read: list[pa.Table] = []
    for rank, value in dumps.items():
        con = connection()
        con.register("raw_flight", read_flight(pickle.dumps(value, 2), "dump").records)
        con.execute("CREATE TABLE context AS SELECT $1::INTEGER AS rank", [rank])
        for relation in catalog.needed("flight", {"raw_flight", "context"}):
            con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
        read.append(con.sql("FROM flight_records").to_arrow_table())
    con = connection()
    con.register("read_records", pa.concat_tables(read))
    con.execute("CREATE TABLE flight_records AS FROM read_records")
    con.execute("CREATE TABLE flight_ranks AS SELECT unnest($1)::INTEGER AS rank", [list(dumps)])
    kernels = catalog.relations()["collectives"].columns
    con.execute(f"CREATE TABLE collectives ({', '.join(f'{c.name} {c.type}' for c in kernels)})")
    for relation in catalog.needed("hang", {"flight_records", "flight_ranks", "collectives", *catalog.data_names()}):
        con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
    return con
