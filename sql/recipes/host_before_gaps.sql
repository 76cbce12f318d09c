-- What did the host do in the longest device gaps of a step?
-- $step  BIGINT = NULL  Step; without one the slowest.
-- $gaps  INTEGER = 5    Gaps of a run that are looked into, the longest first.
-- $rows  BIGINT = 20    Rows at most.
-- run        VARCHAR  Run.
-- rank       INTEGER  Rank.
-- gap_ns     BIGINT   Length of the gap.
-- after      VARCHAR  Device activity that ends it.
-- category   VARCHAR  Kind of event on the thread that launched it.
-- name       VARCHAR  Operator, call or range.
-- inside_ns  BIGINT   Of its duration, in the gap; events that hold each other both count.
-- Empty: without gaps, and where what follows them has no launch in the dump.
WITH
chosen AS (
    SELECT
        run,
        coalesce($step::BIGINT, arg_max(step, (duration_ns, -step)) FILTER (WHERE duration_ns IS NOT NULL)) AS step
    FROM steps
    GROUP BY run
),
followed AS (
    SELECT
        e.run,
        e.rank,
        e.name,
        e.start_ns,
        e.launch_thread,
        coalesce(
            max(e.start_ns + e.duration_ns) OVER (
                PARTITION BY e.run, e.rank
                ORDER BY e.start_ns, e.row_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            w.start_ns
        ) AS free_ns
    FROM chosen AS c
    JOIN rank_steps AS w ON w.run = c.run AND w.step = c.step
    JOIN events AS e
        ON e.run = w.run
        AND e.rank = w.rank
        AND e.start_ns < w.end_ns
        AND e.start_ns + e.duration_ns > w.start_ns
    WHERE e.kind IS NOT NULL
),
gaps AS (
    SELECT
        *,
        start_ns - free_ns AS gap_ns
    FROM followed
    WHERE start_ns > free_ns
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY start_ns - free_ns DESC, rank, free_ns) <= $gaps::INTEGER
)
SELECT
    g.run,
    g.rank,
    g.gap_ns,
    g.name AS after,
    e.category,
    e.name,
    least(e.start_ns + e.duration_ns, g.start_ns) - greatest(e.start_ns, g.free_ns) AS inside_ns
FROM gaps AS g
JOIN events AS e
    ON e.run = g.run
    AND e.rank = g.rank
    AND e.thread = g.launch_thread
    AND e.start_ns < g.start_ns
    AND e.start_ns + e.duration_ns > g.free_ns
WHERE e.category IN ('cpu_op', 'runtime', 'driver', 'annotation')
ORDER BY g.gap_ns DESC, g.run, g.rank, g.free_ns, inside_ns DESC, e.start_ns, e.row_id
LIMIT $rows
