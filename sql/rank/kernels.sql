-- One row per rank, step, kernel name: how often it ran, how long, and how much of the time it alone explains.
--
-- rank          INTEGER  Rank.
-- step          BIGINT   Step that launched the calls; NULL where their launch is in no step or not in the dump.
-- name          VARCHAR  Name; on the host, of the outermost operator or the collective's span.
-- kind          VARCHAR  compute, comm or copy.
-- comm_evidence VARCHAR  Why it is comm: metadata, operator or name; NULL for other kinds.
-- n_calls       BIGINT   Calls.
-- total_ns      BIGINT   Sum of the calls' durations; calls that run side by side both count.
-- exposed_ns    BIGINT   Time no earlier activity of its kind and no kind before it covers (compute, then comm, then
--     copies): over all names, exposed_ns + idle is the whole time.
--
-- Scope: rank
-- How: of an activity, the part beyond the latest end of its kind so far is its own; of that, comm loses what compute
-- covers and a copy what compute or comm covers, by the union's size before both ends of the part.
WITH named AS (
    SELECT
        row_number() OVER () AS row_no,
        name,
        comm_evidence
    FROM events
    WHERE kind IS NOT NULL
),

own AS (
    SELECT
        row_number() OVER () AS row_no,
        start_ns,
        end_ns,
        step,
        precedence,
        compute_ns + comm_ns + copy_ns AS own_ns,
        end_ns - (compute_ns + comm_ns + copy_ns) AS own_start_ns
    FROM _coverage
),

cover AS (
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
        row_no,
        precedence,
        1 AS sign,
        end_ns AS at_ns
    FROM own
    WHERE precedence > 0 AND own_ns > 0
    UNION ALL
    SELECT
        row_no,
        precedence,
        -1 AS sign,
        own_start_ns AS at_ns
    FROM own
    WHERE precedence > 0 AND own_ns > 0
),

hidden AS (
    SELECT
        ends.row_no,
        sum(
            ends.sign * CASE
                WHEN ends.precedence = 1 THEN
                    coalesce(cover.compute_sum_ns - greatest(0, coalesce(cover.compute_end_ns - ends.at_ns, 0)), 0)
                ELSE coalesce(cover.work_sum_ns - greatest(0, coalesce(cover.work_end_ns - ends.at_ns, 0)), 0)
            END
        ) AS hidden_ns
    FROM ends
    ASOF LEFT JOIN cover ON ends.at_ns >= cover.at_ns
    GROUP BY ends.row_no
)

SELECT
    context.rank,
    own.step,
    named.name,
    CASE own.precedence WHEN 0 THEN 'compute' WHEN 1 THEN 'comm' ELSE 'copy' END AS kind,
    named.comm_evidence,
    count(*) AS n_calls,
    sum(own.end_ns - own.start_ns)::BIGINT AS total_ns,
    sum(own.own_ns - coalesce(hidden.hidden_ns, 0))::BIGINT AS exposed_ns
FROM own
JOIN named ON own.row_no = named.row_no
LEFT JOIN hidden ON own.row_no = hidden.row_no
CROSS JOIN context
GROUP BY ALL
