-- One row per op of an op timeline: what a worker did, when and for how long.
--
-- step        BIGINT   Step.
-- dp_rank     INTEGER  Data-parallel rank.
-- stage       INTEGER  Pipeline stage.
-- rank        INTEGER  Rank of the job.
-- optype      VARCHAR  What it is, as the dump says: forward-compute, backward-send, grads-reduce-scatter and so on.
-- seq_id      BIGINT   Place among the rank's ops of this type in this step, from 0, in order of start.
-- start_ns    BIGINT   Start, on the dump's clock; some dumps count from the start of each step.
-- duration_ns BIGINT   From start to end; a transfer's own wait for its peers is in it.
-- chunk       INTEGER  Model chunk (virtual stage) of the stage; NULL where the dump does not say.
-- model_chunk INTEGER  Model chunk of the whole model; NULL where the dump does not say.
-- microbatch  INTEGER  Microbatch; NULL where the dump does not say.
--
-- Scope: ops
-- Order: step, dp_rank, stage, optype, seq_id, start_ns, duration_ns, rank, microbatch, model_chunk, chunk
-- How: seconds become nanoseconds, whole seconds apart from the rest: an epoch in seconds as one product would lose 128 ns.
WITH counted AS (
    SELECT
        *,
        floor(start_s)::BIGINT AS whole_s
    FROM raw_ops
    WHERE isfinite(start_s) AND isfinite(duration_s) AND abs(start_s) < (SELECT longest_epoch_s FROM params)
),

placed AS (
    SELECT
        *,
        whole_s * (1e9)::BIGINT + round((start_s - whole_s) * 1e9)::BIGINT AS start_ns,
        CASE
            WHEN duration_s >= 0 AND duration_s * 1e9 <= (SELECT longest_event_ns FROM params)
                THEN round(duration_s * 1e9)::BIGINT
        END AS duration_ns
    FROM counted
)

SELECT
    step,
    dp_rank::INTEGER AS dp_rank,
    stage::INTEGER AS stage,
    rank::INTEGER AS rank,
    optype,
    seq_id,
    start_ns,
    duration_ns,
    CASE WHEN mc >= 0 THEN mc::INTEGER END AS chunk,
    CASE WHEN gmc >= 0 THEN gmc::INTEGER END AS model_chunk,
    CASE WHEN mb_id >= 0 THEN mb_id::INTEGER END AS microbatch
FROM placed
WHERE duration_ns IS NOT NULL AND optype IS NOT NULL AND seq_id BETWEEN 0 AND (SELECT largest_step FROM params)
    AND step BETWEEN 0 AND (SELECT largest_step FROM params)
    AND dp_rank BETWEEN 0 AND (SELECT largest_world - 1 FROM params)
    AND rank BETWEEN 0 AND (SELECT largest_world - 1 FROM params)
    AND stage BETWEEN 0 AND (SELECT most_stages - 1 FROM params)
    AND coalesce(greatest(mc, gmc, mb_id), 0) <= (SELECT largest_world FROM params)
