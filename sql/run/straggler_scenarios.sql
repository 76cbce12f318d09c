-- One row per what-if that prices stragglers, rank set to the median of all ranks in it.
--
-- scenario  INTEGER  Number, from 1.
-- measure   VARCHAR  S, all ranks; fix, one straggler, or the ranks of a slow stage; M_W, the slowest 3 % of the ranks; M_S, the last pipeline stage.
-- dimension VARCHAR  run, rank, workers or stage.
-- group_key VARCHAR  all; the rank, or the stage as straggler_ranks has it; slowest; the stage's number.
-- rank      INTEGER  Rank; NULL for all.
--
-- Scope: run
-- Order: scenario, rank
-- How: only the five ranks or stages that were waited for longest have a scenario of their own, and no link: a rank at the
-- median keeps it. slowest are those of them that make
-- 3 % of the ranks, at least one.
WITH slowest AS (
    SELECT
        rank,
        cause,
        coalesce(place, rank::VARCHAR) AS unit,
        row_number() OVER (ORDER BY late_ns DESC, rank) AS place
    FROM straggler_ranks
    WHERE cause <> 'link'
),

units AS (
    SELECT
        unit,
        row_number() OVER (ORDER BY min(place)) AS unit_place
    FROM slowest
    GROUP BY unit
),

recorded AS (
    SELECT
        rank,
        pp AS stage,
        max(pp) OVER () AS last_stage,
        count(*) OVER () AS n_ranks
    FROM ranks
    WHERE is_recorded
),

listed AS (
    SELECT
        1 AS place,
        'S' AS measure,
        'run' AS dimension,
        'all' AS group_key,
        NULL::INTEGER AS rank
    UNION ALL
    SELECT
        1 + units.unit_place AS place,
        'fix' AS measure,
        CASE slowest.cause WHEN 'stage' THEN 'stage' ELSE 'rank' END AS dimension,
        slowest.unit AS group_key,
        slowest.rank
    FROM slowest
    JOIN units ON slowest.unit = units.unit
    WHERE units.unit_place <= 5
    UNION ALL
    SELECT
        7 AS place,
        'M_W' AS measure,
        'workers' AS dimension,
        'slowest' AS group_key,
        slowest.rank
    FROM slowest
    JOIN recorded ON slowest.rank = recorded.rank
    WHERE slowest.place <= (recorded.n_ranks * (SELECT slowest_percent FROM params) + 99) // 100
    UNION ALL
    SELECT
        8 AS place,
        'M_S' AS measure,
        'stage' AS dimension,
        stage::VARCHAR AS group_key,
        rank
    FROM recorded
    WHERE stage = last_stage AND last_stage > 0
)

SELECT
    (dense_rank() OVER (ORDER BY place))::INTEGER AS scenario,
    measure,
    dimension,
    group_key,
    rank
FROM listed
