-- One row per range that a timers log becomes: a step's marker, or a timer's time in a step, as rows of an event dump.
--
-- rank       BIGINT   Rank; NULL where the log does not say it.
-- category   VARCHAR  annotation, or cpu_op for what counts as compute.
-- name       VARCHAR  The timer, as the log spells it; of a step's marker ProfilerStep#N.
-- start_ns   BIGINT   Start.
-- end_ns     BIGINT   End, not included.
-- comm_op    VARCHAR  Operation of an exchange; NULL for all else.
-- comm_group VARCHAR  Process group of an exchange, where the log says it.
-- row_id     BIGINT   Line of the log, of the lines that are timers, from 0; of a marker its step's first.
-- dropped    VARCHAR  Why the line is no range: neither its start nor its place is known; NULL for a range.
-- skipped    VARCHAR  Why the line is left out on purpose; NULL for a range.
--
-- Scope: timers
-- Order: rank, start_ns, row_id, end_ns DESC
-- How: a step is where its own timer says, else from the first start to the last end of its timers. Where no timer of
-- a step has a start they are laid behind each other, in the order of the log, from the step's start; and where no step
-- has one either, steps behind each other, from 0. A timer that holds others of its step (forward-backward,
-- forward-compute) is left to them; what waits for input within a pass is taken out of it where starts are known.
-- Durations that add up to more than their step cannot lie behind each other, so they are not placed. Times of a log are
-- rounded, seconds since 1970 to a quarter of a microsecond at best: compute that begins before other compute has ended, and
-- ends after it, begins where that ends; a step ends where the next begins.
WITH names AS (
    SELECT
        distinct_names.name AS timer_name,
        arg_min(known.timer, known.place) AS timer,
        arg_min(known.class, known.place) AS class,
        nullif(arg_min(known.op, known.place), 'none') AS op,
        nullif(arg_min(known.part_of, known.place), 'none') AS part_of,
        EXISTS (FROM input_ranges WHERE regexp_matches(distinct_names.name, input_ranges.pattern)) AS is_input
    FROM (SELECT DISTINCT name FROM raw_timers) AS distinct_names
    LEFT JOIN (SELECT *, row_number() OVER () AS place FROM timer_ranges) AS known
        ON regexp_matches(distinct_names.name, known.pattern)
    GROUP BY distinct_names.name
),

classed AS (
    SELECT
        raw_timers.*,
        coalesce(names.timer, raw_timers.name) AS timer,
        CASE WHEN names.is_input THEN 'input' ELSE coalesce(names.class, 'other') END AS class,
        names.op,
        names.part_of
    FROM raw_timers
    JOIN names ON raw_timers.name = names.timer_name
),

by_step AS (
    SELECT
        rank AS step_rank,
        step AS of_step,
        min(row_id) AS first_row,
        min(start_ns) FILTER (class = 'step') AS own_start_ns,
        max(duration_ns) FILTER (class = 'step') AS own_ns,
        min(start_ns) AS first_ns,
        max(start_ns + duration_ns) AS last_ns,
        coalesce(bool_or(start_ns IS NOT NULL AND class <> 'step'), FALSE) AS is_timed,
        list(DISTINCT timer) AS timers,
        coalesce(list(DISTINCT part_of) FILTER (class = 'compute' AND part_of IS NOT NULL), []) AS holders
    FROM classed
    WHERE step IS NOT NULL
    GROUP BY rank, step
),

judged AS (
    SELECT
        classed.*,
        by_step.is_timed,
        CASE
            WHEN by_step.is_timed OR classed.start_ns IS NOT NULL OR classed.class = 'step' THEN FALSE
            WHEN list_contains(by_step.holders, classed.timer) THEN FALSE
            ELSE classed.class <> 'input' OR NOT coalesce(list_contains(by_step.timers, classed.part_of), FALSE)
        END AS is_laid,
        list_contains(by_step.holders, classed.timer) AS is_holder
    FROM classed
    LEFT JOIN by_step ON classed.rank IS NOT DISTINCT FROM by_step.step_rank AND classed.step = by_step.of_step
),

laid AS (
    SELECT
        *,
        sum(CASE WHEN is_laid THEN duration_ns ELSE 0 END) OVER (
            PARTITION BY rank, step ORDER BY row_id ROWS UNBOUNDED PRECEDING
        )::BIGINT AS to_ns
    FROM judged
),

lengths AS (
    SELECT
        by_step.*,
        laid_steps.laid_ns,
        coalesce(by_step.own_start_ns, by_step.first_ns) AS known_start_ns,
        coalesce(
            by_step.own_ns, CASE WHEN by_step.is_timed THEN by_step.last_ns - by_step.first_ns END, laid_steps.laid_ns
        ) AS length_ns
    FROM by_step
    JOIN (
        SELECT
            rank AS laid_rank,
            step AS laid_step,
            max(to_ns) AS laid_ns
        FROM laid
        WHERE step IS NOT NULL
        GROUP BY rank, step
    ) AS laid_steps ON by_step.step_rank IS NOT DISTINCT FROM laid_steps.laid_rank AND by_step.of_step = laid_steps.laid_step
),

