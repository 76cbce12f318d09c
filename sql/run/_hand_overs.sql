-- One row per rank, collective of the shard: where the path goes on from it.
--
-- rank        INTEGER  Rank on which the path came to the collective.
-- activity_no BIGINT   Its place among that rank's activities.
-- to_rank     INTEGER  Rank on which the path goes on: the last to arrive, else the same.
-- to_no       BIGINT   The collective's place among that rank's activities.
-- at_ns       BIGINT   When that rank arrived, aligned.
-- end_ns      BIGINT   When the collective ended, aligned: its order among others.
-- is_matched  BOOLEAN  Whether every member of its group is recorded and on one clock.
--
-- Scope: steps
-- As: view
-- How: the path stays on its rank where the last arrival is later by no more than 5 µs or three residuals: ties of
-- nanoseconds would make it hop. It stays too where a member is not recorded or clocks differ.
WITH met AS (
    SELECT
        aligned.rank,
        aligned.activity_no,
        aligned.arrival_ns,
        aligned.end_ns,
        aligned.residual_ns,
        instances.end_ns AS instance_end_ns,
        instances.last_arrival_ns,
        instances.last_rank,
        instances.last_no,
        instances.is_matched
    FROM _aligned AS aligned
    JOIN _met_instances AS instances ON aligned.instance_no = instances.instance_no
),

judged AS (
    SELECT
        met.*,
        met.is_matched AND coalesce(
            met.last_arrival_ns - met.arrival_ns
            > greatest(
                (SELECT turnaround_ns FROM params), 3 * coalesce(greatest(met.residual_ns, leaders.residual_ns), 0)
            ),
            FALSE
        ) AS is_handed
    FROM met
    JOIN rank_clocks AS leaders ON met.last_rank = leaders.rank
)

SELECT
    rank,
    activity_no,
    CASE WHEN is_handed THEN last_rank ELSE rank END AS to_rank,
    CASE WHEN is_handed THEN last_no ELSE activity_no END AS to_no,
    CASE WHEN is_handed THEN last_arrival_ns ELSE arrival_ns END AS at_ns,
    CASE WHEN is_matched THEN instance_end_ns ELSE end_ns END AS end_ns,
    is_matched
FROM judged
