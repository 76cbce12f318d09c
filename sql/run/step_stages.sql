-- One row per step, pipeline stage: how its devices' time divides into work and bubble.
--
-- step        BIGINT   Step.
-- stage       INTEGER  Pipeline stage.
-- n_ranks     BIGINT   Ranks of the stage that recorded the step.
-- device_ns   BIGINT   Their windows, summed over ranks.
-- compute_ns  BIGINT   Compute, likewise.
-- comm_ns     BIGINT   Exposed comm but sends and receives, likewise.
-- copy_ns     BIGINT   Exposed copies, likewise.
-- bubble_ns   BIGINT   The rest: idle, or in an exposed send or receive.
-- n_exchanges BIGINT   Sends and receives of one of its ranks, the fewest.
--
-- Scope: steps
-- Order: step, stage
-- How: exposed times of a rank's activities are parts of one union, so they add up.
WITH exchanged AS (
    SELECT
        rank,
        step,
        sum(exposed_ns) FILTER (op = 'send_recv')::BIGINT AS exchange_ns,
        count(*) FILTER (op = 'send_recv') AS n_exchanges
    FROM collectives
    WHERE step IS NOT NULL
    GROUP BY rank, step
)

SELECT
    steps.step,
    ranks.pp AS stage,
    count(*) AS n_ranks,
    sum(steps.duration_ns)::BIGINT AS device_ns,
    sum(steps.compute_ns)::BIGINT AS compute_ns,
    sum(steps.exposed_comm_ns - least(steps.exposed_comm_ns, coalesce(exchanged.exchange_ns, 0)))::BIGINT AS comm_ns,
    sum(steps.exposed_copy_ns)::BIGINT AS copy_ns,
    sum(steps.idle_ns + least(steps.exposed_comm_ns, coalesce(exchanged.exchange_ns, 0)))::BIGINT AS bubble_ns,
    min(coalesce(exchanged.n_exchanges, 0)) AS n_exchanges
FROM rank_steps AS steps
JOIN ranks ON steps.rank = ranks.rank
LEFT JOIN exchanged ON steps.rank = exchanged.rank AND steps.step = exchanged.step
WHERE ranks.pp IS NOT NULL
GROUP BY steps.step, ranks.pp
