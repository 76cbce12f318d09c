-- One row per dependency of a step's graph: from where to where, and what it costs with own and with ideal durations.
--
-- step          BIGINT   Step.
-- dp_rank       INTEGER  Data-parallel rank.
-- stage         INTEGER  Pipeline stage.
-- rank          INTEGER  Rank.
-- is_tail       BOOLEAN  Whether it leads into the tail.
-- source_optype VARCHAR  Type of the op that it starts from where that is of the body and it leads into the tail, else NULL.
-- source_place  BIGINT   Place of that op among its like.
-- source        BIGINT   Node it starts from; NULL: the start of the step.
-- node          BIGINT   Node it leads to; below 0: the end of the step.
-- source_type   VARCHAR  op_type of what the source's part of the cost belongs to.
-- source_own_ns BIGINT   Of a transfer, what it took from when all had come; else 0, since its node is its end.
-- source_ideal_ns BIGINT The same, ideal.
-- node_type     VARCHAR  op_type of what the node's part of the cost belongs to.
-- node_own_ns   BIGINT   Of compute, what it took; else 0, since its node is its start.
-- node_ideal_ns BIGINT   The same, ideal.
--
-- Scope: replays
WITH costs AS (
    SELECT
        costs.op_no,
        costs.step,
        costs.dp_rank,
        costs.stage,
        costs.rank,
        costs.optype,
        costs.place,
        costs.op_type,
        costs.part = 'tail' AS is_tail,
        costs.node,
        CASE WHEN costs.is_transfer THEN 0 ELSE costs.own_ns END AS before_own_ns,
        CASE WHEN costs.is_transfer THEN 0 ELSE ideals.ideal_ns END AS before_ideal_ns,
        CASE WHEN costs.is_transfer THEN costs.own_ns ELSE 0 END AS after_own_ns,
        CASE WHEN costs.is_transfer THEN ideals.ideal_ns ELSE 0 END AS after_ideal_ns,
        dense_rank() OVER (ORDER BY costs.step) AS step_no
    FROM _timeline_costs AS costs
    JOIN timeline_ideals AS ideals ON costs.optype = ideals.optype
)

SELECT
    costs.step,
    costs.dp_rank,
    costs.stage,
    costs.rank,
    costs.is_tail,
    CASE WHEN costs.is_tail AND NOT sources.is_tail THEN sources.optype END AS source_optype,
    CASE WHEN costs.is_tail AND NOT sources.is_tail THEN sources.place END AS source_place,
    sources.node AS source,
    costs.node,
    sources.op_type AS source_type,
    sources.after_own_ns AS source_own_ns,
    sources.after_ideal_ns AS source_ideal_ns,
    costs.op_type AS node_type,
    costs.before_own_ns AS node_own_ns,
    costs.before_ideal_ns AS node_ideal_ns
FROM _timeline_links AS links
JOIN costs ON links.op_no = costs.op_no
JOIN costs AS sources ON links.after_no = sources.op_no
UNION ALL
SELECT
    step,
    dp_rank,
    stage,
    rank,
    is_tail,
    NULL AS source_optype,
    NULL AS source_place,
    NULL AS source,
    node,
    op_type AS source_type,
    0 AS source_own_ns,
    0 AS source_ideal_ns,
    op_type AS node_type,
    before_own_ns AS node_own_ns,
    before_ideal_ns AS node_ideal_ns
FROM costs
WHERE op_no NOT IN (SELECT op_no FROM _timeline_links)
UNION ALL
SELECT
    step,
    dp_rank,
    stage,
    rank,
    is_tail,
    NULL AS source_optype,
    NULL AS source_place,
    node AS source,
    -step_no AS node,
    op_type AS source_type,
    after_own_ns AS source_own_ns,
    after_ideal_ns AS source_ideal_ns,
    op_type AS node_type,
    0 AS node_own_ns,
    0 AS node_ideal_ns
FROM costs
WHERE op_no NOT IN (SELECT after_no FROM _timeline_links)
