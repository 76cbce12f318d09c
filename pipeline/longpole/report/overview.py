"""What the overview page shows, as plain data: every number comes out of one query of sql/pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from longpole.errors import LongpoleError
from longpole.report import answers
from longpole.whatif import Change

MAX_STEP_BINS = 300
"""Columns of a step chart: at the 1,100 px of a wide page a column is still more than 3 px wide."""

MAX_HEAT_ROWS = 64
"""Rows of a heat map: eight hosts of eight devices, still readable without scrolling past the legend."""

MAX_BANDS = 8
"""Groups of the ranks without a row in a heat map: more bands than these cannot be told apart."""

N_KERNELS = 40
"""Rows of the kernel table: beyond these a name rarely explains 0.1 % of a window."""

MAX_RANK_ROWS = 256
"""Rows of the ranks table: with a bar and twelve numbers each, more would dominate the size of the page."""

MAX_DUMP_ROWS = 256
"""Rows of the dumps table; files that are not ok come first."""

MAX_CHECK_ROWS = 256
"""Rows of the coverage table; checks that are not ok come first."""

MAX_VERDICT_ROWS = 64
"""Rows of the verdict table: a verdict may quote what a dump says, so their number has no bound of its own."""

MAX_LATE_ROWS = 16
"""Rows of the heat maps of late time: who was waited for is one rank or a few; with 300 columns 4,800 cells."""

N_PATH_NAMES = 10
"""Rows of the table of what the paths were made of: beyond these a name rarely is 1 % of them."""

MAX_STRAGGLER_ROWS = 64
"""Rows of the table of stragglers, those waited for longest first."""

MAX_OPPORTUNITIES = 8
"""Changes listed: beyond these one rarely saves a hundredth."""

MAX_EXCHANGE_ROWS = 24
"""Rows of the table of exchanges, the most exposed first: three operations in each of eight dimensions."""

MAX_STAGE_ROWS = 64
"""Rows of the table of pipeline stages."""

MAX_RANGES = 12
"""Ranges of ranks or steps spelt out in one line of text."""


@dataclass(frozen=True)
class Run:
    """The row of sql/pages/overview_run.sql, whose header says what each value means."""

    run: str
    world_size: int | None
    n_ranks: int | None
    n_steps: int | None
    device: str | None
    first_ns: int | None
    last_ns: int | None
    verdict: str | None
    reasons: tuple[str, ...]
    recorded_ranks: str | None
    window_source: str | None
    step_sources: str | None
    first_step: int | None
    last_step: int | None
    n_captures: int
    n_timed_steps: int
    n_mean_window_steps: int
    step_p05_ns: int | None
    step_median_ns: int | None
    step_p95_ns: int | None
    step_min_ns: int | None
    step_max_ns: int | None
    slowest_step: int | None
    n_windows: int
    n_all_windows: int
    n_window_ranks: int
    n_bad_windows: int
    window_median_ns: int | None
    compute_ratio: float | None
    exposed_comm_ratio: float | None
    exposed_copy_ratio: float | None
    idle_ratio: float | None
    idle_input_ratio: float | None
    idle_sync_ratio: float | None
    idle_host_ratio: float | None
    idle_launch_ratio: float | None
    idle_turnaround_ratio: float | None
    idle_other_ratio: float | None
    hidden_comm_ratio: float | None
    n_activities: int
    n_unlinked: int
    n_dumps: int
    n_bad_dumps: int
    n_checks: int
    n_bad_checks: int


@dataclass(frozen=True)
class Path:
    """The row of sql/pages/overview_path.sql: what all critical paths together were made of."""

    n_steps: int
    path_ns: int
    n_ranks: int
    kind: str | None
    kind_ratio: float | None
    rank: int | None
    rank_ratio: float | None
    n_names: int
    unknown_ratio: float | None
    no_event_ratio: float | None
    peer_ratio: float | None


@dataclass(frozen=True)
class Late:
    """The row of sql/pages/overview_late.sql: whether anybody was waited for, and why nobody is named."""

    n_steps: int
    n_known: int
    n_step_ranks: int | None
    has_collectives: bool
    n_stragglers: int
    n_straggler_steps: int
    n_place_steps: int
    n_tie_steps: int
    tie_ranks: str | None
    peak_rank: int | None
    peak_step: int | None
    peak_ns: int | None
    peak_ratio: float | None
    peak_place: str | None
    peak_doubt: str | None


@dataclass(frozen=True)
class Key:
    """The row of sql/pages/overview_key.sql: what the first screen says beside the run's own row."""

    trend: str | None
    trend_ratio: float | None
    mfu_ratio: float | None
    hfu_ratio: float | None
    tokens_per_s: float | None
    mfu_reason: str | None
    mfu_convention: str | None
    slowdown_ratio: float | None
    has_what_ifs: bool
    memory_bytes: int | None
    memory_rank: int | None
    device_bytes: int | None


