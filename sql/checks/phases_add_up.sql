-- One row per rank, step whose phases do not add up to its busy time, or one of which is longer than it lasts.
--
-- run       VARCHAR  Run.
-- rank      INTEGER  Rank.
-- step      BIGINT   Step.
-- busy_ns   BIGINT   The window without its idle time.
-- phases_ns BIGINT   The sum of its phases.
-- n_wrong   BIGINT   Phases with less than no time, or more than from their start to their end, or than the window has.
--
-- Scope: check
WITH summed AS (
    SELECT
        run AS phase_run,
        rank AS phase_rank,
        step AS phase_step,
        sum(gpu_ns)::BIGINT AS phases_ns
    FROM phases
    GROUP BY run, rank, step
),

wrong AS (
    SELECT
        phases.run,
        phases.rank,
        phases.step,
        count(*) AS n_wrong
    FROM phases
    JOIN rank_steps ON phases.run = rank_steps.run AND phases.rank = rank_steps.rank AND phases.step = rank_steps.step
    WHERE phases.gpu_ns < 0 OR phases.gpu_ns > phases.window_ns OR phases.window_ns > rank_steps.duration_ns
    GROUP BY phases.run, phases.rank, phases.step
)

SELECT
    rank_steps.run,
    rank_steps.rank,
    rank_steps.step,
    rank_steps.duration_ns - rank_steps.idle_ns AS busy_ns,
    coalesce(summed.phases_ns, 0) AS phases_ns,
    coalesce(wrong.n_wrong, 0) AS n_wrong
FROM rank_steps
LEFT JOIN summed
    ON rank_steps.run = summed.phase_run AND rank_steps.rank = summed.phase_rank AND rank_steps.step = summed.phase_step
LEFT JOIN wrong
    ON rank_steps.run = wrong.run AND rank_steps.rank = wrong.rank AND rank_steps.step = wrong.step
WHERE rank_steps.duration_ns - rank_steps.idle_ns <> coalesce(summed.phases_ns, 0) OR wrong.n_wrong > 0
