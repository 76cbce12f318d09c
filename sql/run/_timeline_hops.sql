-- One row per send or receive of a pipeline: the pass it belongs to and the one it leads to or comes from.
--
-- op_no       BIGINT   Op.
-- step        BIGINT   Step.
-- dp_rank     INTEGER  Data-parallel rank.
-- stage       INTEGER  Pipeline stage.
-- kind        VARCHAR  send or recv.
-- direction   VARCHAR  forward or backward.
-- pass        BIGINT   Op of the pass whose result it sends, or that needs what it receives.
-- pass_place  BIGINT   Place of that pass among those of its direction.
-- microbatch  BIGINT   Microbatch of that pass.
-- model_chunk INTEGER  Model chunk of that pass.
-- peer_chunk  INTEGER  Model chunk at the other end; below 0 or beyond the last where there is none.
--
-- Scope: timeline
-- How: a worker's sends of one direction go in the order of its passes, and so do its receives. Recorders also note calls
-- that never came to be: a receive posted after the last pass began, a send done before the first pass ended. They are left
-- out. Where a receive is then missing, it is the first: the first model chunk has nobody to receive from.
WITH spans AS (
    SELECT
        step,
        dp_rank,
        stage,
        direction,
        max(start_ns) AS last_start_ns,
        min(end_ns) AS first_end_ns,
        count(*) AS n_passes
    FROM _timeline_passes
    GROUP BY step, dp_rank, stage, direction
),

called AS (
    SELECT
        work.op_no,
        work.step,
        work.dp_rank,
        work.stage,
        work.kind,
        work.direction,
        work.place,
        spans.n_passes
    FROM _timeline_work AS work
    JOIN spans ON work.step = spans.step AND work.dp_rank = spans.dp_rank AND work.stage = spans.stage
        AND work.direction = spans.direction
    WHERE CASE work.kind
        WHEN 'recv' THEN work.start_ns <= spans.last_start_ns + (SELECT hop_slack_ns FROM params)
        WHEN 'send' THEN work.end_ns >= spans.first_end_ns - (SELECT hop_slack_ns FROM params)
        ELSE FALSE
    END
),

placed AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY step, dp_rank, stage, direction, kind ORDER BY place) - 1
        + CASE kind
            WHEN 'recv' THEN n_passes - count(*) OVER (PARTITION BY step, dp_rank, stage, direction, kind)
            ELSE 0
        END AS pass_place
    FROM called
)

SELECT
    placed.op_no,
    placed.step,
    placed.dp_rank,
    placed.stage,
    placed.kind,
    placed.direction,
    passes.op_no AS pass,
    placed.pass_place,
    passes.microbatch,
    passes.model_chunk,
    passes.model_chunk + CASE WHEN (placed.kind = 'send') = (placed.direction = 'forward') THEN 1 ELSE -1 END AS peer_chunk
FROM placed
JOIN _timeline_passes AS passes ON placed.step = passes.step AND placed.dp_rank = passes.dp_rank
    AND placed.stage = passes.stage AND placed.direction = passes.direction AND placed.pass_place = passes.place
