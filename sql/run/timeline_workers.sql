-- One row per worker of an op timeline: how much its dp rank and its stage together slow the job.
--
-- rank           INTEGER  Rank of the worker.
-- dp_rank        INTEGER  Data-parallel rank.
-- stage          INTEGER  Pipeline stage.
-- dp_rank_ratio  DOUBLE   Slowdown that its dp rank alone makes; NULL where no step could be re-timed.
-- stage_ratio    DOUBLE   Slowdown that its stage alone makes.
-- score_ratio    DOUBLE   The smaller of the two: a slow worker makes both slow.
-- is_slowest     BOOLEAN  Whether it is among the slowest 3 % (params.slowest_percent), at least one.
--
-- Scope: workers
WITH summed AS (
    SELECT
        replays.change,
        replays.dimension,
        replays.group_key,
        sum(replays.duration_ns)::DOUBLE AS total_ns
    FROM timeline_replays AS replays
    GROUP BY replays.change, replays.dimension, replays.group_key
),

slowdowns AS (
    SELECT
        summed.dimension,
        summed.group_key,
        summed.total_ns / nullif(ideal.total_ns, 0) AS slowdown_ratio
    FROM summed
    JOIN summed AS ideal ON ideal.change = 'ideal'
    WHERE summed.change = 'only'
),

workers AS (
    SELECT DISTINCT
        rank,
        dp_rank,
        stage
    FROM timeline_ops
),

scored AS (
    SELECT
        workers.rank,
        workers.dp_rank,
        workers.stage,
        dp_ranks.slowdown_ratio AS dp_rank_ratio,
        stages.slowdown_ratio AS stage_ratio,
        CASE
            WHEN dp_ranks.slowdown_ratio IS NOT NULL AND stages.slowdown_ratio IS NOT NULL
                THEN least(dp_ranks.slowdown_ratio, stages.slowdown_ratio)
        END AS score_ratio
    FROM workers
    LEFT JOIN slowdowns AS dp_ranks ON dp_ranks.dimension = 'dp_rank' AND workers.dp_rank::VARCHAR = dp_ranks.group_key
    LEFT JOIN slowdowns AS stages ON stages.dimension = 'stage' AND workers.stage::VARCHAR = stages.group_key
)

SELECT
    rank,
    dp_rank,
    stage,
    dp_rank_ratio,
    stage_ratio,
    score_ratio,
    row_number() OVER (ORDER BY score_ratio DESC NULLS LAST, rank)
    <= (count(*) OVER () * (SELECT slowest_percent FROM params) + 99) // 100 AS is_slowest
FROM scored
