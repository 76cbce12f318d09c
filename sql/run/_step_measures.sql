-- One row per measure, step: what is followed from run to run, step by step.
--
-- measure   VARCHAR  As in run_measures.
-- step      BIGINT   Number of the step.
-- value     DOUBLE   Of the step alone.
-- part      DOUBLE   Of a share: what is summed over steps.
-- whole     DOUBLE   And by what the sum is divided.
--
-- Scope: measures
WITH windows AS (
    SELECT
        step,
        quantile_disc(duration_ns, 0.5) AS median_ns,
        sum(exposed_comm_ns)::DOUBLE AS exposed_ns,
        sum(duration_ns)::DOUBLE AS sum_ns
    FROM rank_steps
    GROUP BY step
),

sizes AS (
    SELECT
        rank,
        device_index,
        max(device_memory_bytes)::DOUBLE AS device_bytes
    FROM dumps
    GROUP BY rank, device_index
),

memory AS (
    SELECT
        rank_memory.step,
        max(rank_memory.peak_allocated_bytes / sizes.device_bytes) AS ratio
    FROM rank_memory
    JOIN sizes ON rank_memory.rank = sizes.rank AND rank_memory.device = sizes.device_index
    WHERE rank_memory.step IS NOT NULL AND sizes.device_bytes > 0
    GROUP BY rank_memory.step
)

SELECT
    'step_time_ns' AS measure,
    coalesce(steps.step, windows.step) AS step,
    coalesce(steps.duration_ns, windows.median_ns)::DOUBLE AS value,
    NULL::DOUBLE AS part,
    NULL::DOUBLE AS whole
FROM windows
FULL JOIN steps ON windows.step = steps.step
WHERE coalesce(steps.duration_ns, windows.median_ns) IS NOT NULL
UNION ALL
SELECT
    'exposed_comm_ratio' AS measure,
    step,
    exposed_ns / sum_ns AS value,
    exposed_ns AS part,
    sum_ns AS whole
FROM windows
WHERE sum_ns > 0
UNION ALL
SELECT
    'straggler_ratio' AS measure,
    step,
    coalesce(straggler_ns, 0) / duration_ns AS value,
    coalesce(straggler_ns, 0)::DOUBLE AS part,
    duration_ns::DOUBLE AS whole
FROM steps
WHERE n_ranks > 1 AND duration_ns > 0
UNION ALL
SELECT
    'mfu_ratio' AS measure,
    step,
    mfu_ratio AS value,
    NULL::DOUBLE AS part,
    NULL::DOUBLE AS whole
FROM step_mfu
WHERE mfu_ratio IS NOT NULL
UNION ALL
SELECT
    'memory_ratio' AS measure,
    step,
    ratio AS value,
    NULL::DOUBLE AS part,
    NULL::DOUBLE AS whole
FROM memory
WHERE ratio IS NOT NULL
