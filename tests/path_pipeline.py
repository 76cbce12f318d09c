"""The shipped SQL from linked events of a few ranks to their critical paths and predictions, without a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from evaluation import connection, create_empty, dump_rows
from longpole import catalog
from longpole.engine import load_phases

Change = dict[str, Any]

_CHANGES = (
    "scenario INTEGER, what VARCHAR, kind VARCHAR, rank INTEGER, pattern VARCHAR, phase VARCHAR, group_id VARCHAR,"
    " factor DOUBLE, amount_ns BIGINT"
)
_HOSTS = "step BIGINT, piece_no BIGINT, dump_no BIGINT, thread BIGINT, call VARCHAR, start_ns BIGINT, end_ns BIGINT"
_INTERVALS = "point_no BIGINT, dump_no BIGINT, thread BIGINT, start_ns BIGINT, end_ns BIGINT"
_ELEMENTS = "rank INTEGER, step BIGINT, name VARCHAR, place BIGINT, device_ns BIGINT, host_ns BIGINT"


class Pipeline:
    """Every relation from a rank's events to the run's paths and predictions, made when it is asked for.

    Args:
        ranks: Linked events of each rank, as `evaluation.link` gives them.
        clocks: Offset and residual of each rank's clock; without them all ranks share one clock, exactly.
        changes: Rows of `changes`; columns that a row leaves out are NULL.
        phases: Names and patterns, as [phases] of a run has them.
        sm_clocks: Rank, step and clock of its device in Hz, as telemetry has it.
    """

    def __init__(
        self,
        ranks: Mapping[int, pa.Table],
        *,
        clocks: Mapping[int, tuple[int, int]] | None = None,
        changes: Sequence[Change] = (),
        phases: Sequence[tuple[str, str]] = (),
        sm_clocks: Sequence[tuple[int, int, float]] = (),
    ) -> None:
        self._sm_clocks = sm_clocks
        self._changes = changes
        self._phases = phases
        self._clocks = pa.table(
            {
                "rank": pa.array(list(ranks), pa.int32()),
                "offset_ns": pa.array([(clocks or {}).get(r, (0, 0))[0] for r in ranks], pa.int64()),
                "drift_ppb": pa.array([0.0] * len(ranks), pa.float64()),
                "reference_ns": pa.array([0] * len(ranks), pa.int64()),
                "residual_ns": pa.array([(clocks or {}).get(r, (0, 0))[1] for r in ranks], pa.int64()),
                "clock_no": pa.array([0] * len(ranks), pa.int32()),
                "basis": pa.array(["given"] * len(ranks)),
                "verdict": pa.array(["ok"] * len(ranks)),
            }
        )
        self._ranks = {rank: self._rank(rank, table) for rank, table in ranks.items()}
        self.con = self._run(list(ranks))

    def _rank(self, rank: int, table: pa.Table) -> duckdb.DuckDBPyConnection:
        con = connection()
        con.register("linked", table)
        con.execute("CREATE TABLE events AS SELECT 0::BIGINT AS dump_no, * FROM linked")
        con.execute("CREATE TABLE context AS SELECT $1::INTEGER AS rank", [rank])
        con.execute(
            "CREATE TABLE dump_facts AS SELECT 0::BIGINT AS dump_no, FALSE AS is_truncated, 0 AS n_dropped,"
            " 'kineto' AS format"
        )
        self._ask(con)
        make(con, ["rank_windows", "rank_collectives", "rank_chains"])
        return con

    def _ask(self, con: duckdb.DuckDBPyConnection) -> None:
        con.register("given_clocks", self._clocks)
        con.execute("CREATE TABLE rank_clocks AS FROM given_clocks")
        con.execute(f"CREATE TABLE changes ({_CHANGES})")
        columns = [c.split()[0] for c in _CHANGES.split(", ")]
        for change in self._changes:
            con.execute(
                f"INSERT INTO changes VALUES ({', '.join('?' * len(columns))})", [change.get(c) for c in columns]
            )
        con.execute(
            "CREATE TABLE scenarios AS SELECT 0::INTEGER AS scenario UNION SELECT scenario FROM changes ORDER BY 1"
        )
        load_phases(con, self._phases)

    def _run(self, ranks: Sequence[int]) -> duckdb.DuckDBPyConnection:
        con = connection()
        self._ask(con)
        con.execute("CREATE TABLE topology (rank INT, host TEXT, node TEXT, rack TEXT, rail TEXT)")
        con.execute("CREATE TABLE parallel (dp INT, tp INT, pp INT, ep INT, cp INT)")
        con.execute("CREATE TABLE shard AS SELECT -1::BIGINT AS first_step, 1000000::BIGINT AS last_step")
        con.register("dumps", dump_rows(*({"rank": r, "world_size": None} for r in ranks)))
        self._gather(con, ["rank_windows", "rank_collectives", "rank_chains"])
        create_empty(con, "rank_telemetry")
        for told in self._sm_clocks:
            con.execute("INSERT INTO rank_telemetry (rank, step, sm_clock_hz) VALUES ($1, $2, $3)", list(told))
        make(con, ["steps", "path_pieces"])
        return con

    def _gather(self, con: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
        for name in names:
            for n, rank_con in enumerate(self._ranks.values()):
                con.register("part", rank_con.sql(f"FROM {name}").to_arrow_table())
                con.execute(f"CREATE TABLE {name} AS FROM part" if n == 0 else f"INSERT INTO {name} FROM part")

    def paths(self) -> duckdb.DuckDBPyRelation:
        """Return step_critical_path."""
        pieces = self.con.sql("FROM path_pieces").to_arrow_table()
        for con in self._ranks.values():
            con.register("path_pieces", pieces)
            con.execute(f"CREATE TABLE _host_intervals ({_INTERVALS})")
            make(con, ["path_segments"])
        self._gather(self.con, ["path_segments"])
        make(self.con, ["step_critical_path"])
        return self.con.sql("FROM step_critical_path ORDER BY step, seq")

    def predictions(self) -> duckdb.DuckDBPyRelation:
        """Return predicted_steps."""
        self.con.execute(f"CREATE TABLE rank_elements ({_ELEMENTS})")
        for con in self._ranks.values():
            for name in ("_host_parts", "_host_profile", "_host_stretches", "_path_hosts", "_host_intervals"):
                con.execute(f"DROP TABLE IF EXISTS {name}")
            con.execute(f"CREATE TABLE _path_hosts ({_HOSTS})")
        if any(c["what"] == "fix" for c in self._changes):
            for con in self._ranks.values():
                make(con, ["rank_elements"])
                self.con.register("part", con.sql("FROM rank_elements").to_arrow_table())
                self.con.execute("INSERT INTO rank_elements FROM part")
        make(self.con, ["element_medians"])
        medians = self.con.sql("FROM element_medians").to_arrow_table()
        for con in self._ranks.values():
            con.register("element_medians", medians)
            make(con, ["rank_edges"])
        self._gather(self.con, ["rank_edges"])
        make(self.con, ["predicted_steps"])
        return self.con.sql("FROM predicted_steps ORDER BY scenario, step")


def make(con: duckdb.DuckDBPyConnection, wanted: Sequence[str]) -> None:
    """Make these relations and all they read that is not there yet."""
    known = catalog.relations()
    there = {row[0] for row in con.execute("SELECT table_name FROM information_schema.tables").fetchall()}
    needed: set[str] = set()
    queue = list(wanted)
    while queue:
        name = queue.pop()
        if name in there or name in needed or name not in known:
            continue
        needed.add(name)
        queue += sorted(known[name].reads)
    scopes = {known[name].scope for name in needed}
    for relation in catalog.ordered(scopes):
        if relation.name in needed:
            con.execute(f"CREATE TABLE {relation.name} AS {relation.sql}")
