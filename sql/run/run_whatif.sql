-- One row per measure, group: what a group of the run's work costs it, by a replay with other durations.
--
-- measure     VARCHAR  S, slowdown: step time over the ideal step time, with all own durations or with the group's alone. fix,
--     of kernels: step time over that with the straggler at the median of all ranks.
--     launch_slowdown, recorded step time over the re-timed one: gaps that no op explains. score, the smaller of a worker's
--     S by dp rank and by stage. M_W and M_S, the share of the slowdown that goes when the slowest workers or the last stage
--     are made ideal; M_W_alone and M_S_alone, the share that they make while all else is ideal.
-- dimension   VARCHAR  What the group is of: run, step, dp_rank, stage, op_type, rank, or workers for the slowest 3 %.
-- group_key   VARCHAR  Which group; all for the run, slowest for workers.
-- value_ratio DOUBLE   The measure; NULL where it would mislead: see verdict.
-- duration_ns BIGINT   Mean step time with the change, over the steps that could be re-timed; NULL for a score.
-- base_ns     BIGINT   Mean step time that it is held against; NULL for a score.
-- verdict     VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: whatif
-- How: ideal has every compute op at the mean of its type over dp ranks, stages and steps, and every transfer at the median. Of kernels, straggler_whatif makes these rows.
WITH replays AS (
    SELECT
        *,
        coalesce(dimension, 'run') AS group_of,
        coalesce(group_key, 'all') AS group_name
    FROM timeline_replays
    WHERE duration_ns IS NOT NULL
),

by_step AS (
    SELECT
        step,
        sum(duration_ns) FILTER (change = 'retimed') AS retimed_ns,
        sum(duration_ns) FILTER (change = 'ideal') AS ideal_ns,
        max(recorded_ns) AS recorded_ns
    FROM replays
    GROUP BY step
),

by_run AS (
    SELECT
        sum(retimed_ns)::DOUBLE AS retimed_ns,
        sum(ideal_ns)::DOUBLE AS ideal_ns,
        sum(recorded_ns)::DOUBLE AS recorded_ns,
        count(*) AS n_steps
    FROM by_step
),

by_group AS (
    SELECT
        change,
        group_of,
        group_name,
        sum(duration_ns)::DOUBLE AS total_ns
    FROM replays
    WHERE change IN ('only', 'without')
    GROUP BY change, group_of, group_name
),

last_stage AS (
    SELECT
        change,
        group_of,
        group_name,
        total_ns
    FROM by_group
    WHERE group_of = 'worker' OR (group_of, group_name) IN (SELECT (group_of, group_name) FROM by_group WHERE change = 'without')
),

measured AS (
    SELECT
        'S' AS measure,
        'run' AS dimension,
        'all' AS group_key,
        retimed_ns / nullif(ideal_ns, 0) AS value_ratio,
        retimed_ns / n_steps AS duration_ns,
        ideal_ns / n_steps AS base_ns
    FROM by_run
    WHERE n_steps > 0
    UNION ALL
    SELECT
        'launch_slowdown' AS measure,
        'run' AS dimension,
        'all' AS group_key,
        recorded_ns / nullif(retimed_ns, 0) AS value_ratio,
        recorded_ns / n_steps AS duration_ns,
        retimed_ns / n_steps AS base_ns
    FROM by_run
    WHERE n_steps > 0
    UNION ALL
    SELECT
        'S' AS measure,
        'step' AS dimension,
        step::VARCHAR AS group_key,
        retimed_ns::DOUBLE / nullif(ideal_ns, 0)::DOUBLE AS value_ratio,
        retimed_ns::DOUBLE AS duration_ns,
        ideal_ns::DOUBLE AS base_ns
    FROM by_step
    UNION ALL
    SELECT
        'launch_slowdown' AS measure,
        'step' AS dimension,
        step::VARCHAR AS group_key,
        recorded_ns::DOUBLE / nullif(retimed_ns, 0)::DOUBLE AS value_ratio,
        recorded_ns::DOUBLE AS duration_ns,
        retimed_ns::DOUBLE AS base_ns
    FROM by_step
    UNION ALL
    SELECT
        'S' AS measure,
        by_group.group_of AS dimension,
        by_group.group_name AS group_key,
        by_group.total_ns / nullif(by_run.ideal_ns, 0) AS value_ratio,
        by_group.total_ns / by_run.n_steps AS duration_ns,
        by_run.ideal_ns / by_run.n_steps AS base_ns
    FROM by_group
    CROSS JOIN by_run
    WHERE by_group.change = 'only' AND by_group.group_of <> 'worker'
    UNION ALL
    SELECT
        'score' AS measure,
        'rank' AS dimension,
        rank::VARCHAR AS group_key,
        score_ratio AS value_ratio,
        NULL AS duration_ns,
        NULL AS base_ns
    FROM timeline_workers
    UNION ALL
    SELECT
        CASE last_stage.group_of WHEN 'worker' THEN 'M_W' ELSE 'M_S' END
        || CASE last_stage.change WHEN 'only' THEN '_alone' ELSE '' END AS measure,
        CASE last_stage.group_of WHEN 'worker' THEN 'workers' ELSE 'stage' END AS dimension,
        last_stage.group_name AS group_key,
        CASE
            WHEN by_run.retimed_ns > by_run.ideal_ns
                THEN CASE last_stage.change
                    WHEN 'only' THEN last_stage.total_ns - by_run.ideal_ns
                    ELSE by_run.retimed_ns - last_stage.total_ns
                END / (by_run.retimed_ns - by_run.ideal_ns)
        END AS value_ratio,
        last_stage.total_ns / by_run.n_steps AS duration_ns,
        CASE last_stage.change WHEN 'only' THEN by_run.ideal_ns ELSE by_run.retimed_ns END / by_run.n_steps AS base_ns
    FROM last_stage
    CROSS JOIN by_run
),

lost AS (
    SELECT
        (SELECT sum(n_unpaired) FROM timeline_ideals) AS n_unpaired,
        count(DISTINCT step) AS n_steps,
        count(DISTINCT step) FILTER (duration_ns IS NULL) AS n_circles
    FROM timeline_replays
)

SELECT
    measured.measure,
    measured.dimension,
    measured.group_key,
    measured.value_ratio,
    round(measured.duration_ns)::BIGINT AS duration_ns,
    round(measured.base_ns)::BIGINT AS base_ns,
    coalesce(
        nullif(
            concat_ws(
                '; ',
                CASE WHEN measured.value_ratio IS NULL THEN 'n/a: nothing is slower than ideal' END,
                CASE
                    WHEN lost.n_circles > 0
                        THEN lost.n_circles || ' of ' || lost.n_steps || ' steps have ops that wait for each other in a circle'
                END,
                CASE WHEN lost.n_unpaired > 0 THEN lost.n_unpaired || ' sends or receives without their other end' END
            ),
            ''
        ),
        'ok'
    ) AS verdict
FROM measured
CROSS JOIN lost
