-- One row: two runs of a job side by side, whether the second is faster or slower, and why.
--
-- baseline         VARCHAR    Run that is compared with.
-- run              VARCHAR    Run that is compared.
-- baseline_steps   BIGINT     Steps of the baseline.
-- n_steps          BIGINT     Steps of the run.
-- baseline_ranks   INTEGER    Ranks recorded; NULL where the baseline is not analyzed.
-- n_ranks          INTEGER    Likewise of the run.
-- baseline_device  VARCHAR    Device; NULL where none is named.
-- device           VARCHAR    Likewise of the run.
-- baseline_ns      BIGINT     Median step of the baseline; NULL without steps.
-- value_ns         BIGINT     Median step of the run; NULL without steps.
-- change_ns        BIGINT     By how much it is longer; NULL where either has none.
-- change_ratio     DOUBLE     Of the baseline's.
-- noise_ns         BIGINT     What a change must exceed; NULL where it is not known.
-- verdict          VARCHAR    slower, faster, within noise, not comparable (see reasons), or n/a: why not.
-- reasons          VARCHAR[]  Why the two are not recordings of one job; empty where nothing says so.
-- cause_item       VARCHAR    Part of the window that changed most, in the direction of the step where that changed; NULL where
--     none changed beyond the noise.
-- cause_ns         BIGINT     By how much; NULL as above.
-- cause_ratio      DOUBLE     Of the baseline's part; NULL as above, or where that is 0.
-- cause            VARCHAR    What at least half of that is: contention, other kernels, calls or kernels of compute, waits or
--     transfers of exposed comm; else the part itself. NULL as above.
-- contention_ns    BIGINT     Change of the time that kernels take longer beside comm than alone.
-- other_kernels_ns BIGINT     Change by compute kernels that only one of the two has.
-- calls_ns         BIGINT     Change by more or fewer calls of compute kernels, at the baseline's time a call.
-- waits_ns         BIGINT     Change of waits for late ranks.
-- transfers_ns     BIGINT     Change of transfers.
-- alike_ratio      DOUBLE     Share of the kernels' time that is in kernels of both, in the run where it is less; NULL without
--     kernels.
-- n_changed        BIGINT     Parts of the window beyond the noise.
--
-- How: parameters: $run, $baseline, and $workload, $baseline_workload: what their configs say of the work; NULL for nothing.
WITH asked AS (
    SELECT
        $baseline::VARCHAR AS baseline,
        $run::VARCHAR AS run
),

changed AS (
    SELECT *
    FROM run_changes
    WHERE baseline = $baseline AND run = $run
),

medians AS (
    SELECT
        max(median_ns) FILTER (run = $baseline) AS baseline_ns,
        max(median_ns) FILTER (run = $run) AS value_ns,
        coalesce(max(n_steps) FILTER (run = $baseline), 0) AS baseline_steps,
        coalesce(max(n_steps) FILTER (run = $run), 0) AS n_steps
    FROM run_parts
    WHERE dimension = 'step' AND run IN ($baseline, $run)
),

step_change AS (
    SELECT
        change_ns,
        change_ratio,
        noise_ns,
        verdict,
        CASE verdict WHEN 'grew' THEN 1 WHEN 'shrank' THEN -1 ELSE 0 END AS direction
    FROM changed
    WHERE dimension = 'step'
),

main AS (
    SELECT
        changed.item AS cause_item,
        changed.change_ns AS cause_ns,
        changed.change_ratio AS cause_ratio
    FROM changed
    CROSS JOIN step_change
    WHERE changed.dimension = 'time'
        AND changed.verdict IN ('grew', 'shrank')
        AND changed.change_ns * step_change.direction >= 0
    ORDER BY abs(changed.change_ns) DESC, changed.item
    LIMIT 1
),

sums AS (
    SELECT
        coalesce(sum(change_ns) FILTER (dimension = 'contention'), 0)::BIGINT AS contention_ns,
        coalesce(
            sum(change_ns) FILTER (dimension = 'kernel' AND kind = 'compute' AND verdict IN ('appeared', 'vanished')), 0
        )::BIGINT AS other_kernels_ns,
        coalesce(
            round(
                sum(baseline_ns * (calls_per_step / nullif(baseline_calls_per_step, 0) - 1)) FILTER (
                    dimension = 'kernel' AND kind = 'compute' AND verdict NOT IN ('appeared', 'vanished')
                )
            ),
            0
        )::BIGINT AS calls_ns,
        coalesce(sum(change_ns) FILTER (dimension = 'wait'), 0)::BIGINT AS waits_ns,
        coalesce(sum(change_ns) FILTER (dimension = 'transfer'), 0)::BIGINT AS transfers_ns,
        least(
            sum(baseline_ns) FILTER (dimension = 'kernel' AND verdict <> 'vanished')
            / nullif(sum(baseline_ns) FILTER (dimension = 'kernel'), 0),
            sum(value_ns) FILTER (dimension = 'kernel' AND verdict <> 'appeared')
            / nullif(sum(value_ns) FILTER (dimension = 'kernel'), 0)
        ) AS alike_ratio,
        count(*) FILTER (dimension = 'time' AND verdict IN ('grew', 'shrank')) AS n_changed
    FROM changed
),