@dataclass(frozen=True)
class Opportunity:
    """A row of sql/pages/overview_opportunities.sql, with the change in words."""

    words: str
    n_steps: int
    saved_ns: int
    speedup_ratio: float
    verdict: str


@dataclass(frozen=True)
class Overview:
    """Everything the page shows; each frame is the answer of the query overview_<field> in sql/pages.

    `comm_cells` and `idle_cells` are both overview_cells, for the two measures; so are the bands.
    """

    run: Run
    path: Path
    late: Late
    key: Key
    opportunities: tuple[Opportunity, ...]
    exchanges: pl.DataFrame
    ledger: pl.DataFrame
    stages: pl.DataFrame
    step_bins: pl.DataFrame
    comm_cells: pl.DataFrame
    idle_cells: pl.DataFrame
    comm_bands: pl.DataFrame
    idle_bands: pl.DataFrame
    path_bins: pl.DataFrame
    path_names: pl.DataFrame
    late_cells: pl.DataFrame
    worker_cells: pl.DataFrame
    stragglers: pl.DataFrame
    extremes: pl.DataFrame
    kernels: pl.DataFrame
    ranks: pl.DataFrame
    coverage: pl.DataFrame
    dumps: pl.DataFrame
    verdicts: pl.DataFrame


def build(con: duckdb.DuckDBPyConnection, run: str) -> Overview:
    """Return the overview of one run of the store behind `con`.

    Raises:
        LongpoleError: The store has no run of that name.
    """
    rows = answers.rows(con, "overview_run", run=run, max_ranges=MAX_RANGES)
    if not rows:
        raise LongpoleError(f"the store has no run named {run!r}", "`longpole runs` lists the runs it has.")
    head: dict[str, Any] = rows[0] | {"reasons": tuple(rows[0]["reasons"] or ())}
    cells = {"run": run, "max_bins": MAX_STEP_BINS, "max_ranks": MAX_HEAT_ROWS}
    return Overview(
        run=Run(**head),
        path=Path(**answers.rows(con, "overview_path", run=run)[0]),
        late=Late(**answers.rows(con, "overview_late", run=run, max_ranges=MAX_RANGES)[0]),
        key=Key(**answers.rows(con, "overview_key", run=run)[0]),
        opportunities=tuple(
            _opportunity(row)
            for row in answers.rows(con, "overview_opportunities", run=run, max_opportunities=MAX_OPPORTUNITIES)
        ),
        exchanges=answers.frame(con, "overview_exchanges", run=run, max_exchanges=MAX_EXCHANGE_ROWS),
        ledger=answers.frame(con, "overview_ledger", run=run),
        stages=answers.frame(con, "overview_stages", run=run, max_stages=MAX_STAGE_ROWS),
        step_bins=answers.frame(con, "overview_step_bins", run=run, max_bins=MAX_STEP_BINS),
        comm_cells=answers.frame(con, "overview_cells", measure="exposed_comm", **cells),
        idle_cells=answers.frame(con, "overview_cells", measure="idle", **cells),
        comm_bands=answers.frame(con, "overview_bands", measure="exposed_comm", max_bands=MAX_BANDS, **cells),
        idle_bands=answers.frame(con, "overview_bands", measure="idle", max_bands=MAX_BANDS, **cells),
        path_bins=answers.frame(con, "overview_path_bins", run=run, max_bins=MAX_STEP_BINS),
        path_names=answers.frame(con, "overview_path_names", run=run, n_names=N_PATH_NAMES),
        late_cells=answers.frame(
            con, "overview_late_cells", run=run, max_bins=MAX_STEP_BINS, max_late_ranks=MAX_LATE_ROWS
        ),
        worker_cells=answers.frame(
            con, "overview_worker_cells", run=run, max_late_ranks=MAX_LATE_ROWS, max_ranges=MAX_RANGES
        ),
        stragglers=answers.frame(con, "overview_stragglers", run=run, max_stragglers=MAX_STRAGGLER_ROWS),
        extremes=answers.frame(con, "overview_extremes", run=run),
        kernels=answers.frame(con, "overview_kernels", run=run, n_kernels=N_KERNELS),
        ranks=answers.frame(con, "overview_ranks", run=run, max_ranks=MAX_RANK_ROWS),
        coverage=answers.frame(con, "overview_coverage", run=run, max_checks=MAX_CHECK_ROWS),
        dumps=answers.frame(con, "overview_dumps", run=run, max_dumps=MAX_DUMP_ROWS),
        verdicts=answers.frame(con, "overview_verdicts", run=run, max_ranges=MAX_RANGES, max_verdicts=MAX_VERDICT_ROWS),
    )


def _opportunity(row: dict[str, Any]) -> Opportunity:
    change = Change(row["what"], row["kind"], row["rank"], row["pattern"], factor=row["factor"])
    return Opportunity(change.in_words(), row["n_steps"], row["saved_ns"], row["speedup_ratio"], row["verdict"])
