-- One row per run: its size, its time, and how far to trust it.
--
-- world_size INTEGER    Ranks of the job, as the dumps say; where none says, the ranks recorded.
-- n_ranks    INTEGER    Ranks recorded.
-- n_steps    BIGINT     Steps recorded by any rank.
-- device     VARCHAR    Name of the device, the commonest where they differ; NULL without one.
-- first_ns   BIGINT     Earliest start of a rank's first step, each on its own clock.
-- last_ns    BIGINT     Latest end of a rank's last step, each on its own clock.
-- verdict    VARCHAR    ok, or doubts: see reasons.
-- reasons    VARCHAR[]  Every reason to doubt, with its size; empty when ok.
--
-- Scope: run
WITH recorded AS (
    SELECT * FROM ranks WHERE is_recorded
),

doubts AS (
    SELECT
        2 AS place,
        -- The size of a doubt is how many (rank, step) rows carry it: the counts inside a reason differ by row.
        regexp_replace(reason, '^\d+ ', '') || ': ' || count(*) || ' of ' || any_value(n_rows) || ' rank-steps' AS reason
    FROM (
        SELECT
            unnest(string_split(verdict, '; ')) AS reason,
            count(*) OVER () AS n_rows
        FROM rank_steps
    )
    WHERE reason NOT IN ('ok', 'clock not aligned')
    GROUP BY regexp_replace(reason, '^\d+ ', '')
),

all_reasons AS (
    SELECT
        0 AS place,
        'clock not aligned: ' || basis AS reason
    FROM _clock_basis
    WHERE NOT is_shared
    UNION ALL
    SELECT
        1 AS place,
        'rank absent: ' || count(*) || ' of ' || (SELECT count(*) FROM ranks) AS reason
    FROM ranks
    WHERE NOT is_recorded
    HAVING count(*) > 0
    UNION ALL
    SELECT
        1 AS place,
        'dump unreadable: ' || count(*) AS reason
    FROM dumps
    WHERE error IS NOT NULL
    HAVING count(*) > 0
    UNION ALL
    SELECT
        1 AS place,
        'dump in doubt: ' || count(*) || ' (' || any_value(verdict ORDER BY rank, dump) || ')' AS reason
    FROM dumps
    WHERE error IS NULL AND verdict <> 'ok'
    HAVING count(*) > 0
    UNION ALL
    SELECT
        place,
        reason
    FROM doubts
),

collected AS (
    SELECT coalesce(list(reason ORDER BY place, reason), []) AS reasons FROM all_reasons
)

SELECT
    (SELECT count(*) FROM ranks)::INTEGER AS world_size,
    (SELECT count(*) FROM recorded)::INTEGER AS n_ranks,
    (SELECT count(DISTINCT step) FROM rank_steps) AS n_steps,
    (SELECT mode(device_name ORDER BY device_name) FROM recorded) AS device,
    (SELECT min(start_ns) FROM rank_steps) AS first_ns,
    (SELECT max(end_ns) FROM rank_steps) AS last_ns,
    CASE WHEN len(reasons) = 0 THEN 'ok' ELSE 'doubts' END AS verdict,
    reasons
FROM collected
