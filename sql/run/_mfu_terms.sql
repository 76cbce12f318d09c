-- One row per step: what its MFU follows from, before it is judged.
--
-- step           BIGINT   Number of the step.
-- duration_ns    BIGINT   The step time; NULL where clocks are not aligned.
-- n_ranks        BIGINT   Ranks that recorded the step.
-- n_devices      BIGINT   Devices of the job.
-- device         VARCHAR  Device.
-- dtype          VARCHAR  Element type.
-- peak_flops     DOUBLE   Dense FLOP/s of one device.
-- updates        DOUBLE   Updates of the step: 1, or 1/k where k profiler steps make one.
-- tokens         DOUBLE   Positions processed in the step by all ranks.
-- scored_tokens  DOUBLE   Of them, those whose prediction is scored.
-- model_flops    DOUBLE   FLOPs that the model needs for the tokens.
-- plain_flops    DOUBLE   The same as 6 N.
-- recomputed_flops DOUBLE FLOPs that were done once more, as recorded; NULL unknown.
-- available_flops DOUBLE  What the devices could have done in the step time.
-- convention     VARCHAR  How model_flops were counted.
-- reasons        VARCHAR[]  Why model_flops or available_flops is not known.
--
-- Scope: mfu
WITH told AS (
    SELECT
        model.token_flops,
        model.plain_token_flops,
        model.convention,
        peak.device,
        peak.dtype,
        peak.peak_flops,
        peak.n_devices,
        tokens.update_tokens,
        tokens.scored_tokens,
        tokens.per_update,
        CASE
            WHEN coalesce(
                run_config.model_name,
                run_config.model_params::VARCHAR,
                run_config.batch_tokens_per_step::VARCHAR,
                run_config.batch_sequences_per_microbatch::VARCHAR,
                run_config.hardware_device,
                run_config.hardware_dtype,
                run_config.hardware_peak_flops::VARCHAR
            ) IS NULL
                THEN
                    [
                        'no run.toml says what was trained: write [model] name or sizes, [batch] tokens_per_step,'
                        || ' [hardware] dtype and [steps] per_update'
                    ]
            ELSE list_concat(model.reasons, tokens.reasons, peak.reasons)
        END AS reasons
    FROM run_config
    CROSS JOIN _told_model AS model
    CROSS JOIN _told_peak AS peak
    CROSS JOIN _told_tokens AS tokens
),

windows AS (
    SELECT
        step,
        bool_or(contains(verdict, 'no step markers')) AS is_whole_dump,
        bool_or(contains(verdict, 'no device')) AS is_on_hosts
    FROM rank_steps
    GROUP BY step
)

SELECT
    steps.step,
    steps.duration_ns,
    steps.n_ranks::BIGINT AS n_ranks,
    told.n_devices,
    told.device,
    told.dtype,
    told.peak_flops,
    1 / told.per_update AS updates,
    told.update_tokens / told.per_update AS tokens,
    told.scored_tokens / told.per_update AS scored_tokens,
    told.token_flops * told.update_tokens / told.per_update AS model_flops,
    told.plain_token_flops * told.update_tokens / told.per_update AS plain_flops,
    recomputed.recomputed_flops,
    told.peak_flops * told.n_devices * steps.duration_ns / 1e9 AS available_flops,
    told.convention,
    list_concat(
        told.reasons,
        list_filter(
            [
                CASE WHEN steps.duration_ns IS NULL THEN 'clock not aligned' END,
                CASE WHEN steps.duration_ns = 0 THEN 'zero-length step' END,
                CASE WHEN windows.is_whole_dump THEN 'no step markers: the recording is not one step' END,
                CASE WHEN windows.is_on_hosts THEN 'no device was recorded' END
            ],
            lambda reason: reason IS NOT NULL
        )
    ) AS reasons
FROM steps
JOIN windows ON steps.step = windows.step
LEFT JOIN _recomputed AS recomputed ON steps.step = recomputed.step
CROSS JOIN told
