-- One row per measure: a number of the whole run that is followed from run to run.
--
-- measure  VARCHAR  step_time_ns: median step time, of windows where clocks are not aligned. mfu_ratio. exposed_comm_ratio:
--     share of the ranks' windows. straggler_ratio: how late stragglers were, of the time of all steps. coverage_ratio: the
--     least of what run_coverage found by what it expected. goodput_ratio: train time, by run_goodput's wall time.
--     memory_ratio: the most that a rank had allocated in a step, of its device's memory.
-- value    DOUBLE   The number; NULL with a reason.
-- noise    DOUBLE   How well its steps say it: standard error, of the step time by the median deviation. NULL with fewer than
--     two steps, or where it is no number of steps.
-- n_steps  BIGINT   Steps behind it; NULL where it is no number of steps.
-- reason   VARCHAR  Why value is NULL; what limits coverage; else NULL.
--
-- Scope: measures
-- Order: measure
WITH spread AS (
    SELECT
        measure,
        count(*) AS n_steps,
        quantile_disc(value, 0.5) AS median,
        sum(part) / sum(whole) AS ratio,
        -- The standard error of a median is 1.2533 of a mean's; 1.4826 median deviations are a standard deviation.
        CASE
            WHEN count(*) < 2 THEN NULL
            WHEN measure = 'step_time_ns' THEN 1.2533 * 1.4826 * mad(value) / sqrt(count(*))
            ELSE stddev_samp(value) / sqrt(count(*))
        END AS noise
    FROM _step_measures
    GROUP BY measure
),

coverage AS (
    SELECT
        min(found / expected) AS ratio,
        arg_min("check", (found / expected, "check")) AS least
    FROM run_coverage
    WHERE expected > 0
),

found AS (
    SELECT
        'step_time_ns' AS measure,
        (SELECT median FROM spread WHERE measure = 'step_time_ns') AS value,
        'no step has a time' AS reason
    UNION ALL
    SELECT
        'mfu_ratio' AS measure,
        (SELECT mfu_ratio FROM run_mfu) AS value,
        coalesce((SELECT reason FROM run_mfu), 'no model is told') AS reason
    UNION ALL
    SELECT
        'exposed_comm_ratio' AS measure,
        (SELECT ratio FROM spread WHERE measure = 'exposed_comm_ratio') AS value,
        'no rank has a window' AS reason
    UNION ALL
    SELECT
        'straggler_ratio' AS measure,
        (SELECT ratio FROM spread WHERE measure = 'straggler_ratio') AS value,
        'clocks not aligned, or one rank alone' AS reason
    UNION ALL
    SELECT
        'coverage_ratio' AS measure,
        ratio AS value,
        CASE WHEN ratio < 1 THEN least WHEN ratio IS NULL THEN 'nothing to count' END AS reason
    FROM coverage
    UNION ALL
    SELECT
        'goodput_ratio' AS measure,
        (SELECT sum(wall_ratio) FROM run_goodput WHERE is_useful) AS value,
        CASE
            WHEN NOT EXISTS (FROM run_goodput WHERE is_useful) THEN 'no step of training'
            WHEN EXISTS (FROM run_goodput WHERE duration_ns IS NULL AND class <> 'not recorded')
                THEN 'n/a: clocks not aligned'
            ELSE 'its steps take no time'
        END AS reason
    UNION ALL
    SELECT
        'memory_ratio' AS measure,
        (SELECT max(value) FROM _step_measures WHERE measure = 'memory_ratio') AS value,
        'no dump has allocations, their totals and the size of the device' AS reason
)

SELECT
    found.measure,
    found.value,
    spread.noise,
    spread.n_steps,
    CASE WHEN found.value IS NULL OR found.measure = 'coverage_ratio' THEN found.reason END AS reason
FROM found
LEFT JOIN spread ON found.measure = spread.measure
