-- One row per long stretch of a step's critical path in which it waited for a host, the longest first.
--
-- offset_ns   BIGINT   Start, from the step's.
-- start_ns    BIGINT   Start, on the run's clock.
-- end_ns      BIGINT   End.
-- duration_ns BIGINT   Length.
-- share_ratio DOUBLE   Of the step.
-- rank        INTEGER  Rank.
-- lane        VARCHAR  thread N.
-- kind        VARCHAR  host, input or sync.
-- name        VARCHAR  As in step_critical_path.
-- n_segments  BIGINT   Segments, neighbours alike in rank, lane, kind and name.
-- next_kind   VARCHAR  What the path goes on with; NULL at its end.
-- next_name   VARCHAR  Its name.
-- n_stalls    BIGINT   Such stretches of the step.
-- all_ns      BIGINT   Their time together.
-- shown_ns    BIGINT   That of the rows.
--
-- How: Parameters: $run, $step, $max_rows.
WITH segments AS (
    SELECT
        path.*,
        steps.start_ns AS step_start_ns,
        steps.duration_ns AS step_ns,
        path.rank IS DISTINCT FROM lag(path.rank) OVER in_time
        OR path.lane IS DISTINCT FROM lag(path.lane) OVER in_time
        OR path.kind IS DISTINCT FROM lag(path.kind) OVER in_time
        OR path.name IS DISTINCT FROM lag(path.name) OVER in_time AS is_new
    FROM step_critical_path AS path
    JOIN steps ON path.run = steps.run AND path.step = steps.step
    WHERE path.run = $run AND path.step = $step::BIGINT
    WINDOW in_time AS (ORDER BY path.seq)
),

blocks AS (
    SELECT
        *,
        sum(is_new::BIGINT) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS block_no
    FROM segments
),

stretches AS (
    SELECT
        block_no,
        any_value(rank) AS rank,
        any_value(lane) AS lane,
        any_value(kind) AS kind,
        any_value(name) AS name,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        any_value(step_start_ns) AS step_start_ns,
        any_value(step_ns) AS step_ns,
        count(*) AS n_segments
    FROM blocks
    GROUP BY block_no
),

followed AS (
    SELECT
        *,
        lead(kind) OVER (ORDER BY block_no) AS next_kind,
        lead(name) OVER (ORDER BY block_no) AS next_name
    FROM stretches
),

counted AS (
    SELECT
        *,
        count(*) OVER () AS n_stalls,
        sum(end_ns - start_ns) OVER () AS all_ns,
        row_number() OVER (ORDER BY end_ns - start_ns DESC, block_no) AS place
    FROM followed
    WHERE kind IN ('host', 'input', 'sync')
)

SELECT
    start_ns - step_start_ns AS offset_ns,
    start_ns,
    end_ns,
    end_ns - start_ns AS duration_ns,
    (end_ns - start_ns) / step_ns AS share_ratio,
    rank,
    lane,
    kind,
    name,
    n_segments,
    next_kind,
    next_name,
    n_stalls,
    all_ns::BIGINT AS all_ns,
    (sum(end_ns - start_ns) OVER ())::BIGINT AS shown_ns
FROM counted
WHERE place <= $max_rows
ORDER BY place
