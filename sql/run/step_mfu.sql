-- One row per step: its throughput and its model FLOPs utilisation, or why there is none.
--
-- step           BIGINT   Number of the step.
-- duration_ns    BIGINT   The step time; NULL where clocks are not aligned.
-- n_devices      BIGINT   Devices of the job, one for a rank.
-- device         VARCHAR  Device, as told or recorded.
-- dtype          VARCHAR  Element type that the peak is of.
-- peak_flops     DOUBLE   Dense FLOP/s of one device; NULL unknown.
-- updates        DOUBLE   Updates of the step: 1, or 1/k where k profiler steps make one. NULL unknown.
-- tokens         BIGINT   Positions processed by all ranks; NULL unknown.
-- scored_tokens  BIGINT   Of them, those whose prediction is scored; NULL unknown.
-- tokens_per_s   DOUBLE   Positions processed in a second.
-- scored_per_s   DOUBLE   Scored targets in a second.
-- model_flops    DOUBLE   FLOPs that the model needs for the tokens, nothing recomputed.
-- mfu_ratio      DOUBLE   model_flops / (step time x devices x peak). NULL with reason.
-- plain_mfu_ratio DOUBLE  The same by 6 N alone: all parameters, no attention. NULL likewise.
-- hfu_ratio      DOUBLE   With recomputed FLOPs; NULL where they are not known.
-- convention     VARCHAR  How model_flops were counted, with the numbers.
-- reason         VARCHAR  Why mfu_ratio is NULL; NULL where it is not.
--
-- Scope: mfu
-- Order: step
-- How: a step above its devices' peak means that run.toml is wrong, so neither that step nor, where the steps together are
-- above it, any other has an MFU.
WITH run AS (
    SELECT sum(model_flops) / sum(available_flops) AS ratio
    FROM _mfu_terms
    WHERE len(reasons) = 0
),

rated AS (
    SELECT
        terms.*,
        CASE WHEN terms.available_flops > 0 THEN terms.model_flops / terms.available_flops END AS ratio,
        CASE WHEN terms.available_flops > 0 THEN terms.plain_flops / terms.available_flops END AS plain_ratio,
        run.ratio AS run_ratio
    FROM _mfu_terms AS terms
    CROSS JOIN run
),

judged AS (
    SELECT
        *,
        CASE
            WHEN len(reasons) > 0 THEN array_to_string(reasons, '; ')
            WHEN greatest(ratio, run_ratio) > 1
                THEN
                    format(
                        'MFU would be {:.0f} %: {:.0f} tokens in {:.3f} ms on {} devices of {:.4g} FLOP/s cannot be; look at [batch]'
                        || ' tokens_per_step (one update, each token once), [steps] per_update (a profiler step may be one'
                        || ' microbatch), [hardware] dtype and peak_flops (of the type that ran, in FLOP/s), [model]'
                        || ' active_params (not all experts), and whether ranks are missing from the job''s size',
                        100 * greatest(ratio, run_ratio),
                        tokens,
                        duration_ns / 1e6,
                        n_devices,
                        peak_flops
                    )
        END AS reason
    FROM rated
)

SELECT
    step,
    duration_ns,
    n_devices,
    device,
    dtype,
    peak_flops,
    updates,
    TRY_CAST(round(tokens) AS BIGINT) AS tokens,
    TRY_CAST(round(scored_tokens) AS BIGINT) AS scored_tokens,
    CASE WHEN duration_ns > 0 THEN tokens / (duration_ns / 1e9) END AS tokens_per_s,
    CASE WHEN duration_ns > 0 THEN scored_tokens / (duration_ns / 1e9) END AS scored_per_s,
    model_flops,
    CASE WHEN reason IS NULL THEN ratio END AS mfu_ratio,
    CASE WHEN plain_ratio <= 1 AND coalesce(run_ratio, 0) <= 1 THEN plain_ratio END AS plain_mfu_ratio,
    CASE
        WHEN reason IS NULL THEN ratio + recomputed_flops / (n_ranks / n_devices) / available_flops
    END AS hfu_ratio,
    convention,
    reason
FROM judged
