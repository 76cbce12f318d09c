-- One row per rank and column of the step charts: how much of the rank's window one measure takes there.
--
-- rank             INTEGER  Rank, one of the $max_ranks with the largest share over all steps.
-- bin              BIGINT   Place of the column, as in overview_step_bins.
-- n_steps          BIGINT   Steps the rank recorded in the column.
-- value_mean_ns    BIGINT   Mean of the measure over those steps.
-- value_min_ns     BIGINT   Smallest.
-- value_median_ns  BIGINT   Median; an observed value.
-- value_max_ns     BIGINT   Largest.
-- share_ratio      DOUBLE   Share of the rank's windows in the column, to 5 decimals; NULL for windows without length.
--
-- How: $measure is 'exposed_comm' or 'idle'. A window without a duration is left out. Parameters: $run, $measure,
-- $max_bins, $max_ranks.
WITH measured AS (
    SELECT
        rank,
        capture,
        step,
        duration_ns,
        CASE $measure WHEN 'exposed_comm' THEN exposed_comm_ns WHEN 'idle' THEN idle_ns END AS value_ns
    FROM rank_steps
    WHERE run = $run AND duration_ns IS NOT NULL
),

shown AS (
    SELECT rank
    FROM measured
    GROUP BY rank
    ORDER BY sum(value_ns) / nullif(sum(duration_ns), 0) DESC NULLS LAST, rank
    LIMIT $max_ranks
),

binned AS (
    SELECT
        capture,
        step,
        step_bin(place, n_steps, $max_bins::BIGINT) AS bin
    FROM step_order
    WHERE run = $run
)

SELECT
    measured.rank,
    binned.bin,
    count(*) AS n_steps,
    round(avg(measured.value_ns))::BIGINT AS value_mean_ns,
    min(measured.value_ns) AS value_min_ns,
    quantile_disc(measured.value_ns, 0.5) AS value_median_ns,
    max(measured.value_ns) AS value_max_ns,
    round(sum(measured.value_ns) / nullif(sum(measured.duration_ns), 0), 5) AS share_ratio
FROM measured
INNER JOIN shown USING (rank)
INNER JOIN binned USING (capture, step)
GROUP BY measured.rank, binned.bin
ORDER BY measured.rank, binned.bin
