-- One row per what-if that prices stragglers, rank set to the median of all ranks in it.
--
-- scenario  INTEGER  Number, from 1.
-- measure   VARCHAR  S, all ranks; fix, one straggler; M_W, the slowest 3 % of the ranks; M_S, the last pipeline stage.
-- dimension VARCHAR  run, rank, workers or stage.
-- group_key VARCHAR  all; the rank; slowest; the stage.
-- rank      INTEGER  Rank; NULL for all.
--
-- Scope: run
-- Order: scenario, rank
-- How: only the five ranks that were waited for longest have a scenario of their own; slowest are those of them that make
-- 3 % of the ranks, at least one.
WITH slowest AS (
    SELECT
        rank,
        row_number() OVER (ORDER BY late_ns DESC, rank) AS place
    FROM straggler_ranks
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
        1 + place AS place,
        'fix' AS measure,
        'rank' AS dimension,
        rank::VARCHAR AS group_key,
        rank
    FROM slowest
    WHERE place <= 5
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
