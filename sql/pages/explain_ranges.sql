-- One row per range of a rank that covers a large part of a step: what many short segments are part of.
--
-- rank     INTEGER  Rank.
-- lane     VARCHAR  As in step_critical_path.
-- name     VARCHAR  Operator, call or annotation.
-- start_ns BIGINT   Start, on the run's clock.
-- end_ns   BIGINT   End.
--
-- How: ranges of at least a twentieth of the step that reach into it; step markers are none. Parameters: $run, $rank,
-- $step.
WITH chosen AS (
    SELECT
        start_ns AS step_start_ns,
        end_ns AS step_end_ns,
        duration_ns AS step_ns
    FROM steps
    WHERE run = $run AND step = $step::BIGINT
),

clock AS (
    SELECT
        offset_ns,
        drift_ppb,
        reference_ns
    FROM rank_clocks
    WHERE run = $run AND rank = $rank::INTEGER
),

long_ranges AS (
    SELECT
        name,
        category,
        coalesce(stream, thread) AS stream,
        thread,
        start_ns,
        start_ns + duration_ns AS end_ns
    FROM events
    WHERE run = $run
        AND rank = $rank::INTEGER
        AND category IN ('cpu_op', 'annotation', 'runtime', 'driver', 'gpu_annotation')
        AND duration_ns >= (SELECT step_ns // 20 FROM chosen)
        AND duration_ns <= epoch_ns(INTERVAL 7 DAY)
),

markers AS (
    SELECT DISTINCT name AS marker
    FROM events
    WHERE run = $run AND rank = $rank::INTEGER AND category = 'step'
),

aligned AS (
    SELECT
        CASE
            WHEN long_ranges.category = 'gpu_annotation' THEN 'stream ' || long_ranges.stream
            ELSE 'thread ' || long_ranges.thread
        END AS lane,
        long_ranges.name,
        aligned_ns(long_ranges.start_ns, clock.offset_ns, clock.drift_ppb, clock.reference_ns) AS start_ns,
        aligned_ns(long_ranges.end_ns, clock.offset_ns, clock.drift_ppb, clock.reference_ns) AS end_ns
    FROM long_ranges
    CROSS JOIN clock
    WHERE long_ranges.name NOT IN (SELECT marker FROM markers)
)

SELECT
    $rank::INTEGER AS rank,
    aligned.lane,
    aligned.name,
    aligned.start_ns,
    aligned.end_ns
FROM aligned
CROSS JOIN chosen
WHERE aligned.lane IS NOT NULL AND aligned.end_ns > chosen.step_start_ns AND aligned.start_ns < chosen.step_end_ns
ORDER BY aligned.start_ns, aligned.end_ns DESC, aligned.lane, aligned.name