causes AS (
    SELECT
        main.*,
        CASE
            WHEN main.cause_item = 'compute' AND 2 * sums.contention_ns * sign(main.cause_ns) >= abs(main.cause_ns) THEN
                'contention'
            WHEN main.cause_item = 'compute' AND 2 * sums.other_kernels_ns * sign(main.cause_ns) >= abs(main.cause_ns) THEN
                'other kernels'
            WHEN main.cause_item = 'compute' AND 2 * sums.calls_ns * sign(main.cause_ns) >= abs(main.cause_ns) THEN 'calls'
            WHEN main.cause_item = 'compute' THEN 'kernels'
            WHEN main.cause_item = 'exposed comm'
                AND greatest(sums.waits_ns * sign(main.cause_ns), sums.transfers_ns * sign(main.cause_ns)) > 0 THEN
                CASE
                    WHEN sums.waits_ns * sign(main.cause_ns) > sums.transfers_ns * sign(main.cause_ns) THEN 'waits'
                    ELSE 'transfers'
                END
            ELSE main.cause_item
        END AS cause
    FROM main
    CROSS JOIN sums
),

doubts AS (
    SELECT
        list_filter(
            [
                CASE
                    WHEN olds.world_size <> news.world_size THEN
                        'the job has ' || news.world_size || ' ranks, the baseline''s ' || olds.world_size
                END,
                CASE
                    WHEN olds.world_size IS NOT DISTINCT FROM news.world_size AND olds.n_ranks <> news.n_ranks THEN
                        news.n_ranks || ' ranks are recorded, of the baseline ' || olds.n_ranks
                END,
                CASE WHEN olds.device <> news.device THEN 'it ran on ' || news.device || ', the baseline on ' || olds.device END,
                CASE
                    WHEN $workload::VARCHAR <> $baseline_workload::VARCHAR THEN
                        'its workload is ' || $workload::VARCHAR || ', the baseline''s ' || $baseline_workload::VARCHAR
                END,
                CASE
                    WHEN sums.alike_ratio < params.alike_ratio THEN
                        'only ' || round(100 * sums.alike_ratio)::INTEGER || ' % of the kernels'' time is in kernels that both have'
                END
            ],
            lambda reason: reason IS NOT NULL
        ) AS reasons
    FROM asked
    CROSS JOIN sums
    CROSS JOIN params
    LEFT JOIN runs AS olds ON asked.baseline = olds.run
    LEFT JOIN runs AS news ON asked.run = news.run
)

SELECT
    asked.baseline,
    asked.run,
    medians.baseline_steps,
    medians.n_steps,
    olds.n_ranks AS baseline_ranks,
    news.n_ranks,
    olds.device AS baseline_device,
    news.device,
    medians.baseline_ns,
    medians.value_ns,
    step_change.change_ns,
    step_change.change_ratio,
    step_change.noise_ns,
    CASE
        WHEN medians.baseline_ns IS NULL AND medians.value_ns IS NULL THEN 'n/a: neither has steps'
        WHEN medians.baseline_ns IS NULL THEN 'n/a: the baseline has no steps'
        WHEN medians.value_ns IS NULL THEN 'n/a: it has no steps'
        WHEN len(doubts.reasons) > 0 THEN 'not comparable'
        WHEN step_change.verdict = 'grew' THEN 'slower'
        WHEN step_change.verdict = 'shrank' THEN 'faster'
        ELSE step_change.verdict
    END AS verdict,
    doubts.reasons,
    causes.cause_item,
    causes.cause_ns,
    causes.cause_ratio,
    causes.cause,
    sums.contention_ns,
    sums.other_kernels_ns,
    sums.calls_ns,
    sums.waits_ns,
    sums.transfers_ns,
    sums.alike_ratio,
    sums.n_changed
FROM asked
CROSS JOIN medians
CROSS JOIN sums
CROSS JOIN doubts
LEFT JOIN step_change ON TRUE
LEFT JOIN causes ON TRUE
LEFT JOIN runs AS olds ON asked.baseline = olds.run
LEFT JOIN runs AS news ON asked.run = news.run
