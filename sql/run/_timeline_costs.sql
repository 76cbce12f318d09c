-- One row per op of a step's model: its node in the graph and what it takes once it can go.
--
-- op_no       BIGINT   Op.
-- step        BIGINT   Step.
-- dp_rank     INTEGER  Data-parallel rank.
-- stage       INTEGER  Pipeline stage.
-- rank        INTEGER  Rank.
-- optype      VARCHAR  Type.
-- place       BIGINT   Place among the ops of its type on its worker.
-- op_type     VARCHAR  Type that answers are given by.
-- part        VARCHAR  body or tail.
-- turn        INTEGER  Place of its type in the tail.
-- typical     VARCHAR  What stands for its ideal duration.
-- is_transfer BOOLEAN  Whether it needs others: its node is the moment all have come, else the op's own end.
-- node        BIGINT   Node: an op's number; of a transfer the smallest of those who meet.
-- is_unpaired BOOLEAN  Whether the other end of a send or receive should be recorded, and is not.
-- own_ns      BIGINT   What it took: of a transfer from the moment all had come, else from its start. A little below 0
--     where clocks differ; 0 where it ended long before the last had come, which no clock explains.
-- start_ns    BIGINT   Start.
-- ready_ns    BIGINT   Of a transfer, when the last had come; else its start.
-- end_ns      BIGINT   End.
--
-- Scope: timeline
WITH paired AS (
    SELECT
        sends.op_no AS send_no,
        recvs.op_no AS recv_no
    FROM _timeline_hops AS sends
    JOIN _timeline_hops AS recvs ON sends.step = recvs.step AND sends.dp_rank = recvs.dp_rank
        AND sends.direction = recvs.direction AND sends.microbatch = recvs.microbatch
        AND sends.peer_chunk = recvs.model_chunk AND recvs.peer_chunk = sends.model_chunk
    WHERE sends.kind = 'send' AND recvs.kind = 'recv'
    QUALIFY row_number() OVER (PARTITION BY sends.op_no ORDER BY recvs.op_no) = 1
        AND row_number() OVER (PARTITION BY recvs.op_no ORDER BY sends.op_no) = 1
),

ends_of_pairs AS (
    SELECT
        send_no AS op_no,
        send_no AS node
    FROM paired
    UNION ALL
    SELECT
        recv_no AS op_no,
        send_no AS node
    FROM paired
),

hops AS (
    SELECT
        hops.op_no,
        coalesce(ends_of_pairs.node, hops.op_no) AS node,
        ends_of_pairs.node IS NULL AND hops.peer_chunk BETWEEN 0 AND (SELECT max(model_chunk) FROM _timeline_passes)
            AS is_unpaired
    FROM _timeline_hops AS hops
    LEFT JOIN ends_of_pairs ON hops.op_no = ends_of_pairs.op_no
),

meetings AS (
    SELECT
        op_no,
        min(op_no) OVER (
            PARTITION BY
                step,
                optype,
                place,
                CASE WHEN meets = 'data' THEN stage END,
                CASE WHEN meets = 'ends' THEN dp_rank END
        ) AS node
    FROM _timeline_work
    WHERE kind = 'transfer'
),

nodes AS (
    SELECT
        op_no,
        node,
        is_unpaired,
        TRUE AS is_transfer
    FROM hops
    UNION ALL
    SELECT
        op_no,
        node,
        FALSE AS is_unpaired,
        TRUE AS is_transfer
    FROM meetings
    UNION ALL
    SELECT
        op_no,
        op_no AS node,
        FALSE AS is_unpaired,
        FALSE AS is_transfer
    FROM _timeline_work
    WHERE kind = 'compute'
),

comings AS (
    SELECT
        nodes.node,
        max(work.start_ns) AS ready_ns
    FROM nodes
    JOIN _timeline_work AS work ON nodes.op_no = work.op_no
    WHERE nodes.is_transfer
    GROUP BY nodes.node
),

ready AS (
    SELECT
        work.op_no,
        work.step,
        work.dp_rank,
        work.stage,
        work.rank,
        work.optype,
        work.place,
        work.op_type,
        work.part,
        work.turn,
        work.typical,
        nodes.is_transfer,
        nodes.node,
        nodes.is_unpaired,
        work.start_ns,
        coalesce(comings.ready_ns, work.start_ns) AS ready_ns,
        work.end_ns
    FROM _timeline_work AS work
    JOIN nodes ON work.op_no = nodes.op_no
    LEFT JOIN comings ON nodes.is_transfer AND nodes.node = comings.node
)

SELECT
    op_no,
    step,
    dp_rank,
    stage,
    rank,
    optype,
    place,
    op_type,
    part,
    turn,
    typical,
    is_transfer,
    node,
    is_unpaired,
    CASE WHEN end_ns - ready_ns > -(SELECT clock_slack_ns FROM params) THEN end_ns - ready_ns ELSE 0 END AS own_ns,
    start_ns,
    ready_ns,
    end_ns
FROM ready
