-- How much exchange is exposed, by process group and operation?
-- $rows  BIGINT = 20  Rows at most.
-- run            VARCHAR  Run.
-- group_id       VARCHAR  Process group.
-- description    VARCHAR  What the job calls it; NULL without metadata.
-- op             VARCHAR  Operation.
-- n_ranks        INTEGER  Members of the group.
-- n_instances    BIGINT   Collectives.
-- exposed_ns     BIGINT   Time that they alone explain, summed over ranks.
-- exposed_ratio  DOUBLE   Of all ranks' windows.
-- wait_ns        BIGINT   Of their duration, waiting for the last to come; NULL where clocks are not aligned.
WITH
windows AS (
    SELECT
        run,
        sum(duration_ns) AS windows_ns
    FROM rank_steps
    GROUP BY run
),
named AS (
    SELECT
        run,
        group_id,
        min(description) AS description
    FROM groups
    GROUP BY run, group_id
)
SELECT
    run,
    group_id,
    min(n.description) AS description,
    e.op,
    max(e.n_ranks) AS n_ranks,
    sum(e.n_instances)::BIGINT AS n_instances,
    sum(e.exposed_ns)::BIGINT AS exposed_ns,
    sum(e.exposed_ns) / nullif(min(w.windows_ns), 0) AS exposed_ratio,
    CASE WHEN count(e.wait_ns) = count(*) THEN sum(e.wait_ns)::BIGINT END AS wait_ns
FROM step_exchanges AS e
LEFT JOIN named AS n USING (run, group_id)
LEFT JOIN windows AS w USING (run)
GROUP BY run, group_id, e.op
ORDER BY exposed_ns DESC, run, group_id, e.op
LIMIT $rows
