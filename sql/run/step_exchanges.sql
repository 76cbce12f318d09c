-- One row per step, process group, operation: its collectives summed over ranks.
--
-- step              BIGINT   Step of their launch.
-- group_id          VARCHAR  Process group.
-- op                VARCHAR  Operation.
-- n_ranks           INTEGER  Members of the group.
-- n_instances       BIGINT   Instances.
-- n_incomplete      BIGINT   Of them, those with a member that is not recorded.
-- n_bytes           BIGINT   Their bytes; NULL where one's are not recorded.
-- duration_ns       BIGINT   Time in them, summed over ranks and calls.
-- exposed_ns        BIGINT   Of it, what they alone explain, as in collectives; a share of each rank's window.
-- wait_ns           BIGINT   Of duration_ns, waiting for the last to come; NULL where clocks are not aligned.
-- busbw_bytes_per_s DOUBLE   Median bus bandwidth of the complete instances; NULL without.
--
-- Scope: steps
-- Order: step, group_id, op
WITH instances AS (
    SELECT
        step,
        group_id,
        op,
        max(n_ranks) AS n_ranks,
        count(*) AS n_instances,
        count(*) FILTER (NOT is_complete) AS n_incomplete,
        CASE WHEN count(n_bytes) = count(*) THEN sum(n_bytes)::BIGINT END AS n_bytes,
        median(busbw_bytes_per_s) AS busbw_bytes_per_s
    FROM collective_instances
    WHERE step IS NOT NULL
    GROUP BY step, group_id, op
),

spent AS (
    SELECT
        step AS spent_step,
        group_id AS spent_group,
        op AS spent_op,
        sum(greatest(end_ns - arrival_ns, 0))::BIGINT AS duration_ns,
        sum(exposed_ns)::BIGINT AS exposed_ns,
        CASE WHEN count(wait_ns) = count(*) THEN sum(wait_ns)::BIGINT END AS wait_ns
    FROM collectives
    WHERE step IS NOT NULL
    GROUP BY step, group_id, op
)

SELECT
    instances.step,
    instances.group_id,
    instances.op,
    instances.n_ranks,
    instances.n_instances,
    instances.n_incomplete,
    instances.n_bytes,
    coalesce(spent.duration_ns, 0) AS duration_ns,
    coalesce(spent.exposed_ns, 0) AS exposed_ns,
    spent.wait_ns,
    instances.busbw_bytes_per_s
FROM instances
LEFT JOIN spent
    ON instances.step = spent.spent_step
    AND instances.group_id = spent.spent_group
    AND instances.op = spent.spent_op
