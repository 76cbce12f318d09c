-- One row per rank, step whose six causes do not add up to its idle time.
--
-- run       VARCHAR  Run.
-- rank      INTEGER  Rank.
-- step      BIGINT   Step.
-- idle_ns   BIGINT   Idle time.
-- causes_ns BIGINT   The sum of its causes.
--
-- Scope: check
WITH summed AS (
    SELECT
        run,
        rank,
        step,
        idle_ns,
        idle_input_ns + idle_sync_ns + idle_host_ns + idle_launch_ns + idle_turnaround_ns + idle_other_ns AS causes_ns,
        least(
            idle_input_ns, idle_sync_ns, idle_host_ns, idle_launch_ns, idle_turnaround_ns, idle_other_ns
        ) AS least_ns
    FROM rank_steps
)

SELECT
    run,
    rank,
    step,
    idle_ns,
    causes_ns
FROM summed
WHERE idle_ns <> causes_ns OR least_ns < 0
