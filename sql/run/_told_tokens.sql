-- One row: tokens of an update, and how many profiler steps make one.
--
-- update_tokens DOUBLE   Positions that all ranks process in an update, over all its microbatches; NULL with reasons.
-- scored_tokens DOUBLE   Of them, those whose prediction is scored; NULL where run.toml gives none.
-- per_update    BIGINT   Profiler steps of an update; NULL with reasons.
-- reasons       VARCHAR[]  Why tokens of a step do not follow; empty where they do.
--
-- Scope: mfu
-- How: updates are where an optimizer ran, on the rank that recorded most. What run.toml says is held against that; where
-- it says nothing, updates that come in every step, or in every k-th, say it themselves.
WITH recorded AS (
    SELECT
        rank_steps.step,
        coalesce(max(updates.n_updates), 0) AS n_updates
    FROM rank_steps
    LEFT JOIN rank_updates AS updates ON rank_steps.rank = updates.rank AND rank_steps.step = updates.step
    GROUP BY rank_steps.step
),

bounded AS (
    SELECT
        step,
        n_updates,
        min(step) OVER whole AS first_step,
        max(step) OVER whole AS last_step
    FROM (SELECT *, step - row_number() OVER (ORDER BY step) AS stretch FROM recorded)
    WINDOW whole AS (PARTITION BY stretch)
),

spaced AS (
    SELECT
        step,
        n_updates,
        first_step,
        last_step,
        lag(step) OVER (PARTITION BY first_step ORDER BY step) AS update_before,
        lead(step) OVER (PARTITION BY first_step ORDER BY step) AS update_after
    FROM bounded
    WHERE n_updates > 0
),

seen AS (
    SELECT
        (SELECT count(*) FROM recorded) AS n_steps,
        count(*) AS n_update_steps,
        coalesce(max(n_updates), 0) AS most_updates,
        min(step - update_before) AS least_gap,
        max(step - update_before) AS most_gap,
        -- An update before the first step recorded, or after the last, lies at least this far away.
        coalesce(
            max(
                greatest(
                    CASE WHEN update_before IS NULL THEN step - first_step + 1 ELSE 0 END,
                    CASE WHEN update_after IS NULL THEN last_step - step + 1 ELSE 0 END
                )
            ),
            0
        ) AS edge_gap
    FROM spaced
),

told AS (
    SELECT
        run_config.*,
        seen.*,
        model.seq_len,
        coalesce(batch_accumulation, parallel_microbatches) AS accumulation,
        coalesce(parallel_dp, CASE WHEN peak.n_devices = 1 THEN 1 END) AS dp,
        CASE
            WHEN n_update_steps = 0 THEN NULL
            WHEN n_update_steps = n_steps AND most_updates = 1 THEN 1
            WHEN n_update_steps < n_steps AND least_gap = most_gap AND edge_gap <= least_gap THEN least_gap
        END AS seen_per_update
    FROM run_config
    CROSS JOIN seen
    CROSS JOIN _told_model AS model
    CROSS JOIN _told_peak AS peak
),

multiplied AS (
    SELECT
        *,
        batch_sequences_per_microbatch::DOUBLE * accumulation * dp * seq_len AS product
    FROM told
),

judged AS (
    SELECT
        *,
        CASE
            WHEN product <> batch_tokens_per_step
                THEN
                    format(
                        '[batch] tokens_per_step is {}, but {} sequences x {} microbatches x {} dp x {} positions are {:.0f}',
                        batch_tokens_per_step,
                        batch_sequences_per_microbatch,
                        accumulation,
                        dp,
                        seq_len,
                        product
                    )
            WHEN batch_accumulation <> parallel_microbatches
                THEN
                    format(
                        '[batch] accumulation is {}, but [parallel] microbatches {}', batch_accumulation, parallel_microbatches
                    )
            WHEN batch_tokens_per_step IS NULL AND batch_sequences_per_microbatch IS NULL
                THEN 'run.toml lacks [batch] tokens_per_step, the positions of one update over all ranks and microbatches'
            WHEN batch_tokens_per_step IS NULL AND product IS NULL
                THEN
                    'run.toml lacks ' || array_to_string(
                        list_filter(
                            [
                                CASE WHEN accumulation IS NULL THEN '[batch] accumulation (1 without)' END,
                                CASE WHEN dp IS NULL THEN '[parallel] dp' END,
                                CASE WHEN seq_len IS NULL THEN '[model] seq_len' END
                            ],
                            lambda key: key IS NOT NULL
                        ),
                        ', '
                    ) || ': sequences_per_microbatch alone is no batch'
        END AS tokens_reason,
        CASE
            WHEN steps_per_update = 1 AND n_update_steps BETWEEN 1 AND n_steps - 1
                THEN
                    format(
                        '[steps] per_update is 1, but an optimizer ran in {} of {} profiler steps', n_update_steps, n_steps
                    )
            WHEN steps_per_update > 1 AND n_update_steps > 0
                AND (least_gap < steps_per_update OR greatest(most_gap, edge_gap) > steps_per_update)
                THEN
                    format(
                        '[steps] per_update is {}, but an optimizer ran in {} of {} profiler steps',
                        steps_per_update,
                        n_update_steps,
                        n_steps
                    )
            WHEN steps_per_update IS NULL AND n_update_steps = 0
                THEN 'the dumps name no Optimizer.step#: write [steps] per_update, the profiler steps of one update (often 1)'
            WHEN steps_per_update IS NULL AND seen_per_update IS NULL AND n_update_steps = n_steps
                THEN
                    format(
                        'an optimizer ran {} times in one profiler step: write [steps] per_update, 1 if that is one update',
                        most_updates
                    )
            WHEN steps_per_update IS NULL AND seen_per_update IS NULL
                THEN
                    format(
                        'an optimizer ran in {} of {} profiler steps, in no rhythm: write [steps] per_update',
                        n_update_steps,
                        n_steps
                    )
        END AS update_reason
    FROM multiplied
)

SELECT
    CASE WHEN tokens_reason IS NULL THEN coalesce(batch_tokens_per_step::DOUBLE, product) END AS update_tokens,
    batch_scored_targets_per_step::DOUBLE AS scored_tokens,
    CASE WHEN update_reason IS NULL THEN coalesce(steps_per_update, seen_per_update) END AS per_update,
    list_filter([tokens_reason, update_reason], lambda reason: reason IS NOT NULL) AS reasons
FROM judged
