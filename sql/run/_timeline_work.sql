-- One row per op that the model of a pipelined step knows: what it is and where it stands among its like.
--
-- op_no       BIGINT   Number of the op, from 1.
-- step        BIGINT   Step.
-- dp_rank     INTEGER  Data-parallel rank.
-- stage       INTEGER  Pipeline stage.
-- rank        INTEGER  Rank.
-- optype      VARCHAR  As in timeline_ops.
-- place       BIGINT   Place among the ops of its type on its worker in its step, from 0.
-- kind        VARCHAR  compute, send, recv, or transfer: of several workers together.
-- direction   VARCHAR  forward or backward; NULL outside the passes.
-- op_type     VARCHAR  Type that answers are given by: sends and receives of a direction are one.
-- meets       VARCHAR  Who it needs: nobody, its peer, data (the dp ranks of its stage), ends (the stages of its dp rank) or all.
-- part        VARCHAR  body, the passes; or tail, what follows them.
-- turn        INTEGER  Place of its type in the tail; 0 in the body.
-- typical     VARCHAR  What stands for its ideal duration: mean or median.
-- start_ns    BIGINT   Start.
-- end_ns      BIGINT   End.
-- chunk       INTEGER  Model chunk of its stage; 0 where the dump does not say.
-- model_chunk INTEGER  Of a pass, model chunk of the model; where the dump does not say, its stage.
-- microbatch  BIGINT   Of a pass, its microbatch; where the dump does not say, its place.
--
-- Scope: timeline
WITH types AS (
    SELECT
        *,
        row_number() OVER (ORDER BY optype) AS type_no
    FROM timeline_optypes
),

numbered AS (
    SELECT
        ops.*,
        types.type_no,
        types.kind,
        nullif(types.direction, 'neither') AS direction,
        types.op_type,
        types.meets,
        types.part,
        types.turn::INTEGER AS turn,
        types.typical,
        row_number() OVER (
            ORDER BY
                ops.step,
                ops.dp_rank,
                ops.stage,
                types.type_no,
                ops.seq_id,
                ops.start_ns,
                ops.duration_ns,
                ops.rank,
                ops.microbatch,
                ops.model_chunk,
                ops.chunk
        ) AS op_no
    FROM timeline_ops AS ops
    JOIN types ON ops.optype = types.optype
),

firsts AS (
    SELECT
        step,
        dp_rank,
        stage,
        type_no,
        min(op_no) AS op_no
    FROM numbered
    GROUP BY step, dp_rank, stage, type_no
)

SELECT
    numbered.op_no,
    numbered.step,
    numbered.dp_rank,
    numbered.stage,
    numbered.rank,
    numbered.optype,
    numbered.op_no - firsts.op_no AS place,
    numbered.kind,
    numbered.direction,
    numbered.op_type,
    numbered.meets,
    numbered.part,
    numbered.turn,
    numbered.typical,
    numbered.start_ns,
    numbered.start_ns + numbered.duration_ns AS end_ns,
    coalesce(numbered.chunk, 0) AS chunk,
    CASE
        WHEN numbered.direction IS NOT NULL AND numbered.kind = 'compute'
            THEN coalesce(numbered.model_chunk, numbered.stage)
    END AS model_chunk,
    CASE
        WHEN numbered.direction IS NOT NULL AND numbered.kind = 'compute'
            THEN coalesce(numbered.microbatch, numbered.op_no - firsts.op_no)
    END AS microbatch
FROM numbered
JOIN firsts ON numbered.step = firsts.step AND numbered.dp_rank = firsts.dp_rank AND numbered.stage = firsts.stage
    AND numbered.type_no = firsts.type_no
