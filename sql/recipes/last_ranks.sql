-- Who comes last to collectives, how often, and how long do others wait then?
-- $rows  BIGINT = 20  Rows at most.
-- run            VARCHAR  Run.
-- rank           INTEGER  Rank.
-- n_collectives  BIGINT   Collectives it took part in, on one clock.
-- n_last         BIGINT   Of them, those at which others waited for it.
-- last_ratio     DOUBLE   n_last by n_collectives.
-- waited_ns      BIGINT   How long they did in those, summed over ranks.
WITH waited AS (
    SELECT
        *,
        sum(wait_ns) OVER (PARTITION BY run, group_id, op, shape, seq, step) AS others_ns
    FROM collectives
    WHERE is_last IS NOT NULL
)
SELECT
    run,
    rank,
    count(*) AS n_collectives,
    count(*) FILTER (WHERE is_last AND others_ns > 0) AS n_last,
    count(*) FILTER (WHERE is_last AND others_ns > 0) / count(*) AS last_ratio,
    coalesce(sum(others_ns) FILTER (WHERE is_last), 0)::BIGINT AS waited_ns
FROM waited
GROUP BY run, rank
ORDER BY waited_ns DESC, run, rank
LIMIT $rows
