-- One row: the figures of the first screen that are not the run's own row: trend, MFU, cost of stragglers, first thing to fix.
--
-- first_third_ns    BIGINT   Median step time of the first third of the steps; NULL with fewer than nine.
-- last_third_ns     BIGINT   Of the last third; NULL likewise.
-- trend_ratio       DOUBLE   last_third_ns beyond first_third_ns; NULL likewise.
-- spread_ratio      DOUBLE   Half of what the middle half of the steps spans, of the median: a trend below it is noise.
-- mfu_ratio         DOUBLE   As in run_mfu.
-- hfu_ratio         DOUBLE   As in run_mfu.
-- mfu_trend         VARCHAR  As in run_mfu.
-- tokens_per_s      DOUBLE   As in run_mfu.
-- mfu_reason        VARCHAR  As in run_mfu.
-- mfu_convention    VARCHAR  As in run_mfu.
-- slowdown_ratio    DOUBLE   S of the run: recorded over all ranks at their median; NULL where no what-if was made.
-- has_what_ifs      BOOLEAN  Whether what-ifs of the run were made.
--
-- How: parameters: $run.
WITH placed AS (
    SELECT
        duration_ns,
        ntile(3) OVER (ORDER BY capture, step) AS third,
        count(*) OVER () AS n_steps
    FROM steps
    WHERE run = $run AND duration_ns IS NOT NULL
),

thirds AS (
    SELECT
        quantile_disc(duration_ns, 0.5) FILTER (third = 1 AND n_steps >= 9) AS first_third_ns,
        quantile_disc(duration_ns, 0.5) FILTER (third = 3 AND n_steps >= 9) AS last_third_ns,
        (quantile_disc(duration_ns, 0.75) - quantile_disc(duration_ns, 0.25)) / 2 / nullif(quantile_disc(duration_ns, 0.5), 0)
            AS spread_ratio
    FROM placed
)

SELECT
    thirds.first_third_ns,
    thirds.last_third_ns,
    thirds.last_third_ns / nullif(thirds.first_third_ns, 0) - 1 AS trend_ratio,
    thirds.spread_ratio,
    mfu.mfu_ratio,
    mfu.hfu_ratio,
    mfu.trend AS mfu_trend,
    mfu.tokens_per_s,
    mfu.reason AS mfu_reason,
    mfu.convention AS mfu_convention,
    slowdown.value_ratio AS slowdown_ratio,
    EXISTS (SELECT 1 FROM run_opportunities WHERE run = $run) AS has_what_ifs
FROM thirds
LEFT JOIN run_mfu AS mfu ON mfu.run = $run
LEFT JOIN run_whatif AS slowdown ON slowdown.run = $run AND slowdown.measure = 'S' AND slowdown.dimension = 'run'
