-- One row: the figures of the first screen that are not the run's own row: trend, MFU, cost of stragglers, first thing to fix.
--
-- trend             VARCHAR  longer, shorter or steady: the median step time of the last third of the steps beside that of the
--     first; steady within half of what the middle half of the steps spans. NULL with fewer than nine steps.
-- trend_ratio       DOUBLE   By how much the two differ, of the first's; NULL likewise.
-- mfu_ratio         DOUBLE   As in run_mfu.
-- hfu_ratio         DOUBLE   As in run_mfu.
-- tokens_per_s      DOUBLE   As in run_mfu.
-- mfu_reason        VARCHAR  As in run_mfu.
-- mfu_convention    VARCHAR  As in run_mfu.
-- slowdown_ratio    DOUBLE   S of the run: recorded over all ranks at their median; NULL where no what-if was made.
-- has_what_ifs      BOOLEAN  Whether what-ifs of the run were made.
-- memory_bytes      BIGINT   Most memory that a rank had allocated on a device; NULL where no dump has allocations with totals.
-- memory_rank       INTEGER  That rank, the lowest of equals; NULL as above.
-- device_bytes      BIGINT   Memory of its device; NULL where its dumps do not say.
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
),

trends AS (
    SELECT
        spread_ratio,
        last_third_ns / nullif(first_third_ns, 0) - 1 AS change_ratio
    FROM thirds
),

peak AS (
    SELECT
        max(peak_allocated_bytes) AS memory_bytes,
        arg_min(rank, (-peak_allocated_bytes, rank)) AS memory_rank,
        arg_min(device, (-peak_allocated_bytes, rank)) AS device
    FROM rank_memory
    WHERE run = $run AND device IS NOT NULL AND peak_allocated_bytes IS NOT NULL
),

whole AS (
    SELECT max(dumps.device_memory_bytes) AS device_bytes
    FROM peak
    JOIN dumps ON dumps.run = $run AND dumps.rank = peak.memory_rank AND dumps.device_index = peak.device
)

SELECT
    CASE
        WHEN trends.change_ratio IS NULL OR trends.spread_ratio IS NULL THEN NULL
        WHEN abs(trends.change_ratio) <= trends.spread_ratio THEN 'steady'
        WHEN trends.change_ratio > 0 THEN 'longer'
        ELSE 'shorter'
    END AS trend,
    abs(trends.change_ratio) AS trend_ratio,
    mfu.mfu_ratio,
    mfu.hfu_ratio,
    mfu.tokens_per_s,
    mfu.reason AS mfu_reason,
    mfu.convention AS mfu_convention,
    slowdown.value_ratio AS slowdown_ratio,
    EXISTS (SELECT 1 FROM run_opportunities WHERE run = $run) AS has_what_ifs,
    peak.memory_bytes,
    peak.memory_rank,
    whole.device_bytes
FROM trends
CROSS JOIN peak
CROSS JOIN whole
LEFT JOIN run_mfu AS mfu ON mfu.run = $run
LEFT JOIN run_whatif AS slowdown ON slowdown.run = $run AND slowdown.measure = 'S' AND slowdown.dimension = 'run'
