-- One row per pipeline stage: its bubble as measured beside that of the schedule, and how its work differs from the others'.
--
-- stage          INTEGER  Pipeline stage, from 0.
-- n_ranks        BIGINT   Recorded ranks of the stage.
-- n_steps        BIGINT   Steps they recorded.
-- device_ns      BIGINT   Their windows in those, summed over ranks.
-- compute_ns     BIGINT   Compute, likewise.
-- bubble_ns      BIGINT   Idle, or in an exposed send or receive, likewise.
-- bubble_ratio   DOUBLE   bubble_ns by device_ns.
-- n_microbatches BIGINT   Microbatches a step; NULL where neither the run's config nor its sends and receives tell.
-- schedule_ratio DOUBLE   Bubble of p stages that take the same for each of m microbatches: (p - 1) / (m + p - 1); of v virtual
--     stages each (p - 1) / (v m + p - 1). NULL as above.
-- excess_ratio   DOUBLE   Compute of one of its ranks in a step beyond the median of the stages.
-- verdict        VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: run
-- Order: stage
-- How: of one chunk a stage an end of the pipeline sends once and receives once a microbatch; of v chunks 2 v - 1 times as
-- often. Schedule after "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2.
WITH by_stage AS (
    SELECT
        stage,
        max(n_ranks) AS n_ranks,
        count(DISTINCT step) AS n_steps,
        sum(device_ns)::BIGINT AS device_ns,
        sum(compute_ns)::BIGINT AS compute_ns,
        sum(bubble_ns)::BIGINT AS bubble_ns,
        sum(compute_ns) / sum(n_ranks) AS rank_compute_ns,
        mode(n_exchanges ORDER BY n_exchanges) AS n_exchanges
    FROM step_stages
    GROUP BY stage
),

sized AS (
    SELECT
        coalesce((SELECT pp FROM parallel), max(stage) + 1) AS n_stages,
        coalesce((SELECT virtual_stages FROM parallel), 1) AS n_chunks,
        min(n_exchanges) FILTER (stage = 0) AS n_exchanges,
        median(rank_compute_ns) AS rank_compute_ns,
        count(*) AS n_recorded
    FROM by_stage
),

schedule AS (
    SELECT
        *,
        coalesce(
            (SELECT microbatches FROM parallel),
            CASE
                WHEN n_exchanges > 0 AND n_exchanges % (2 * (2 * n_chunks - 1)) = 0
                    THEN n_exchanges // (2 * (2 * n_chunks - 1))
            END
        )::BIGINT AS n_microbatches
    FROM sized
)

SELECT
    by_stage.stage,
    by_stage.n_ranks,
    by_stage.n_steps,
    by_stage.device_ns,
    by_stage.compute_ns,
    by_stage.bubble_ns,
    by_stage.bubble_ns / nullif(by_stage.device_ns, 0) AS bubble_ratio,
    schedule.n_microbatches,
    (schedule.n_stages - 1) / (schedule.n_chunks * schedule.n_microbatches + schedule.n_stages - 1) AS schedule_ratio,
    by_stage.rank_compute_ns / nullif(schedule.rank_compute_ns, 0) - 1 AS excess_ratio,
    coalesce(
        nullif(
            concat_ws(
                '; ',
                CASE
                    WHEN schedule.n_microbatches IS NULL
                        THEN 'schedule n/a: [parallel] microbatches is not given and its sends and receives do not tell'
                END,
                CASE
                    WHEN schedule.n_recorded < schedule.n_stages
                        THEN schedule.n_recorded || ' of ' || schedule.n_stages || ' stages recorded'
                END
            ),
            ''
        ),
        'ok'
    ) AS verdict
FROM by_stage
CROSS JOIN schedule
WHERE schedule.n_stages > 1
