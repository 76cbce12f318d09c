-- One row per instant at which an activity starts: how much of each union lies before it.
--
-- at_ns          BIGINT  The instant.
-- compute_end_ns BIGINT  Latest end of compute that started by then; NULL where none has.
-- work_end_ns    BIGINT  Of compute or comm.
-- compute_sum_ns BIGINT  Size of compute's union, of what started by then, whole.
-- work_sum_ns    BIGINT  Of that of compute or comm.
--
-- Scope: rank
-- How: before a later instant the union is the sum, less what reaches beyond that instant.
SELECT
    start_ns AS at_ns,
    max(compute_end_ns) AS compute_end_ns,
    max(work_end_ns) AS work_end_ns,
    max(compute_sum_ns)::BIGINT AS compute_sum_ns,
    max(work_sum_ns)::BIGINT AS work_sum_ns
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
