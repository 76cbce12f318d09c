-- Which kernels, operators and calls is a step's critical path made of?
-- $step  BIGINT = NULL  Step; without one the slowest.
-- $rows  BIGINT = 20    Rows at most.
-- run          VARCHAR  Run.
-- step         BIGINT   Step.
-- rank         INTEGER  Rank.
-- kind         VARCHAR  Kind of the path's time.
-- name         VARCHAR  Kernel, operator, call or range.
-- duration_ns  BIGINT   Its time on the path.
-- path_ratio   DOUBLE   Of the path.
-- n_segments   BIGINT   In how many segments.
WITH chosen AS (
    SELECT
        run,
        coalesce($step::BIGINT, arg_max(step, (duration_ns, -step)) FILTER (WHERE duration_ns IS NOT NULL)) AS step
    FROM steps
    GROUP BY run
)
SELECT
    run,
    step,
    p.rank,
    p.kind,
    p.name,
    sum(p.duration_ns)::BIGINT AS duration_ns,
    sum(p.duration_ns) / nullif(sum(sum(p.duration_ns)) OVER (PARTITION BY run), 0) AS path_ratio,
    count(*) AS n_segments
FROM chosen
JOIN step_critical_path AS p USING (run, step)
GROUP BY run, step, p.rank, p.kind, p.name
ORDER BY duration_ns DESC, run, p.rank, p.kind, p.name
LIMIT $rows
