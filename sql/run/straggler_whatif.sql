-- One row per measure, group: what a group of ranks costs the run, by a replay with it at the median of all ranks.
--
-- measure     VARCHAR  S, slowdown: step time over that with all ranks at the median. fix, step time over that with the rank, or
--     the ranks of a slow stage, at the median. M_W and M_S, the share of the slowdown that goes with the slowest ranks, or the last stage, at the median.
-- dimension   VARCHAR  What the group is of: run, step, rank, workers for the slowest 3 %, or stage.
-- group_key   VARCHAR  Which group; all for the run, slowest for workers.
-- value_ratio DOUBLE   The measure; NULL where it would mislead: see verdict.
-- duration_ns BIGINT   Mean step time: of S and fix as recorded, of M_W and M_S with the change.
-- base_ns     BIGINT   Mean step time that it is held against: of S and fix with the change, of M_W and M_S as recorded.
-- verdict     VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Table: run_whatif
-- Scope: predict
-- How: as `longpole whatif --fix-rank` predicts, over the steps that it can.
WITH named AS (
    SELECT DISTINCT
        scenario,
        measure,
        dimension,
        group_key
    FROM straggler_scenarios
),

totals AS (
    SELECT
        named.measure,
        named.dimension,
        named.group_key,
        predictions.n_steps,
        predictions.measured_ns::DOUBLE AS measured_ns,
        predictions.predicted_ns::DOUBLE AS predicted_ns,
        predictions.replay_error_ratio
    FROM predictions
    JOIN named ON predictions.scenario = named.scenario
),

ideal AS (
    SELECT
        n_steps,
        measured_ns - predicted_ns AS slower_ns
    FROM totals
    WHERE measure = 'S'
),

measured AS (
    SELECT
        measure,
        dimension,
        group_key,
        measured_ns / nullif(predicted_ns, 0) AS value_ratio,
        measured_ns / n_steps AS duration_ns,
        predicted_ns / n_steps AS base_ns,
        replay_error_ratio,
        NULL AS steps_of_slowdown,
        n_steps
    FROM totals
    WHERE measure IN ('S', 'fix')
    UNION ALL
    SELECT
        totals.measure,
        totals.dimension,
        totals.group_key,
        CASE
            WHEN ideal.slower_ns > 0 AND totals.n_steps = ideal.n_steps
                THEN (totals.measured_ns - totals.predicted_ns) / ideal.slower_ns
        END AS value_ratio,
        totals.predicted_ns / totals.n_steps AS duration_ns,
        totals.measured_ns / totals.n_steps AS base_ns,
        totals.replay_error_ratio,
        ideal.n_steps AS steps_of_slowdown,
        totals.n_steps
    FROM totals
    CROSS JOIN ideal
    WHERE totals.measure IN ('M_W', 'M_S')
    UNION ALL
    SELECT
        'S' AS measure,
        'step' AS dimension,
        steps.step::VARCHAR AS group_key,
        steps.measured_ns / nullif(steps.predicted_ns, 0) AS value_ratio,
        steps.measured_ns AS duration_ns,
        steps.predicted_ns AS base_ns,
        NULL AS replay_error_ratio,
        NULL AS steps_of_slowdown,
        NULL AS n_steps
    FROM predicted_steps AS steps
    JOIN named ON steps.scenario = named.scenario
    WHERE named.measure = 'S' AND steps.measured_ns IS NOT NULL AND steps.predicted_ns IS NOT NULL
)

SELECT
    measure,
    dimension,
    group_key,
    value_ratio,
    round(duration_ns)::BIGINT AS duration_ns,
    round(base_ns)::BIGINT AS base_ns,
    CASE
        WHEN n_steps <> steps_of_slowdown
            THEN format('n/a: predicted over {} steps, the slowdown over {}', n_steps, steps_of_slowdown)
        WHEN value_ratio IS NULL THEN 'n/a: nothing is slower than the median of the ranks'
        WHEN measure IN ('S', 'fix') AND abs(value_ratio - 1) < replay_error_ratio THEN 'below the error of the unchanged replay'
        ELSE 'ok'
    END AS verdict
FROM measured
