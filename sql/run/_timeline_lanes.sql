-- One row per scenario, step, dp rank whose ops must be looked at: of dp ranks that are ideal alike, one stands for all.
--
-- scenario     INTEGER  Scenario.
-- change       VARCHAR  As in timeline_scenarios.
-- dimension    VARCHAR  As in timeline_scenarios.
-- group_key    VARCHAR  As in timeline_scenarios.
-- step         BIGINT   Step.
-- dp_rank      INTEGER  Data-parallel rank.
-- body_dp_rank INTEGER  The dp rank whose passes stand for this one's: itself, or one that is alike.
--
-- Scope: replays
-- How: a dp rank meets the others in its tail only, so where its ops are all ideal its passes take what those of any other
-- such dp rank of the same shape take. Of a dp rank's scenario two dp ranks are left, the group and one for the rest; of a
-- type's that occurs in the tail alone the passes of one dp rank. All of them stay in the ideal scenario, for timeline_retimed.
WITH shapes AS (
    SELECT
        work.step,
        work.dp_rank,
        sum(hash(
            work.stage, work.optype, work.place, work.chunk, work.microbatch, work.model_chunk, passes.pass_no, costs.op_no IS NULL
        )::HUGEINT) AS shape
    FROM _timeline_work AS work
    LEFT JOIN _timeline_passes AS passes ON work.op_no = passes.op_no
    LEFT JOIN _timeline_costs AS costs ON work.op_no = costs.op_no
    GROUP BY work.step, work.dp_rank
),

firsts AS (
    SELECT
        step,
        shape,
        min(dp_rank, 2) AS dp_ranks
    FROM shapes
    GROUP BY step, shape
),

tail_types AS (
    SELECT op_type
    FROM timeline_optypes
    GROUP BY op_type
    HAVING bool_and(part = 'tail')
),

slow AS (
    SELECT DISTINCT dp_rank FROM timeline_workers WHERE is_slowest
),

lanes AS (
    SELECT
        scenarios.scenario,
        scenarios.change,
        scenarios.dimension,
        scenarios.group_key,
        shapes.step,
        shapes.dp_rank,
        CASE
            WHEN scenarios.change = 'only' AND scenarios.group_key IN (SELECT op_type FROM tail_types) THEN firsts.dp_ranks[1]
            ELSE shapes.dp_rank
        END AS body_dp_rank
    FROM timeline_scenarios AS scenarios
    CROSS JOIN shapes
    JOIN firsts ON shapes.step = firsts.step AND shapes.shape = firsts.shape
    WHERE scenarios.change <> 'only' OR scenarios.dimension IN ('stage', 'op_type')
    UNION ALL
    SELECT
        scenarios.scenario,
        scenarios.change,
        scenarios.dimension,
        scenarios.group_key,
        shapes.step,
        shapes.dp_rank,
        shapes.dp_rank AS body_dp_rank
    FROM timeline_scenarios AS scenarios
    JOIN shapes ON scenarios.group_key = shapes.dp_rank::VARCHAR
    WHERE scenarios.change = 'only' AND scenarios.dimension = 'dp_rank'
    UNION ALL
    SELECT
        scenarios.scenario,
        scenarios.change,
        scenarios.dimension,
        scenarios.group_key,
        firsts.step,
        unnest(list_filter(firsts.dp_ranks, lambda d: d::VARCHAR <> scenarios.group_key)[:1]) AS dp_rank,
        unnest(list_filter(firsts.dp_ranks, lambda d: d::VARCHAR <> scenarios.group_key)[:1]) AS body_dp_rank
    FROM timeline_scenarios AS scenarios
    CROSS JOIN firsts
    WHERE scenarios.change = 'only' AND scenarios.dimension = 'dp_rank'
    UNION ALL
    SELECT
        scenarios.scenario,
        scenarios.change,
        scenarios.dimension,
        scenarios.group_key,
        shapes.step,
        shapes.dp_rank,
        shapes.dp_rank AS body_dp_rank
    FROM timeline_scenarios AS scenarios
    CROSS JOIN shapes
    LEFT JOIN slow ON shapes.dp_rank = slow.dp_rank
    WHERE scenarios.change = 'only' AND scenarios.dimension = 'worker'
    QUALIFY slow.dp_rank IS NOT NULL
        OR row_number() OVER (
            PARTITION BY scenarios.scenario, shapes.step, shapes.shape, slow.dp_rank IS NULL ORDER BY shapes.dp_rank
        ) = 1
)

SELECT
    scenario,
    change,
    dimension,
    group_key,
    step,
    dp_rank,
    body_dp_rank
FROM lanes
