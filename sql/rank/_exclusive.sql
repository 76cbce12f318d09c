-- One row per activity and window that it runs in: how much of it the activity alone explains.
--
-- activity_no  BIGINT   Place of the activity in order of start.
-- step         BIGINT   Step in whose window it runs; NULL outside of all windows.
-- start_ns     BIGINT   Start of the activity, or of the window where that is later.
-- end_ns       BIGINT   End of the activity, or of the window where that is earlier.
-- exclusive_ns BIGINT   Time in between that no earlier activity of its kind and no kind before it covers: compute, then
--     comm, then copies.
--
-- Scope: rank
-- How: of an activity, the part beyond the latest end of its kind so far is its own; for comm and copies, the union's size
-- before both ends of that part says what is covered there. Over all activities of a window this adds up to its busy time.
WITH bounds AS (
    SELECT
        at_ns,
        step,
        lead(at_ns) OVER (ORDER BY at_ns) AS next_ns
    FROM (
        SELECT
            start_ns AS at_ns,
            step
        FROM _windows
        WHERE end_ns > start_ns
        UNION ALL
        SELECT
            ends.end_ns AS at_ns,
            NULL AS step
        FROM _windows AS ends
        ANTI JOIN (SELECT start_ns FROM _windows WHERE end_ns > start_ns) AS starts ON ends.end_ns = starts.start_ns
        WHERE ends.end_ns > ends.start_ns
        UNION ALL
        SELECT
            min(start_ns) - 1 AS at_ns,
            NULL AS step
        FROM (
            SELECT start_ns FROM _windows
            UNION ALL
            SELECT start_ns FROM _coverage
        )
    )
),

placed AS (
    SELECT
        coverage.activity_no,
        coverage.precedence,
        coverage.start_ns,
        coverage.end_ns,
        coverage.end_ns - coverage.compute_ns - coverage.comm_ns - coverage.copy_ns AS own_from_ns,
        bounds.step,
        bounds.next_ns
    FROM _coverage AS coverage
    ASOF JOIN bounds ON coverage.start_ns >= bounds.at_ns
),

pieces AS (
    SELECT
        activity_no,
        precedence,
        own_from_ns,
        step,
        start_ns,
        CASE WHEN end_ns > next_ns THEN next_ns ELSE end_ns END AS end_ns
    FROM placed
    UNION ALL
    SELECT
        placed.activity_no,
        placed.precedence,
        placed.own_from_ns,
        bounds.step,
        bounds.at_ns AS start_ns,
        CASE WHEN placed.end_ns > bounds.next_ns THEN bounds.next_ns ELSE placed.end_ns END AS end_ns
    FROM (SELECT * FROM placed WHERE end_ns > next_ns) AS placed
    JOIN bounds ON bounds.at_ns >= placed.next_ns AND bounds.at_ns < placed.end_ns
),

ends AS (
    SELECT
        activity_no,
        precedence,
        start_ns,
        1 AS sign,
        end_ns AS at_ns
    FROM pieces
    WHERE precedence > 0 AND end_ns > own_from_ns
    UNION ALL
    SELECT
        activity_no,
        precedence,
        start_ns,
        -1 AS sign,
        CASE WHEN start_ns > own_from_ns THEN start_ns ELSE own_from_ns END AS at_ns
    FROM pieces
    WHERE precedence > 0 AND end_ns > own_from_ns
),

hidden AS (
    SELECT
        ends.activity_no,
        ends.start_ns,
        sum(
            ends.sign * CASE
                WHEN ends.precedence = 1 THEN
                    coalesce(cover.compute_sum_ns - greatest(0, coalesce(cover.compute_end_ns - ends.at_ns, 0)), 0)
                ELSE coalesce(cover.work_sum_ns - greatest(0, coalesce(cover.work_end_ns - ends.at_ns, 0)), 0)
            END
        )::BIGINT AS hidden_ns
    FROM ends
    ASOF LEFT JOIN _cover AS cover ON ends.at_ns >= cover.at_ns
    GROUP BY ends.activity_no, ends.start_ns
)

SELECT
    pieces.activity_no,
    pieces.step,
    pieces.start_ns,
    pieces.end_ns,
    greatest(
        0,
        pieces.end_ns - CASE WHEN pieces.start_ns > pieces.own_from_ns THEN pieces.start_ns ELSE pieces.own_from_ns END
    ) - coalesce(hidden.hidden_ns, 0) AS exclusive_ns
FROM pieces
LEFT JOIN hidden ON pieces.activity_no = hidden.activity_no AND pieces.start_ns = hidden.start_ns
