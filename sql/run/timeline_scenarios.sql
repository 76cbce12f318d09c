-- One row per what-if of an op timeline: whose ops keep the durations they had.
--
-- scenario      INTEGER  Number.
-- change        VARCHAR  retimed, all keep theirs and only gaps go; ideal, none does; only, those of the group do; without,
--     all but those of the group do.
-- dimension     VARCHAR  What groups are of: dp_rank, stage, op_type, or worker for the slowest; NULL without a group.
-- group_key     VARCHAR  Which group; NULL without one.
-- needs_workers BOOLEAN  Whether it can be told only after the workers have their scores.
--
-- Scope: timeline
WITH listed AS (
    SELECT
        1 AS place,
        'retimed' AS change,
        NULL AS dimension,
        NULL AS group_key,
        0 AS group_no
    UNION ALL
    SELECT
        2 AS place,
        'ideal' AS change,
        NULL AS dimension,
        NULL AS group_key,
        0 AS group_no
    UNION ALL
    SELECT
        3 AS place,
        'only' AS change,
        'dp_rank' AS dimension,
        dp_rank::VARCHAR AS group_key,
        dp_rank AS group_no
    FROM (SELECT DISTINCT dp_rank FROM _timeline_work)
    UNION ALL
    SELECT
        4 AS place,
        'only' AS change,
        'stage' AS dimension,
        stage::VARCHAR AS group_key,
        stage AS group_no
    FROM (SELECT DISTINCT stage FROM _timeline_work)
    UNION ALL
    SELECT
        5 AS place,
        'only' AS change,
        'op_type' AS dimension,
        op_type AS group_key,
        0 AS group_no
    FROM (SELECT DISTINCT op_type FROM _timeline_work)
    UNION ALL
    SELECT
        6 AS place,
        'without' AS change,
        'stage' AS dimension,
        max(stage)::VARCHAR AS group_key,
        0 AS group_no
    FROM _timeline_work
    HAVING count(*) > 0
    UNION ALL
    SELECT
        7 AS place,
        change,
        'worker' AS dimension,
        'slowest' AS group_key,
        0 AS group_no
    FROM (SELECT unnest(['only', 'without']) AS change)
)

SELECT
    (row_number() OVER (ORDER BY place, group_no, group_key, change) - 1)::INTEGER AS scenario,
    change,
    dimension,
    group_key,
    coalesce(dimension = 'worker', FALSE) AS needs_workers
FROM listed
