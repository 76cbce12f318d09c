-- Which calls into the driver hold the host longest in a step?
-- $step  BIGINT = NULL  Step; without one the slowest.
-- $rows  BIGINT = 20    Rows at most.
-- run           VARCHAR  Run.
-- name          VARCHAR  Call.
-- n_calls       BIGINT   Calls, over ranks.
-- total_ns      BIGINT   Sum of their durations.
-- longest_ns    BIGINT   The longest.
-- longest_rank  INTEGER  On which rank that was.
-- Empty: where the dump has none, as without a device.
WITH chosen AS (
    SELECT
        run,
        coalesce($step::BIGINT, arg_max(step, (duration_ns, -step)) FILTER (WHERE duration_ns IS NOT NULL)) AS step
    FROM steps
    GROUP BY run
)
SELECT
    run,
    e.name,
    count(*) AS n_calls,
    sum(e.duration_ns)::BIGINT AS total_ns,
    max(e.duration_ns) AS longest_ns,
    arg_max(e.rank, (e.duration_ns, -e.rank)) AS longest_rank
FROM chosen
JOIN events AS e USING (run, step)
WHERE e.category IN ('runtime', 'driver') AND e.duration_ns IS NOT NULL
GROUP BY run, e.name
ORDER BY total_ns DESC, run, e.name
LIMIT $rows
