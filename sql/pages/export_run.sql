-- One row: what of a run there is to export, and whether its ranks share one time.
--
-- n_steps    BIGINT   Steps that any rank recorded.
-- first_step BIGINT   The first; NULL without any.
-- last_step  BIGINT   The last; NULL without any.
-- is_aligned BOOLEAN  Whether every rank's times can be compared with every other's.
-- clocks     VARCHAR  How they were aligned and how well, or why they are not.
--
-- How: Parameters: $run.
WITH windows AS (
    SELECT
        count(DISTINCT step) AS n_steps,
        min(step) AS first_step,
        max(step) AS last_step
    FROM rank_steps
    WHERE run = $run
),

counted AS (
    SELECT
        count(*) AS n_ranks,
        count(DISTINCT clock_no) AS n_clocks,
        count(*) FILTER (basis = 'collectives') AS n_fitted,
        median(residual_ns) AS residual_ns
    FROM rank_clocks
    WHERE run = $run
),

doubts AS (
    SELECT any_value(reason) AS reason
    FROM (SELECT unnest(reasons) AS reason FROM runs WHERE run = $run)
    WHERE starts_with(reason, 'clock not aligned')
)

SELECT
    windows.n_steps,
    windows.first_step,
    windows.last_step,
    counted.n_clocks <= 1 AS is_aligned,
    CASE
        WHEN counted.n_ranks <= 1 THEN 'one rank, its own clock'
        WHEN counted.n_clocks > 1 THEN coalesce(doubts.reason, 'clock not aligned')
        WHEN counted.n_fitted > 0
            THEN 'aligned by collective ends, to ' || round(counted.residual_ns / 1e3, 1) || ' µs'
        ELSE 'one clock, that of the ranks'' host'
    END AS clocks
FROM windows
CROSS JOIN counted
CROSS JOIN doubts
