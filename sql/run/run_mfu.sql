-- One row per run: throughput and MFU of all its steps together, and whether they change.
--
-- n_steps        BIGINT   Steps with a step time, of more than 0 ns.
-- tokens         BIGINT   Positions processed in them; NULL unknown.
-- tokens_per_s   DOUBLE   Over their time.
-- scored_per_s   DOUBLE   Scored targets in a second, likewise.
-- mfu_ratio      DOUBLE   All model FLOPs over all that the devices could have done; NULL with reason.
-- plain_mfu_ratio DOUBLE  By 6 N alone.
-- hfu_ratio      DOUBLE   With recomputed FLOPs; NULL where they are not known.
-- first_third_ratio DOUBLE  Median MFU of the first third of the steps; NULL with fewer than six.
-- last_third_ratio  DOUBLE  Median MFU of the last third; likewise.
-- trend          VARCHAR  steady, falling or rising; too few steps; NULL without MFU.
-- device         VARCHAR  Device.
-- dtype          VARCHAR  Element type.
-- peak_flops     DOUBLE   Dense FLOP/s of one device.
-- convention     VARCHAR  How FLOPs were counted.
-- reason         VARCHAR  Why mfu_ratio is NULL, of the step with most reasons; NULL where it is not.
--
-- Scope: mfu
-- How: medians, so that a step that pays for a checkpoint makes no trend.
WITH placed AS (
    SELECT
        *,
        ntile(3) OVER (ORDER BY step) AS third
    FROM step_mfu
    WHERE mfu_ratio IS NOT NULL
),

thirds AS (
    SELECT
        count(*) AS n_rated,
        median(mfu_ratio) FILTER (third = 1) AS first_ratio,
        median(mfu_ratio) FILTER (third = 3) AS last_ratio,
        sum(model_flops) / sum(model_flops / mfu_ratio) AS mfu_ratio,
        sum(hfu_ratio * model_flops / mfu_ratio) / sum(model_flops / mfu_ratio) AS hfu_ratio,
        bool_and(hfu_ratio IS NOT NULL) AS is_hfu_known
    FROM placed
),

summed AS (
    SELECT
        count(*) AS n_steps,
        TRY_CAST(sum(tokens) AS BIGINT) AS tokens,
        sum(tokens) / (sum(duration_ns) / 1e9) AS tokens_per_s,
        sum(scored_tokens) / (sum(duration_ns) / 1e9) AS scored_per_s,
        sum(plain_mfu_ratio * duration_ns) / sum(duration_ns) AS plain_mfu_ratio,
        max(device) AS device,
        max(dtype) AS dtype,
        max(peak_flops) AS peak_flops,
        max(convention) AS convention,
        arg_max(reason, (len(reason), -step)) AS reason
    FROM step_mfu
    WHERE duration_ns > 0
)

SELECT
    summed.n_steps,
    summed.tokens,
    summed.tokens_per_s,
    summed.scored_per_s,
    thirds.mfu_ratio,
    summed.plain_mfu_ratio,
    CASE WHEN thirds.is_hfu_known THEN thirds.hfu_ratio END AS hfu_ratio,
    CASE WHEN thirds.n_rated >= 6 THEN thirds.first_ratio END AS first_third_ratio,
    CASE WHEN thirds.n_rated >= 6 THEN thirds.last_ratio END AS last_third_ratio,
    CASE
        WHEN thirds.mfu_ratio IS NULL THEN NULL
        WHEN thirds.n_rated < 6 THEN 'too few steps'
        WHEN thirds.last_ratio < thirds.first_ratio * (1 - params.mfu_trend_ratio) THEN 'falling'
        WHEN thirds.first_ratio < thirds.last_ratio * (1 - params.mfu_trend_ratio) THEN 'rising'
        ELSE 'steady'
    END AS trend,
    summed.device,
    summed.dtype,
    summed.peak_flops,
    summed.convention,
    CASE WHEN thirds.mfu_ratio IS NULL THEN coalesce(summed.reason, 'no step with a step time') END AS reason
FROM summed
CROSS JOIN thirds
CROSS JOIN params
