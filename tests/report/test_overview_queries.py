"""The overview's rows, compared with what the made runs were built to say."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import polars as pl
import pytest

from longpole import catalog
from longpole.errors import LongpoleError
from longpole.report.overview import Overview, build
from report import scenes
from report.scenes import MS

PAGE_QUERIES = sorted(name for name, r in catalog.relations().items() if r.scope == "page")

PARAMETERS: dict[str, Any] = {
    "run": "tiny",
    "measure": "idle",
    "max_bins": 300,
    "max_ranks": 64,
    "max_late_ranks": 16,
    "max_stragglers": 64,
    "max_opportunities": 8,
    "max_exchanges": 24,
    "max_bands": 8,
    "max_stages": 64,
    "n_names": 10,
    "max_ranges": 12,
    "n_kernels": 40,
    "max_dumps": 256,
    "max_checks": 256,
    "max_verdicts": 64,
}


def rows(con: duckdb.DuckDBPyConnection, query: str, **changed: Any) -> list[dict[str, Any]]:
    """Return the rows of one page query with the usual parameters, some of them changed."""
    sql = catalog.page_query(query)
    wanted = {name: (PARAMETERS | changed)[name] for name in set(re.findall(r"\$(\w+)", sql))}
    found: list[dict[str, Any]] = con.sql(sql, params=wanted).pl().to_dicts()
    return found


@pytest.fixture(scope="module")
def tiny() -> Overview:
    return build(scenes.tiny(), "tiny")


@pytest.mark.parametrize("query", [name for name in PAGE_QUERIES if name.startswith("overview_")])
def test_the_header_of_a_page_query_is_what_it_returns(query: str) -> None:
    relation = catalog.relations()[query]
    wanted = {name: PARAMETERS[name] for name in set(re.findall(r"\$(\w+)", relation.sql))}
    described = scenes.tiny().execute(f"DESCRIBE {relation.sql}", wanted).fetchall()
    assert [(c.name, c.type) for c in relation.columns] == [(row[0], row[1]) for row in described]


def test_a_run_that_is_not_in_the_store_is_an_error_that_names_it() -> None:
    with pytest.raises(LongpoleError, match="no run named 'absent'"):
        build(scenes.tiny(), "absent")


def test_the_head_says_steps_shares_and_what_is_wrong(tiny: Overview) -> None:
    run = tiny.run
    assert (run.first_step, run.last_step, run.n_captures) == (10, 12, 1)
    assert (run.n_timed_steps, run.n_mean_window_steps) == (3, 0)
    assert (run.step_p05_ns, run.step_median_ns, run.step_p95_ns) == (101 * MS, 110 * MS, 200 * MS)
    assert (run.step_min_ns, run.step_max_ns, run.slowest_step) == (101 * MS, 200 * MS, 12)
    assert (run.n_windows, run.n_all_windows, run.n_bad_windows, run.n_window_ranks) == (6, 6, 2, 2)
    assert (run.compute_ratio, run.exposed_comm_ratio) == (400 / 820, 200 / 820)
    assert (run.exposed_copy_ratio, run.idle_ratio) == (30 / 820, 190 / 820)
    assert (run.idle_input_ratio, run.idle_host_ratio, run.idle_sync_ratio) == (130 / 820, 48 / 820, 0)
    assert run.hidden_comm_ratio == 60 / 260
    assert (run.n_dumps, run.n_bad_dumps, run.n_checks, run.n_bad_checks) == (2, 1, 2, 1)
    assert (run.n_activities, run.n_unlinked) == (72, 6)
    assert (run.reasons, run.recorded_ranks) == (("one dump is truncated",), "0–1")


def test_a_column_is_the_mean_over_ranks_and_its_parts_add_up(tiny: Overview) -> None:
    last = tiny.step_bins.to_dicts()[2]
    assert (last["bin"], last["first_step"], last["last_step"], last["n_steps"]) == (2, 12, 12, 1)
    assert (last["compute_ns"], last["exposed_comm_ns"], last["exposed_copy_ns"]) == (65 * MS, 65 * MS, 5 * MS)
    assert (last["idle_ns"], last["idle_input_ns"], last["idle_host_ns"]) == (65 * MS, 55 * MS, 8 * MS)
    assert (last["step_ns"], last["window_ns"], last["n_windows"]) == (200 * MS, 200 * MS, 2)
    made = build(scenes.many(3, 50), "many").step_bins.to_dicts()
    parts = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
    assert [sum(row[part] for part in parts) - row["window_ns"] for row in made] == [0] * 50


def test_more_steps_than_columns_are_binned_with_their_extremes_kept() -> None:
    assert [
        (r["first_step"], r["last_step"], r["n_steps"], r["step_min_ns"], r["step_ns"], r["step_max_ns"])
        for r in rows(scenes.tiny(), "overview_step_bins", max_bins=2)
    ] == [(10, 11, 2, 101 * MS, 101 * MS, 110 * MS), (12, 12, 1, 200 * MS, 200 * MS, 200 * MS)]
    assert [
        (r["rank"], r["bin"], r["n_steps"], r["value_min_ns"], r["value_mean_ns"], r["value_max_ns"], r["share_ratio"])
        for r in rows(scenes.tiny(), "overview_cells", max_bins=2, measure="exposed_comm")
    ] == [
        (0, 0, 2, 20 * MS, 25 * MS, 30 * MS, 0.2381),
        (0, 1, 1, 20 * MS, 20 * MS, 20 * MS, 0.1),
        (1, 0, 2, 10 * MS, 10 * MS, 10 * MS, 0.09524),
        (1, 1, 1, 110 * MS, 110 * MS, 110 * MS, 0.55),
    ]


def test_5000_steps_make_no_more_than_300_columns() -> None:
    bins = build(scenes.many(2, 5000), "many").step_bins
    assert (bins.height, bins["n_steps"].sum(), bins["n_steps"][0], bins["n_steps"][-1]) == (295, 5000, 17, 2)


def test_steps_of_two_captures_keep_their_order_and_their_own_times() -> None:
    con = scenes.tiny()
    con.execute("UPDATE rank_steps SET capture = 1 WHERE step = 10; UPDATE steps SET capture = 1 WHERE step = 10")
    found = [(r["capture"], r["first_step"], r["step_ns"]) for r in rows(con, "overview_step_bins")]
    assert found == [(0, 11, 110 * MS), (0, 12, 200 * MS), (1, 10, 101 * MS)]


def test_a_step_without_aligned_clocks_has_the_mean_window_for_its_time() -> None:
    con = scenes.tiny()
    con.execute("UPDATE steps SET duration_ns = NULL WHERE step = 10")
    found = [(r["step_ns"], r["n_mean_window_steps"]) for r in rows(con, "overview_step_bins")]
    assert found == [(100 * MS, 1), (110 * MS, 0), (200 * MS, 0)]
    assert build(con, "tiny").run.n_mean_window_steps == 1


def test_a_window_without_a_duration_is_left_out_and_not_counted_as_zero() -> None:
    con = scenes.tiny()
    con.execute("UPDATE rank_steps SET duration_ns = NULL, compute_ns = NULL WHERE run = 'tiny' AND rank = 1")
    con.execute("UPDATE rank_steps SET verdict = 'rank absent' WHERE run = 'tiny' AND rank = 1")
    data = build(con, "tiny")
    assert data.step_bins["compute_ns"].to_list() == [60 * MS, 60 * MS, 60 * MS]
    assert (data.run.n_windows, data.run.n_all_windows) == (3, 6)
    assert data.idle_cells["rank"].unique().to_list() == [0]


def test_only_the_ranks_with_the_largest_share_are_rows_of_a_heat_map() -> None:
    assert {r["rank"] for r in rows(scenes.tiny(), "overview_cells", max_ranks=1, measure="exposed_comm")} == {1}
    assert {r["rank"] for r in rows(scenes.tiny(), "overview_cells", max_ranks=1, measure="idle")} == {0}


def test_the_ends_of_a_heat_map_are_named(tiny: Overview) -> None:
    assert tiny.extremes.rows() == [
        ("exposed_comm", 2, 1, 130 / 410, 0, 70 / 410, 1, 12, 110 * MS),
        ("idle", 2, 0, 145 / 410, 1, 45 / 410, 0, 12, 115 * MS),
    ]


def test_the_paths_are_told_by_their_largest_kind_rank_and_what_is_not_explained(tiny: Overview) -> None:
    path = tiny.path
    assert (path.n_steps, path.path_ns, path.n_ranks, path.n_names) == (3, 411 * MS, 2, 7)
    assert (path.kind, path.kind_ratio, path.rank, path.rank_ratio) == ("compute", 210 / 411, 1, 246 / 411)
    assert (path.unknown_ratio, path.no_event_ratio, path.peer_ratio) == (25 / 411, 11 / 411, 0)


def test_a_column_of_paths_has_every_kind_and_adds_up_to_the_step(tiny: Overview) -> None:
    assert tiny.path_bins.rows() == [
        (0, 1, 60 * MS, 30 * MS, 0, 11 * MS, 0, 0, 0, 0, 0),
        (1, 1, 80 * MS, 0, 0, 30 * MS, 0, 0, 0, 0, 0),
        (2, 1, 70 * MS, 0, 0, 0, 0, 0, 0, 105 * MS, 25 * MS),
    ]


def test_paths_in_one_column_are_averaged_over_the_steps_that_have_one() -> None:
    con = scenes.tiny()
    con.execute("DELETE FROM step_critical_path WHERE step = 12")
    found = rows(con, "overview_path_bins", max_bins=1)
    assert [(r["bin"], r["n_paths"], r["compute_ns"], r["comm_ns"]) for r in found] == [(0, 2, 70 * MS, 15 * MS)]


def test_the_largest_names_of_the_paths_come_first(tiny: Overview) -> None:
    assert tiny.path_names.rows() == [
        ("compute", "gemm", 1, 150 * MS, 150 / 411, 2, 2),
        ("input", "next", 0, 105 * MS, 105 / 411, 1, 1),
        ("compute", "gemm", 0, 60 * MS, 60 / 411, 1, 1),
        ("comm", "AllReduce", 1, 30 * MS, 30 / 411, 1, 1),
        ("host", "aten::mm", 1, 30 * MS, 30 / 411, 1, 1),
        ("unknown", None, 1, 25 * MS, 25 / 411, 1, 1),
        ("host", "(no event)", 1, 11 * MS, 11 / 411, 1, 1),
    ]
    assert len(rows(scenes.tiny(), "overview_path_names", n_names=2)) == 2


def test_a_cell_of_late_time_is_zero_where_nobody_waited_for_the_rank(tiny: Overview) -> None:
    assert tiny.late_cells.select("rank", "bin", "value_mean_ns", "share_ratio").rows() == [
        (0, 0, 0, 0.0),
        (0, 1, 0, 0.0),
        (0, 2, 100 * MS, 0.5),
        (1, 0, 0, 0.0),
        (1, 1, MS, 0.00909),
        (1, 2, 0, 0.0),
    ]
    assert {r["rank"] for r in rows(scenes.tiny(), "overview_late_cells", max_late_ranks=1)} == {0}


def test_a_step_in_which_lateness_is_not_known_has_no_cell_of_late_time() -> None:
    con = scenes.tiny()
    con.execute("UPDATE steps SET duration_ns = NULL WHERE step = 10; UPDATE steps SET n_ranks = 1 WHERE step = 11")
    assert [(r["rank"], r["bin"]) for r in rows(con, "overview_late_cells")] == [(0, 2), (1, 2)]


def test_64_ranks_and_5000_steps_make_at_most_5000_rows_of_each_new_chart() -> None:
    data = build(scenes.many(64, 5000), "many")
    assert (data.late_cells.height, data.path_bins.height) == (16 * 295, 295)


def test_a_straggler_keeps_its_row_of_the_run(tiny: Overview) -> None:
    assert tiny.stragglers.rows() == [
        (
            *(0, "node0", 3, 1, 1 / 3, 100 * MS, 100 / 411, 0.1 / 3600),
            *("input", 100 * MS, 1.0, None, "transient", None, None, "one step: it may be chance"),
        )
    ]
    late = tiny.late
    assert (late.n_steps, late.n_known, late.n_step_ranks) == (3, 3, 2)
    assert (late.n_stragglers, late.n_straggler_steps, late.n_tie_steps, late.tie_ranks) == (1, 1, 0, None)
    assert (late.peak_rank, late.peak_step, late.peak_ns, late.peak_ratio) == (0, 12, 100 * MS, 0.5)


def test_workers_of_a_pipeline_are_a_grid_of_how_late_they_were_in_the_mean_step() -> None:
    """Rank 0 is 100 ms late in one of three steps, of 411 ms together; rank 1 1 ms, below the noise."""
    assert [tuple(row.values()) for row in rows(scenes.gridded(), "overview_worker_cells")] == [
        (0, 0, "0", 33_333_333, 0.24331, 60 * MS, True),
        (0, 1, "1", 333_333, 0.00243, 73_333_333, False),
    ]


def test_there_is_no_grid_where_a_place_is_not_known_or_all_are_one_stage() -> None:
    con = scenes.gridded()
    con.execute("UPDATE ranks SET pp = NULL WHERE rank = 1")
    assert rows(con, "overview_worker_cells") == []
    con.execute("UPDATE ranks SET pp = 0")
    assert rows(con, "overview_worker_cells") == []


def test_ranks_that_tie_are_named_together_and_others_of_the_step_are_not() -> None:
    con = scenes.views()
    scenes.add(con, "runs", [{"run": "tiny", "verdict": "ok"}])
    scenes.add(con, "steps", [{"run": "tiny", "capture": 0, "step": 1, "duration_ns": 100 * MS, "n_ranks": 8}])
    late = {6: (40, "a tie: another rank is late by more than half of it"), 0: (30, "another rank is later")}
    late |= {2: (9, "another rank is later")}
    scenes.add(
        con,
        "step_stragglers",
        [
            {"run": "tiny", "step": 1, "rank": rank, "late_ns": ms * MS, "is_straggler": False, "verdict": verdict}
            for rank, (ms, verdict) in late.items()
        ],
    )
    found = build(con, "tiny").late
    assert (found.n_tie_steps, found.tie_ranks, found.n_stragglers) == (1, "0, 6", 0)


def test_kernels_are_summed_over_ranks_and_steps_and_ordered_by_exposed_time(tiny: Overview) -> None:
    assert tiny.kernels.rows() == [
        (1, "gemm", "compute", None, 1, 24, 360 * MS, 360 * MS, 360 / 820, 60 * MS, 60 * MS),
        (2, "AllReduce", "comm", "name", 1, 12, 180 * MS, 120 * MS, 120 / 820, 30 * MS, 20 * MS),
        (3, "Memcpy HtoD", "copy", None, 1, 6, 30 * MS, 30 * MS, 30 / 820, 5 * MS, 5 * MS),
    ]


def test_kernels_beyond_the_limit_are_one_row_that_says_how_many() -> None:
    found = rows(scenes.tiny(), "overview_kernels", n_kernels=1)
    assert [(r["name"], r["n_names"], r["n_calls"], r["exposed_ns"]) for r in found] == [
        ("gemm", 1, 24, 360 * MS),
        (None, 2, 18, 150 * MS),
    ]


def test_a_rank_is_the_sum_of_its_windows(tiny: Overview) -> None:
    late = tiny.ranks.to_dicts()[1]
    assert (late["rank"], late["host"], late["source"], late["n_windows"]) == (1, "node1", "rank_steps", 3)
    assert (late["window_ns"], late["compute_ratio"]) == (110 * MS, 220 / 410)
    assert (late["exposed_comm_ratio"], late["exposed_copy_ratio"], late["idle_ratio"]) == (
        130 / 410,
        15 / 410,
        45 / 410,
    )
    assert (late["idle_input_ratio"], late["idle_host_ratio"], late["idle_launch_ratio"]) == (
        15 / 410,
        24 / 410,
        3 / 410,
    )
    assert (late["n_unlinked"], late["n_bad_windows"], late["verdict"]) == (3, 2, "launches missing")


def test_the_reasons_of_a_ranks_windows_are_joined_once_each() -> None:
    con = scenes.tiny()
    con.execute("UPDATE rank_steps SET verdict = 'dump truncated; launches missing' WHERE rank = 1 AND step = 12")
    assert build(con, "tiny").ranks["verdict"].to_list() == ["ok", "dump truncated; launches missing"]


def test_ranks_that_are_not_ok_are_never_the_ones_left_out() -> None:
    assert [r["rank"] for r in rows(scenes.tiny(), "overview_ranks", max_ranks=1)] == [1]


def test_a_recorded_rank_without_windows_says_so() -> None:
    con = scenes.tiny()
    con.execute("DELETE FROM rank_steps WHERE rank = 0")
    assert build(con, "tiny").ranks.select("rank", "n_windows", "window_ns", "verdict").rows() == [
        (0, 0, None, "no window"),
        (1, 3, 110 * MS, "launches missing"),
    ]


def test_a_run_without_steps_is_told_from_its_captures() -> None:
    data = build(scenes.without_steps(), "tiny")
    assert (data.run.window_source, data.run.n_timed_steps, data.run.window_median_ns) == ("rank_captures", 0, 410 * MS)
    assert data.run.compute_ratio == 400 / 820
    assert data.ranks["source"].to_list() == ["rank_captures", "rank_captures"]
    assert data.kernels["share_ratio"][0] == 360 / 820
    assert (data.step_bins.height, data.comm_cells.height, data.idle_cells.height) == (0, 0, 0)


def test_one_recorded_rank_of_sixteen_is_named() -> None:
    data = build(scenes.one_rank_of_sixteen(), "tiny")
    assert (data.run.recorded_ranks, data.run.world_size, data.run.n_mean_window_steps) == ("1", 16, 3)
    assert data.ranks["rank"].to_list() == [1]


def test_a_run_that_recorded_nothing_has_empty_frames_and_no_shares() -> None:
    data = build(scenes.nothing(), "tiny")
    assert (data.run.n_windows, data.run.compute_ratio, data.run.recorded_ranks) == (0, None, None)
    assert (data.kernels.height, data.ranks.height, data.extremes.height, data.verdicts.height) == (0, 0, 0, 0)
    assert (data.path.n_steps, data.path.kind, data.path.kind_ratio, data.path_names.height) == (0, None, None, 0)
    assert (data.late.n_steps, data.late.peak_rank, data.late_cells.height, data.stragglers.height) == (0, None, 0, 0)


def test_verdicts_are_grouped_with_their_steps_as_ranges() -> None:
    con = scenes.many(2, 40, first_step=0)
    con.execute("UPDATE steps SET verdict = 'clock not aligned' WHERE step IN (3, 5, 6, 7, 9)")
    con.execute("UPDATE rank_steps SET verdict = 'launches missing' WHERE rank = 1 AND step < 30")
    con.execute("UPDATE rank_steps SET verdict = NULL WHERE rank = 0 AND step = 39")
    assert build(con, "many").verdicts.rows() == [
        ("steps", "clock not aligned", 5, None, "3, 5–7, 9"),
        ("rank_steps", "launches missing", 30, 1, "0–29"),
        ("rank_steps", "no verdict", 1, 1, "39"),
    ]
    assert rows(con, "overview_verdicts", run="many", max_ranges=2)[0]["step_ranges"] == "3, 5–7 and 1 more"


def test_checks_and_dumps_that_are_not_ok_come_first(tiny: Overview) -> None:
    assert tiny.coverage.rows() == [
        ("events", 1000, 990, "10 events are malformed", 2),
        ("ranks", 2, 2, "ok", 2),
    ]
    assert tiny.dumps.rows() == [
        ("b2", "rank1.json.gz", 1, 500, 2, 10, 1, True, "truncated", None, 2),
        ("a1", "rank0.json.gz", 0, 500, 2, 0, 0, False, "ok", None, 2),
    ]


def test_a_run_name_is_a_value_and_never_sql() -> None:
    name = "x'; DROP TABLE runs; --"
    con = scenes.tiny(run=name)
    assert build(con, name).run.run == name
    assert con.sql("SELECT count(*) FROM runs").fetchall() == [(2,)]


def test_exchanges_are_summed_over_the_steps_of_their_kind_of_group(tiny: Overview) -> None:
    (row,) = tiny.exchanges.to_dicts()
    assert (row["dimension"], row["op"], row["n_groups"], row["n_ranks"], row["n_instances"]) == (
        *("dp", "all_reduce", 1, 2),
        4,
    )
    assert (row["n_bytes"], row["exposed_ns"], row["wait_ratio"]) == (2_000_000, 82 * MS, 0.25)
    assert row["exposed_ratio"] == 82 / 820


def test_the_ledger_is_summed_over_steps_and_each_part_begins_where_the_one_before_ends(tiny: Overview) -> None:
    rows = tiny.ledger.select("part", "device_ns", "start_ratio", "end_ratio").rows()
    assert [(part, ns) for part, ns, *_ in rows] == [
        ("compute", 260 * MS),
        ("transfer", 90 * MS),
        ("idle_input", 20 * MS),
        ("skew", 50 * MS),
    ]
    assert [start for *_, start, _ in rows] == pytest.approx([0, 260 / 420, 350 / 420, 370 / 420])
    assert [end for *_, end in rows] == pytest.approx([260 / 420, 350 / 420, 370 / 420, 1])


def test_changes_that_save_nothing_are_no_opportunities(tiny: Overview) -> None:
    assert [(o.words, o.saved_ns) for o in tiny.opportunities] == [
        ("rank 0 at the ranks' median", 30 * MS),
        ("host in `gemm` gone", 333_333),
    ]


def test_ranks_without_a_row_in_the_heat_map_are_bands_by_stage() -> None:
    bands = build(scenes.many(72, 20), "many").comm_bands
    assert set(bands["grouped_by"]) == {"stage"}
    sizes = bands.group_by("place").agg(pl.col("n_ranks").max()).sort("place").rows()
    assert ([place for place, _ in sizes], sum(n for _, n in sizes)) == ([0, 1], 8)
    assert bands.filter(
        (pl.col("low_ratio") > pl.col("mid_ratio")) | (pl.col("mid_ratio") > pl.col("high_ratio"))
    ).is_empty()


def test_bands_are_by_host_where_stages_are_not_known_and_of_all_where_nothing_is() -> None:
    con = scenes.many(80, 20)
    con.execute("UPDATE ranks SET pp = NULL")
    bands = build(con, "many").comm_bands
    assert set(bands["grouped_by"]) == {"host"}
    assert bands.group_by("place").agg(pl.col("n_ranks").max())["n_ranks"].sum() == 16
    con.execute("UPDATE ranks SET host = NULL")
    bands = build(con, "many").comm_bands
    assert (set(bands["grouped_by"]), set(bands["place"]), bands["n_ranks"].max()) == ({"rank"}, {-1}, 16)


def test_no_band_is_drawn_where_every_rank_has_a_row() -> None:
    assert build(scenes.many(64, 20), "many").comm_bands.is_empty()
