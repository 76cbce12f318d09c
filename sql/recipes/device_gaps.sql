-- Which gaps between device activities are the longest in a step?
-- $step  BIGINT = NULL  Step; without one the slowest.
-- $rows  BIGINT = 20    Rows at most.
-- run             VARCHAR  Run.
-- rank            INTEGER  Rank.
-- step            BIGINT   Step in whose window the gap is.
-- gap_ns          BIGINT   Time in which nothing runs on any stream of the rank.
-- start_ns        BIGINT   When it begins, on the rank's own clock.
-- before          VARCHAR  Activity that ends there; NULL at the window's start.
-- after           VARCHAR  Activity that ends it.
-- launch_late_ns  BIGINT   Of gap_ns, until the call that launched it: the host was late. NULL without a launch.
-- Empty: where the device is never idle.
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
        w.step,
        w.start_ns AS window_ns,
        e.name,
        e.start_ns,
        e.launch_ns,
        max((e.start_ns + e.duration_ns, e.row_id, e.name)) OVER (
            PARTITION BY e.run, e.rank ORDER BY e.start_ns, e.row_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS latest
    FROM chosen AS c
    JOIN rank_steps AS w ON w.run = c.run AND w.step = c.step
    JOIN events AS e
        ON e.run = w.run
        AND e.rank = w.rank
        AND e.start_ns < w.end_ns
        AND e.start_ns + e.duration_ns > w.start_ns
    WHERE e.kind IS NOT NULL
)
SELECT
    run,
    rank,
    step,
    start_ns - coalesce(latest[1], window_ns) AS gap_ns,
    coalesce(latest[1], window_ns) AS start_ns,
    latest[3] AS before,
    name AS after,
    CASE
        WHEN launch_ns IS NOT NULL THEN greatest(0, least(launch_ns, start_ns) - coalesce(latest[1], window_ns))
    END AS launch_late_ns
FROM followed
WHERE start_ns > coalesce(latest[1], window_ns)
ORDER BY gap_ns DESC, run, rank, 5
LIMIT $rows
