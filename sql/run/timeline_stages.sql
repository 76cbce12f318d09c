-- One row per pipeline stage of an op timeline: its bubble as measured beside that of the schedule.
--
-- stage          INTEGER  Pipeline stage, from 0.
-- n_ranks        BIGINT   Recorded ranks of the stage.
-- n_steps        BIGINT   Steps they recorded.
-- device_ns      BIGINT   Those steps, from the first start to the last end of any op, summed over ranks.
-- compute_ns     BIGINT   In a compute op, likewise.
-- bubble_ns      BIGINT   In no op, or in a send or receive alone, likewise.
-- bubble_ratio   DOUBLE   bubble_ns by device_ns.
-- n_microbatches BIGINT   Microbatches a step: forward passes of the first stage by its chunks.
-- schedule_ratio DOUBLE   As in pipeline_stages.
-- excess_ratio   DOUBLE   Compute of one of its ranks in a step beyond the median of the stages.
-- verdict        VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Table: pipeline_stages
-- Scope: timeline
-- Order: stage
WITH ops AS (
    SELECT
        ops.step,
        ops.rank,
        ops.stage,
        ops.optype,
        types.kind,
        ops.start_ns,
        ops.start_ns + ops.duration_ns AS end_ns,
        coalesce(
            max(ops.start_ns + ops.duration_ns) FILTER (types.kind NOT IN ('send', 'recv')) OVER (
                PARTITION BY ops.step, ops.rank
                ORDER BY ops.start_ns, ops.start_ns + ops.duration_ns, ops.optype, ops.seq_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            ops.start_ns
        ) AS busy_ns,
        coalesce(
            max(ops.start_ns + ops.duration_ns) FILTER (types.kind = 'compute') OVER (
                PARTITION BY ops.step, ops.rank
                ORDER BY ops.start_ns, ops.start_ns + ops.duration_ns, ops.optype, ops.seq_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            ops.start_ns
        ) AS computing_ns
    FROM timeline_ops AS ops
    JOIN timeline_optypes AS types ON ops.optype = types.optype
    WHERE ops.duration_ns IS NOT NULL
),

windows AS (
    SELECT
        step AS window_step,
        max(end_ns) - min(start_ns) AS window_ns
    FROM ops
    GROUP BY step
),

by_rank AS (
    SELECT
        step,
        rank,
        stage,
        coalesce(sum(greatest(0, end_ns - greatest(start_ns, computing_ns))) FILTER (kind = 'compute'), 0)::BIGINT
            AS compute_ns,
        coalesce(
            sum(greatest(0, end_ns - greatest(start_ns, busy_ns))) FILTER (kind NOT IN ('send', 'recv')), 0
        )::BIGINT AS busy_ns,
        count(*) FILTER (optype = 'forward-compute') AS n_passes
    FROM ops
    GROUP BY step, rank, stage
),

by_stage AS (
    SELECT
        by_rank.stage,
        count(DISTINCT by_rank.rank) AS n_ranks,
        count(DISTINCT by_rank.step) AS n_steps,
        sum(windows.window_ns)::BIGINT AS device_ns,
        sum(by_rank.compute_ns)::BIGINT AS compute_ns,
        sum(windows.window_ns - by_rank.busy_ns)::BIGINT AS bubble_ns,
        sum(by_rank.compute_ns) / count(*) AS rank_compute_ns,
        mode(by_rank.n_passes ORDER BY by_rank.n_passes) AS n_passes
    FROM by_rank
    JOIN windows ON by_rank.step = windows.window_step
    GROUP BY by_rank.stage
),

schedule AS (
    SELECT
        max(stage) + 1 AS n_stages,
        count(*) AS n_recorded,
        greatest((SELECT count(DISTINCT chunk) FROM timeline_ops WHERE stage = 0), 1) AS n_chunks,
        min(n_passes) FILTER (stage = 0) AS n_passes,
        median(rank_compute_ns) AS rank_compute_ns
    FROM by_stage
)

SELECT
    by_stage.stage,
    by_stage.n_ranks,
    by_stage.n_steps,
    by_stage.device_ns,
    by_stage.compute_ns,
    by_stage.bubble_ns,
    by_stage.bubble_ns / nullif(by_stage.device_ns, 0) AS bubble_ratio,
    (schedule.n_passes // schedule.n_chunks)::BIGINT AS n_microbatches,
    (schedule.n_stages - 1) / (schedule.n_passes + schedule.n_stages - 1) AS schedule_ratio,
    by_stage.rank_compute_ns / nullif(schedule.rank_compute_ns, 0) - 1 AS excess_ratio,
    CASE
        WHEN schedule.n_recorded < schedule.n_stages
            THEN schedule.n_recorded || ' of ' || schedule.n_stages || ' stages recorded'
        ELSE 'ok'
    END AS verdict
FROM by_stage
CROSS JOIN schedule
WHERE schedule.n_stages > 1
