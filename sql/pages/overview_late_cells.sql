-- One row per rank and column of the step charts: how long other ranks waited for it there.
--
-- rank             INTEGER  Rank, one of the $max_late_ranks that were waited for longest over all steps.
-- bin              BIGINT   Place of the column, as in overview_step_bins.
-- n_steps          BIGINT   Steps of the column that the rank recorded and in which lateness is known.
-- value_mean_ns    BIGINT   Mean time it was late in those steps.
-- value_min_ns     BIGINT   Shortest.
-- value_median_ns  BIGINT   Median; an observed value.
-- value_max_ns     BIGINT   Longest.
-- share_ratio      DOUBLE   Share of the step time in the column, to 5 decimals; NULL for steps without length.
--
-- How: a step for which nobody waited for the rank counts as 0. No rows where nobody was waited for in any step.
-- Parameters: $run, $max_bins, $max_late_ranks.
WITH known AS (
    SELECT
        capture,
        step,
        duration_ns
    FROM steps
    WHERE run = $run AND duration_ns IS NOT NULL AND n_ranks > 1
),

late AS (
    SELECT
        step,
        rank,
        late_ns
    FROM step_stragglers
    WHERE run = $run
),

measured AS (
    SELECT
        rank_steps.rank,
        known.capture,
        known.step,
        known.duration_ns,
        coalesce(late.late_ns, 0) AS value_ns
    FROM known
    INNER JOIN rank_steps ON known.capture = rank_steps.capture AND known.step = rank_steps.step
    LEFT JOIN late ON known.step = late.step AND rank_steps.rank = late.rank
    WHERE rank_steps.run = $run AND EXISTS (FROM late)
),

shown AS (
    SELECT rank
    FROM measured
    GROUP BY rank
    ORDER BY sum(value_ns) DESC, rank
    LIMIT $max_late_ranks
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
