-- One row per comm or copy activity that adds to its kind's union: how much of what it adds something before it hides.
--
-- activity_no BIGINT  Place of the activity in order of start.
-- hidden_ns   BIGINT  Of the time it adds to the union of its kind, what compute (for comm), or compute or comm (for
--     copies) covers.
--
-- Scope: rank
-- How: of an activity, the part beyond the latest end of its kind so far is its own; the union's size before both ends
-- of that part says what is covered there.
WITH cover AS (
    SELECT
        start_ns AS at_ns,
        max(compute_end_ns) AS compute_end_ns,
        max(work_end_ns) AS work_end_ns,
        max(compute_sum_ns) AS compute_sum_ns,
        max(work_sum_ns) AS work_sum_ns
    FROM (
        SELECT
            start_ns,
            compute_end_ns,
            work_end_ns,
            sum(compute_ns) OVER so_far AS compute_sum_ns,
            sum(work_ns) OVER so_far AS work_sum_ns
        FROM _coverage
        WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
    )
    GROUP BY start_ns
),

ends AS (
    SELECT
        activity_no,
        precedence,
        1 AS sign,
        end_ns AS at_ns
    FROM _coverage
    WHERE precedence > 0 AND comm_ns + copy_ns > 0
    UNION ALL
    SELECT
        activity_no,
        precedence,
        -1 AS sign,
        end_ns - comm_ns - copy_ns AS at_ns
    FROM _coverage
    WHERE precedence > 0 AND comm_ns + copy_ns > 0
)

SELECT
    ends.activity_no,
    sum(
        ends.sign * CASE
            WHEN ends.precedence = 1 THEN
                coalesce(cover.compute_sum_ns - greatest(0, coalesce(cover.compute_end_ns - ends.at_ns, 0)), 0)
            ELSE coalesce(cover.work_sum_ns - greatest(0, coalesce(cover.work_end_ns - ends.at_ns, 0)), 0)
        END
    )::BIGINT AS hidden_ns
FROM ends
ASOF LEFT JOIN cover ON ends.at_ns >= cover.at_ns
GROUP BY ends.activity_no
