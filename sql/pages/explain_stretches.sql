-- One row per stretch of a step's path, in order of time: the largest by themselves, all between two of them together.
--
-- offset_ns   BIGINT   Start, from the step's.
-- duration_ns BIGINT   Length; over all rows it adds up to the step.
-- share_ratio DOUBLE   Its share of the step.
-- is_folded   BOOLEAN  Whether it is what lies between larger ones, of one sort or of many.
-- n_segments  BIGINT   Segments of the path.
-- n_ranks     BIGINT   Ranks they lie on.
-- rank        INTEGER  Rank with most of its time.
-- lane        VARCHAR  Lane with most of its time.
-- kind        VARCHAR  Kind with most of its time.
-- kind_ns     BIGINT   Time of that kind.
-- kind_ratio  DOUBLE   Its share of the stretch.
-- part_of     VARCHAR  Innermost range around it that is at least a twentieth of the step; NULL without, or folded.
-- n_names     BIGINT   Names in it.
-- name        VARCHAR  Name with most of its time.
-- name_ns     BIGINT   Time of that name.
-- verdict     VARCHAR  ok, or peer not recorded where any of it says so.
--
-- How: neighbours alike in rank, lane, kind and name are one where they take a hundredth of the step together; of the rest
-- neighbours on one lane within one range are one. What takes a hundredth is shown, from the largest down as long as there
-- are no more than $max_lines rows with those that hold the rest. Parameters: $run, $step, $max_lines, $ranges (rows of
-- explain_ranges).
WITH chosen AS (
    SELECT
        start_ns AS step_start_ns,
        duration_ns AS step_ns
    FROM steps
    WHERE run = $run AND step = $step::BIGINT
),

around AS (
    SELECT unnest(
        $ranges::STRUCT("rank" INTEGER, lane VARCHAR, "name" VARCHAR, start_ns BIGINT, end_ns BIGINT)[], recursive := TRUE
    )
),

segments AS (
    SELECT
        path.seq,
        path.rank,
        path.lane,
        path.kind,
        path.name,
        path.start_ns,
        path.start_ns - chosen.step_start_ns AS offset_ns,
        path.duration_ns,
        path.verdict,
        chosen.step_ns,
        CASE WHEN path.kind = 'comm' THEN 'comm' WHEN starts_with(path.lane, 'thread') THEN 'host' ELSE 'device' END AS side,
        (path.rank, path.lane, path.kind, path.name) IS DISTINCT FROM (
            lag(path.rank) OVER in_time, lag(path.lane) OVER in_time, lag(path.kind) OVER in_time, lag(path.name) OVER in_time
        ) AS is_new
    FROM step_critical_path AS path
    CROSS JOIN chosen
    WHERE path.run = $run AND path.step = $step::BIGINT
    WINDOW in_time AS (ORDER BY path.seq)
),

alike AS (
    SELECT
        *,
        sum(is_new::BIGINT) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS block_no
    FROM segments
),

sized AS (
    SELECT
        *,
        100 * sum(duration_ns) OVER (PARTITION BY block_no) >= step_ns AS is_long
    FROM alike
),

parts AS (
    SELECT
        sized.seq AS part_seq,
        arg_min(around.name, (around.end_ns - around.start_ns, -around.start_ns, around.name)) AS part_of
    FROM sized
    JOIN around
        ON sized.rank = around.rank
        AND sized.lane = around.lane
        AND sized.start_ns >= around.start_ns
        AND sized.start_ns < around.end_ns
    GROUP BY sized.seq
),

sorted AS (
    SELECT
        sized.*,
        parts.part_of,
        CASE
            WHEN sized.is_long THEN row(TRUE, sized.block_no, NULL, NULL, NULL, NULL)
            ELSE row(FALSE, NULL, sized.side, sized.rank, sized.lane, parts.part_of)
        END AS sort
    FROM sized
    LEFT JOIN parts ON sized.seq = parts.part_seq
),

split AS (
    SELECT
        *,
        sort IS DISTINCT FROM lag(sort) OVER (ORDER BY seq) AS starts_group
    FROM sorted
),

