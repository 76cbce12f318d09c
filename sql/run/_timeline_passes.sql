-- One row per forward or backward pass of a microbatch through a model chunk: where it stands among its worker's passes.
--
-- op_no       BIGINT   Op.
-- step        BIGINT   Step.
-- dp_rank     INTEGER  Data-parallel rank.
-- stage       INTEGER  Pipeline stage.
-- direction   VARCHAR  forward or backward.
-- place       BIGINT   Place among the passes of its direction, from 0.
-- pass_no     BIGINT   Place among all passes of its worker, in order of start, from 1.
-- before_no   BIGINT   Op of the pass before it; NULL at the first.
-- chunk       INTEGER  Model chunk of its stage.
-- model_chunk INTEGER  Model chunk of the model.
-- microbatch  BIGINT   Microbatch.
-- start_ns    BIGINT   Start.
-- end_ns      BIGINT   End.
--
-- Scope: timeline
-- How: a worker runs one pass at a time, so the order of starts is the order they must keep.
SELECT
    op_no,
    step,
    dp_rank,
    stage,
    direction,
    place,
    row_number() OVER in_turn AS pass_no,
    lag(op_no) OVER in_turn AS before_no,
    chunk,
    model_chunk,
    microbatch,
    start_ns,
    end_ns
FROM _timeline_work
WHERE kind = 'compute' AND direction IS NOT NULL
WINDOW in_turn AS (PARTITION BY step, dp_rank, stage ORDER BY start_ns, op_no)
