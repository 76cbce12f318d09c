-- One row per measure that has a heat map: the ranks at its two ends, over all steps.
--
-- measure     VARCHAR  'exposed_comm' or 'idle'.
-- n_ranks     BIGINT   Ranks compared.
-- max_rank    INTEGER  Rank with the largest share of its windows; the first of equals.
-- max_ratio   DOUBLE   That share.
-- min_rank    INTEGER  Rank with the smallest share; the first of equals.
-- min_ratio   DOUBLE   That share.
-- peak_rank   INTEGER  Rank of the single window in which the measure took longest; the first of equals.
-- peak_step   BIGINT   Step of that window.
-- peak_ns     BIGINT   The measure in that window.
--
-- How: a rank's share divides sums over its windows. Windows without a duration are left out. Parameters: $run.
WITH measured AS (
    SELECT
        measure,
        rank,
        capture,
        step,
        duration_ns,
        CASE measure WHEN 'exposed_comm' THEN exposed_comm_ns ELSE idle_ns END AS value_ns
    FROM rank_steps
    CROSS JOIN (VALUES ('exposed_comm'), ('idle')) AS measures (measure)
    WHERE run = $run AND duration_ns IS NOT NULL
),

shares AS (
    SELECT
        measure,
        rank,
        sum(value_ns) / nullif(sum(duration_ns), 0) AS share_ratio
    FROM measured
    GROUP BY measure, rank
),

ends AS (
    SELECT
        measure,
        count(*) AS n_ranks,
        first(rank ORDER BY share_ratio DESC, rank) AS max_rank,
        max(share_ratio) AS max_ratio,
        first(rank ORDER BY share_ratio, rank) AS min_rank,
        min(share_ratio) AS min_ratio
    FROM shares
    WHERE share_ratio IS NOT NULL
    GROUP BY measure
),

peaks AS (
    SELECT
        measure,
        rank AS peak_rank,
        step AS peak_step,
        value_ns AS peak_ns
    FROM measured
    QUALIFY row_number() OVER (PARTITION BY measure ORDER BY value_ns DESC, rank, capture, step) = 1
)

SELECT
    ends.measure,
    ends.n_ranks,
    ends.max_rank,
    ends.max_ratio,
    ends.min_rank,
    ends.min_ratio,
    peaks.peak_rank,
    peaks.peak_step,
    peaks.peak_ns
FROM ends
INNER JOIN peaks USING (measure)
ORDER BY ends.measure
