-- One row per run, measure: whether it is worse than the good runs before it, beyond what they differ by anyway.
--
-- run          VARCHAR  Run.
-- measure      VARCHAR  As in run_measures.
-- value        DOUBLE   Its value; NULL with a verdict that says why.
-- baseline_run VARCHAR  The last good run before it of the same job and workload, or the run named; NULL: none.
-- baseline     DOUBLE   Median over up to ten such runs.
-- n_baseline   BIGINT   How many they are.
-- noise_floor  DOUBLE   Differences up to this say nothing; NULL without a baseline.
-- change       DOUBLE   From the baseline: relative for step_time_ns, a difference for ratios. NULL without.
-- verdict      VARCHAR  ok, within the noise; worse; better; or n/a and why.
--
-- Scope: fleet
-- How: robust, for one bad night must move nothing: three times the larger of 1.4826 median deviations between the baseline's
-- runs, from three on, and the standard errors that the steps of run and baseline give. Good: with a step time, and no gate
-- of its own failed.
WITH compared AS (
    SELECT
        baselines.run,
        measures.measure,
        median(measures.value) AS baseline,
        mad(measures.value) AS deviation,
        median(measures.noise) AS noise,
        count(*) AS n_runs
    FROM _baselines AS baselines
    JOIN run_measures AS measures ON baselines.baseline_run = measures.run
    WHERE measures.value IS NOT NULL
    GROUP BY baselines.run, measures.measure
),

judged AS (
    SELECT
        measures.run,
        measures.measure,
        measures.value,
        measures.reason,
        kinds.worse,
        runs.job,
        latest.baseline_run,
        compared.baseline,
        coalesce(compared.n_runs, 0) AS n_runs,
        measures.value - compared.baseline AS difference,
        CASE WHEN kinds.change = 'relative' THEN nullif(compared.baseline, 0) ELSE 1 END AS whole,
        params.noise_sigmas * greatest(
            CASE WHEN compared.n_runs >= params.spread_runs THEN 1.4826 * compared.deviation ELSE 0 END,
            sqrt(coalesce(measures.noise, 0) ** 2 + coalesce(compared.noise, 0) ** 2)
        ) AS noise_floor
    FROM run_measures AS measures
    JOIN measure_kinds AS kinds ON measures.measure = kinds.measure
    JOIN _run_order AS runs ON measures.run = runs.run
    LEFT JOIN _baselines AS latest ON measures.run = latest.run AND latest.place = 1
    LEFT JOIN compared ON measures.run = compared.run AND measures.measure = compared.measure
    CROSS JOIN params
)

SELECT
    run,
    measure,
    value,
    baseline_run,
    baseline,
    n_runs AS n_baseline,
    CASE WHEN baseline IS NOT NULL THEN noise_floor END AS noise_floor,
    difference / whole AS change,
    CASE
        WHEN value IS NULL THEN 'n/a: ' || coalesce(reason, 'unknown')
        WHEN baseline IS NULL AND baseline_run IS NOT NULL THEN 'n/a: ' || baseline_run || ' has no such value'
        WHEN baseline IS NULL AND job IS NULL THEN 'n/a: run.toml says no job, model, batch, parallelism or hardware'
        WHEN baseline IS NULL THEN 'n/a: no good run of this job and workload before it'
        WHEN abs(difference) <= noise_floor THEN 'ok'
        WHEN (difference > 0) = (worse = 'up') THEN 'worse'
        ELSE 'better'
    END AS verdict
FROM judged