grouped AS (
    SELECT
        *,
        sum(starts_group::BIGINT) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS group_no
    FROM split
),

sizes AS (
    SELECT
        group_no,
        CASE
            WHEN 100 * sum(duration_ns) >= any_value(step_ns)
                THEN row_number() OVER (ORDER BY sum(duration_ns) DESC, group_no)
        END AS size_no
    FROM grouped
    GROUP BY group_no
),

tries AS (
    SELECT
        tried.n_shown,
        sizes.group_no,
        coalesce(sizes.size_no <= tried.n_shown, FALSE) AS is_shown
    FROM sizes
    CROSS JOIN (SELECT unnest(range($max_lines::BIGINT + 1)) AS n_shown) AS tried
),

counts AS (
    SELECT
        n_shown,
        count(*) FILTER (is_shown OR is_shown_before) AS n_lines
    FROM (
        SELECT
            *,
            coalesce(lag(is_shown) OVER (PARTITION BY n_shown ORDER BY group_no), TRUE) AS is_shown_before
        FROM tries
    )
    GROUP BY n_shown
),

shown AS (
    SELECT
        grouped.*,
        coalesce(sizes.size_no <= best.n_shown, FALSE) AS is_shown
    FROM grouped
    JOIN sizes ON grouped.group_no = sizes.group_no
    CROSS JOIN (SELECT max(n_shown) AS n_shown FROM counts WHERE n_lines <= $max_lines::BIGINT) AS best
),

lined AS (
    SELECT
        shown.*,
        CASE
            WHEN shown.starts_group THEN shown.is_shown OR coalesce(lag(shown.is_shown) OVER (ORDER BY shown.seq), TRUE)
            ELSE FALSE
        END AS starts_line
    FROM shown
),

placed AS (
    SELECT
        *,
        sum(starts_line::BIGINT) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS line_no
    FROM lined
),

by_name AS (
    SELECT
        line_no,
        kind,
        name,
        rank,
        lane,
        sum(duration_ns) OVER (PARTITION BY line_no, kind) AS kind_ns,
        sum(duration_ns) OVER (PARTITION BY line_no, name) AS name_ns,
        sum(duration_ns) OVER (PARTITION BY line_no, rank) AS rank_ns,
        sum(duration_ns) OVER (PARTITION BY line_no, rank, lane) AS lane_ns
    FROM placed
),

most AS (
    SELECT
        line_no,
        arg_max(kind, (kind_ns, kind)) AS kind,
        max(kind_ns) AS kind_ns,
        arg_max(name, (name_ns, name)) AS name,
        max(name_ns) AS name_ns,
        count(DISTINCT name) AS n_names,
        arg_max(rank, (rank_ns, -rank)) AS rank,
        arg_max(lane, (lane_ns, lane)) AS lane
    FROM by_name
    GROUP BY line_no
),

lines AS (
    SELECT
        line_no,
        min(offset_ns) AS offset_ns,
        sum(duration_ns)::BIGINT AS duration_ns,
        any_value(step_ns) AS step_ns,
        NOT bool_and(is_shown) AS is_folded,
        count(*) AS n_segments,
        count(DISTINCT rank) AS n_ranks,
        CASE WHEN bool_and(is_shown AND NOT is_long) THEN any_value(part_of) END AS part_of,
        coalesce(min(verdict) FILTER (verdict <> 'ok'), 'ok') AS verdict
    FROM placed
    GROUP BY line_no
)

SELECT
    lines.offset_ns,
    lines.duration_ns,
    lines.duration_ns / lines.step_ns AS share_ratio,
    lines.is_folded,
    lines.n_segments,
    lines.n_ranks,
    most.rank,
    most.lane,
    most.kind,
    most.kind_ns::BIGINT AS kind_ns,
    most.kind_ns / lines.duration_ns AS kind_ratio,
    lines.part_of,
    most.n_names,
    most.name,
    most.name_ns::BIGINT AS name_ns,
    lines.verdict
FROM lines
JOIN most ON lines.line_no = most.line_no
ORDER BY lines.line_no
