-- One row per run, baseline, part that either has: how much it grew, and whether that is more than noise.
--
-- run          VARCHAR  Run.
-- baseline     VARCHAR  Run that it is compared with.
-- dimension    VARCHAR  As in step_parts.
-- item         VARCHAR  As in step_parts.
-- kind         VARCHAR  As in step_parts.
-- baseline_ns  BIGINT   Median of the baseline's steps; 0 where it has not got the part.
-- value_ns     BIGINT   Median of the run's steps, likewise.
-- change_ns    BIGINT   By how much it grew; negative, shrank.
-- change_ratio DOUBLE   Of the baseline's; NULL where that is 0.
-- noise_ns     BIGINT   What a change must exceed: three standard errors of the two medians, 2 % of the part and 0.1 % of the
--     baseline's step. NULL where a run has fewer than three steps.
-- verdict      VARCHAR  grew, shrank, within noise, appeared (the baseline has none of it) or vanished; n/a: why not.
-- baseline_calls_per_step DOUBLE Of a kernel, its calls in a step of the baseline, on all ranks; else NULL.
-- calls_per_step DOUBLE Likewise in a step of the run.
--
-- Scope: fleet
-- How: a median of n values with standard deviation s has the standard error s * sqrt(pi / 2 / n). A dimension that one of
-- the two runs has not got at all is left out.
WITH known AS (
    SELECT
        run,
        dimension,
        max(n_steps) AS n_known,
        max(median_ns) FILTER (dimension = 'step') AS step_ns
    FROM run_parts
    GROUP BY run, dimension
),

pairs AS (
    SELECT
        news.run,
        olds.run AS baseline,
        news.dimension,
        olds.n_known AS baseline_steps,
        news.n_known AS n_steps,
        old_steps.step_ns
    FROM known AS news
    JOIN known AS olds ON news.dimension = olds.dimension AND news.run <> olds.run
    JOIN known AS old_steps ON olds.run = old_steps.run AND old_steps.dimension = 'step'
),

sides AS (
    SELECT
        pairs.*,
        parts.item,
        parts.kind,
        TRUE AS is_old,
        parts.median_ns,
        parts.n_found AS n_part,
        parts.n_calls,
        pow(parts.sigma_ns, 2) / nullif(parts.n_steps, 0) AS variance
    FROM pairs
    JOIN run_parts AS parts ON pairs.baseline = parts.run AND pairs.dimension = parts.dimension
    UNION ALL
    SELECT
        pairs.*,
        parts.item,
        parts.kind,
        FALSE AS is_old,
        parts.median_ns,
        parts.n_found AS n_part,
        parts.n_calls,
        pow(parts.sigma_ns, 2) / nullif(parts.n_steps, 0) AS variance
    FROM pairs
    JOIN run_parts AS parts ON pairs.run = parts.run AND pairs.dimension = parts.dimension
),

-- A run has a part once, so each aggregate is of one row.
joined AS (
    SELECT
        run,
        baseline,
        dimension,
        baseline_steps,
        n_steps,
        step_ns,
        item,
        kind,
        coalesce(max(median_ns) FILTER (is_old), 0) AS baseline_ns,
        coalesce(max(median_ns) FILTER (NOT is_old), 0) AS value_ns,
        coalesce(max(n_part) FILTER (is_old), 0) AS n_baseline_found,
        coalesce(max(n_part) FILTER (NOT is_old), 0) AS n_found,
        coalesce(max(n_calls) FILTER (is_old), 0) / baseline_steps AS baseline_calls_per_step,
        coalesce(max(n_calls) FILTER (NOT is_old), 0) / n_steps AS calls_per_step,
        sqrt(
            pi() / 2
            * (coalesce(max(variance) FILTER (is_old), 0) + coalesce(max(variance) FILTER (NOT is_old), 0))
        ) AS error_ns
    FROM sides
    GROUP BY run, baseline, dimension, baseline_steps, n_steps, step_ns, item, kind
),

judged AS (
    SELECT
        joined.*,
        CASE
            WHEN joined.baseline_steps >= params.least_steps AND joined.n_steps >= params.least_steps THEN
                round(
                    greatest(
                        params.noise_errors * joined.error_ns,
                        params.same_job_ratio * greatest(abs(joined.baseline_ns), abs(joined.value_ns)),
                        params.least_share_ratio * joined.step_ns
                    )
                )::BIGINT
        END AS noise_ns
    FROM joined
    CROSS JOIN params
)

SELECT
    run,
    baseline,
    dimension,
    item,
    kind,
    baseline_ns,
    value_ns,
    value_ns - baseline_ns AS change_ns,
    (value_ns - baseline_ns) / nullif(abs(baseline_ns), 0) AS change_ratio,
    noise_ns,
    CASE
        WHEN n_baseline_found = 0 AND dimension IN ('kernel', 'collective', 'rank', 'phase') THEN 'appeared'
        WHEN n_found = 0 AND dimension IN ('kernel', 'collective', 'rank', 'phase') THEN 'vanished'
        WHEN noise_ns IS NULL THEN 'n/a: fewer than three steps'
        WHEN value_ns - baseline_ns > noise_ns THEN 'grew'
        WHEN baseline_ns - value_ns > noise_ns THEN 'shrank'
        ELSE 'within noise'
    END AS verdict,
    CASE WHEN dimension = 'kernel' THEN baseline_calls_per_step END AS baseline_calls_per_step,
    CASE WHEN dimension = 'kernel' THEN calls_per_step END AS calls_per_step
FROM judged
