-- One row per edge of the graphs to replay, as replay_edges.
--
-- scenario INTEGER  Scenario.
-- source   BIGINT   Node it starts from; NULL: the start of the step.
-- node     BIGINT   Node it leads to.
-- cost_ns  BIGINT   What lies between them.
--
-- Scope: replays
WITH kept AS (
    SELECT
        lanes.scenario,
        arcs.step,
        lanes.body_dp_rank,
        lanes.body_dp_rank <> lanes.dp_rank AND arcs.source_optype IS NOT NULL AS is_borrowed,
        arcs.stage,
        arcs.source_optype,
        arcs.source_place,
        arcs.source,
        arcs.node,
        CASE
            WHEN lanes.dimension IS NULL THEN lanes.change = 'retimed'
            ELSE (lanes.change = 'only') = CASE lanes.dimension
                WHEN 'dp_rank' THEN lanes.group_key = arcs.dp_rank::VARCHAR
                WHEN 'stage' THEN lanes.group_key = arcs.stage::VARCHAR
                WHEN 'op_type' THEN lanes.group_key = arcs.source_type
                ELSE arcs.rank IN (SELECT rank FROM timeline_workers WHERE is_slowest)
            END
        END AS keeps_source,
        CASE
            WHEN lanes.dimension IS NULL THEN lanes.change = 'retimed'
            ELSE (lanes.change = 'only') = CASE lanes.dimension
                WHEN 'dp_rank' THEN lanes.group_key = arcs.dp_rank::VARCHAR
                WHEN 'stage' THEN lanes.group_key = arcs.stage::VARCHAR
                WHEN 'op_type' THEN lanes.group_key = arcs.node_type
                ELSE arcs.rank IN (SELECT rank FROM timeline_workers WHERE is_slowest)
            END
        END AS keeps_node,
        arcs.source_own_ns,
        arcs.source_ideal_ns,
        arcs.node_own_ns,
        arcs.node_ideal_ns
    FROM _timeline_arcs AS arcs
    JOIN _timeline_lanes AS lanes ON arcs.step = lanes.step AND arcs.dp_rank = lanes.dp_rank
    WHERE arcs.is_tail OR lanes.body_dp_rank = lanes.dp_rank
)

SELECT
    kept.scenario,
    CASE WHEN kept.is_borrowed THEN twins.node ELSE kept.source END AS source,
    kept.node,
    CASE WHEN kept.keeps_source THEN kept.source_own_ns ELSE kept.source_ideal_ns END
    + CASE WHEN kept.keeps_node THEN kept.node_own_ns ELSE kept.node_ideal_ns END AS cost_ns
FROM kept
LEFT JOIN _timeline_costs AS twins ON kept.is_borrowed AND kept.step = twins.step AND kept.body_dp_rank = twins.dp_rank
    AND kept.stage = twins.stage AND kept.source_optype = twins.optype AND kept.source_place = twins.place
