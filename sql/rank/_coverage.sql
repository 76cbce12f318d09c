-- One row per activity, in order of start: what it adds to the union of each set of kinds.
--
-- activity_no      BIGINT   Place of the activity in order of start.
-- start_ns         BIGINT   Start of the activity.
-- end_ns           BIGINT   Its end.
-- precedence       TINYINT  0 compute, 1 comm, 2 copy.
-- step             BIGINT   Step that launched it.
-- launch_ns        BIGINT   Start of its launch.
-- launch_thread    BIGINT   Thread of its launch.
-- compute_end_ns   BIGINT   Latest end of any compute up to here; NULL before the first.
-- work_end_ns      BIGINT   Latest end of any compute or comm up to here; NULL before the first.
-- idle_from_ns     BIGINT   Latest end of any activity before this one; NULL for the first.
-- own_from_ns      BIGINT   Latest end of its own kind before this one; NULL for the first.
-- compute_ns       BIGINT   New time of compute.
-- comm_ns          BIGINT   New time of comm.
-- copy_ns          BIGINT   New time of copies.
-- work_ns          BIGINT   New time of compute or comm.
-- busy_ns          BIGINT   New time of anything.
--
-- Scope: rank
-- How: in order of start, an interval adds to a union what reaches beyond the latest end so far. The windows stream in
-- file order, without a sort; a row out of order would break that, so it is an error.
WITH running AS (
    SELECT
        *,
        max(CASE WHEN precedence = 0 THEN end_ns END) OVER so_far AS compute_end_ns,
        max(CASE WHEN precedence = 1 THEN end_ns END) OVER so_far AS comm_end_ns,
        max(CASE WHEN precedence = 2 THEN end_ns END) OVER so_far AS copy_end_ns,
        max(CASE WHEN precedence < 2 THEN end_ns END) OVER so_far AS work_end_ns,
        max(end_ns) OVER so_far AS busy_end_ns
    FROM _activities
    WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
),

lagged AS (
    SELECT
        *,
        lag(start_ns) OVER () AS start_before_ns,
        lag(compute_end_ns) OVER () AS compute_before_ns,
        lag(comm_end_ns) OVER () AS comm_before_ns,
        lag(copy_end_ns) OVER () AS copy_before_ns,
        lag(work_end_ns) OVER () AS work_before_ns,
        lag(busy_end_ns) OVER () AS busy_before_ns
    FROM running
)

SELECT
    activity_no,
    CASE
        WHEN start_before_ns > start_ns THEN error('events are not in order of start: ingest the dump again')
        ELSE start_ns
    END AS start_ns,
    end_ns,
    precedence,
    step,
    launch_ns,
    launch_thread,
    compute_end_ns,
    work_end_ns,
    busy_before_ns AS idle_from_ns,
    CASE precedence WHEN 0 THEN compute_before_ns WHEN 1 THEN comm_before_ns ELSE copy_before_ns END AS own_from_ns,
    CASE
        WHEN precedence = 0 THEN greatest(0, end_ns - greatest(start_ns, coalesce(compute_before_ns, start_ns)))
        ELSE 0
    END AS compute_ns,
    CASE
        WHEN precedence = 1 THEN greatest(0, end_ns - greatest(start_ns, coalesce(comm_before_ns, start_ns)))
        ELSE 0
    END AS comm_ns,
    CASE
        WHEN precedence = 2 THEN greatest(0, end_ns - greatest(start_ns, coalesce(copy_before_ns, start_ns)))
        ELSE 0
    END AS copy_ns,
    CASE
        WHEN precedence < 2 THEN greatest(0, end_ns - greatest(start_ns, coalesce(work_before_ns, start_ns)))
        ELSE 0
    END AS work_ns,
    greatest(0, end_ns - greatest(start_ns, coalesce(busy_before_ns, start_ns))) AS busy_ns
FROM lagged