placed AS (
    SELECT
        *,
        CASE
            WHEN known_start_ns IS NOT NULL THEN known_start_ns
            WHEN NOT coalesce(bool_or(known_start_ns IS NOT NULL) OVER of_rank, FALSE)
                THEN coalesce(sum(length_ns) OVER before, 0)::BIGINT
        END AS start_ns,
        laid_ns <= length_ns * (1 + params.timer_slack_ratio) AS is_placeable
    FROM lengths
    CROSS JOIN params
    WINDOW
        of_rank AS (PARTITION BY step_rank),
        before AS (PARTITION BY step_rank ORDER BY of_step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

ranges AS (
    SELECT
        laid.* EXCLUDE (start_ns),
        CASE
            WHEN laid.start_ns IS NOT NULL THEN laid.start_ns
            WHEN laid.is_laid AND placed.is_placeable THEN placed.start_ns + laid.to_ns - laid.duration_ns
        END AS start_ns,
        CASE
            WHEN laid.start_ns IS NULL AND laid.is_holder THEN 'a timer that holds others'
            WHEN laid.start_ns IS NULL AND laid.class = 'input' AND NOT laid.is_timed AND NOT laid.is_laid
                THEN 'a batch within a forward pass'
        END AS skipped,
        CASE
            WHEN laid.start_ns IS NOT NULL OR (laid.class = 'step' AND placed.start_ns IS NOT NULL) THEN NULL
            WHEN laid.step IS NULL THEN 'neither a start nor a step'
            WHEN laid.is_timed THEN 'no start, where others of its step have one'
            WHEN placed.start_ns IS NULL THEN 'no start, where other steps of the rank have one'
            WHEN NOT placed.is_placeable THEN 'no start, and durations that add up to more than their step'
        END AS dropped
    FROM laid
    LEFT JOIN placed ON laid.rank IS NOT DISTINCT FROM placed.step_rank AND laid.step = placed.of_step
),

batches AS (
    SELECT
        forward.row_id AS forward_row,
        list(batch.start_ns ORDER BY batch.start_ns, batch.row_id) AS from_ns,
        list(batch.start_ns + batch.duration_ns ORDER BY batch.start_ns, batch.row_id) AS until_ns
    FROM ranges AS batch
    JOIN ranges AS forward
        ON batch.rank IS NOT DISTINCT FROM forward.rank
        AND batch.step = forward.step
        AND batch.start_ns >= forward.start_ns
        AND batch.start_ns + batch.duration_ns <= forward.start_ns + forward.duration_ns
    WHERE batch.class = 'input' AND batch.duration_ns > 0 AND forward.class = 'compute' AND NOT forward.is_holder
    GROUP BY forward.row_id
),

cut AS (
    SELECT
        ranges.*,
        unnest(list_prepend(ranges.start_ns, coalesce(batches.until_ns, []))) AS piece_start_ns,
        unnest(list_append(coalesce(batches.from_ns, []), ranges.start_ns + ranges.duration_ns)) AS piece_end_ns,
        len(batches.from_ns) > 0 AS is_cut
    FROM ranges
    LEFT JOIN batches ON ranges.row_id = batches.forward_row
    WHERE ranges.skipped IS NULL
        AND ranges.dropped IS NULL
        AND (ranges.class <> 'step' OR ranges.step IS NULL)
),

computed AS (
    SELECT
        *,
        class = 'compute' AND NOT coalesce(is_holder, FALSE) AS is_compute
    FROM cut
    WHERE piece_end_ns > piece_start_ns OR NOT coalesce(is_cut, FALSE)
),

behind AS (
    SELECT
        *,
        max(CASE WHEN is_compute THEN piece_end_ns END) OVER (
            PARTITION BY rank ORDER BY piece_start_ns, piece_end_ns DESC, row_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_end_ns
    FROM computed
)

SELECT
    step_rank AS rank,
    'annotation' AS category,
    'ProfilerStep#' || of_step AS name,
    start_ns,
    least(
        start_ns + length_ns,
        nullif(lead(start_ns) OVER (PARTITION BY step_rank ORDER BY start_ns, of_step), start_ns)
    ) AS end_ns,
    NULL::VARCHAR AS comm_op,
    NULL::VARCHAR AS comm_group,
    first_row AS row_id,
    NULL::VARCHAR AS dropped,
    NULL::VARCHAR AS skipped
FROM placed
WHERE start_ns IS NOT NULL
UNION ALL
SELECT
    rank,
    CASE WHEN is_compute THEN 'cpu_op' ELSE 'annotation' END AS category,
    name,
    greatest(piece_start_ns, CASE WHEN is_compute AND piece_end_ns > before_end_ns THEN before_end_ns END) AS start_ns,
    piece_end_ns AS end_ns,
    op AS comm_op,
    comm_group,
    row_id,
    NULL AS dropped,
    NULL AS skipped
FROM behind
UNION ALL
SELECT
    rank,
    'annotation' AS category,
    name,
    NULL AS start_ns,
    NULL AS end_ns,
    NULL AS comm_op,
    NULL AS comm_group,
    row_id,
    CASE WHEN skipped IS NULL THEN dropped END AS dropped,
    skipped
FROM ranges
WHERE skipped IS NOT NULL OR dropped IS NOT NULL
