-- One row per class of time: how much of the run's wall time it took, and how that is known.
--
-- class       VARCHAR  train, warm-up, checkpoint, evaluation; restart: between two captures of other processes whose steps
--     follow each other; not recorded: between other captures.
-- n_steps     BIGINT   Steps of the class, or gaps. A step that saves a checkpoint is a train step too.
-- duration_ns BIGINT   Their time. NULL: of one of them clocks are not aligned.
-- wall_ratio  DOUBLE   Of the wall time that is accounted for: all rows but `not recorded`. NULL there, and where one of those
--     has no time.
-- is_useful   BOOLEAN  Whether it trains.
-- evidence    VARCHAR  What says so.
--
-- Scope: measures
-- Order: class
-- How: the wall time of a step is split: first what annotations of a checkpoint cover on the rank where they take longest,
-- then evaluation, and the rest is train, or warm-up where an annotation of that is in the step. A profiler that records
-- some steps says nothing of those between, so such gaps are counted and left out of the ratio.
WITH classed AS (
    SELECT
        step,
        max(duration_ns) FILTER (class = 'checkpoint') AS checkpoint_ns,
        max(duration_ns) FILTER (class = 'evaluation') AS evaluation_ns,
        coalesce(max(duration_ns) FILTER (class = 'warm-up'), 0) > 0 AS is_warm_up
    FROM rank_step_classes
    GROUP BY step
),

split AS (
    SELECT
        steps.step,
        steps.duration_ns,
        coalesce(classed.is_warm_up, FALSE) AS is_warm_up,
        CASE
            WHEN steps.duration_ns IS NOT NULL THEN least(coalesce(classed.checkpoint_ns, 0), steps.duration_ns)
        END AS checkpoint_ns,
        CASE
            WHEN steps.duration_ns IS NOT NULL
                THEN
                    least(
                        coalesce(classed.evaluation_ns, 0),
                        steps.duration_ns - least(coalesce(classed.checkpoint_ns, 0), steps.duration_ns)
                    )
        END AS evaluation_ns,
        coalesce(classed.checkpoint_ns, 0) > 0 AS has_checkpoint,
        coalesce(classed.evaluation_ns, 0) > 0 AS has_evaluation
    FROM steps
    LEFT JOIN classed ON steps.step = classed.step
),

names AS (
    SELECT
        class,
        arg_min(name, (-duration_ns, name)) AS name
    FROM rank_step_classes
    GROUP BY class
),

blocks AS (
    SELECT
        capture,
        min(step) AS first_step,
        max(step) AS last_step,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns
    FROM steps
    GROUP BY capture
),

processes AS (
    SELECT
        blocks.capture,
        dumps.rank,
        any_value(dumps.process) AS process
    FROM blocks
    JOIN dumps ON blocks.first_step BETWEEN dumps.first_step AND dumps.last_step
    WHERE dumps.error IS NULL
    GROUP BY blocks.capture, dumps.rank
),

gaps AS (
    SELECT
        capture,
        lag(capture) OVER in_order AS before,
        first_step = lag(last_step) OVER in_order + 1 AS is_next,
        start_ns - lag(end_ns) OVER in_order AS apart_ns
    FROM blocks
    WINDOW in_order AS (ORDER BY first_step)
),

judged AS (
    SELECT
        CASE WHEN gaps.apart_ns < 0 THEN 0 ELSE gaps.apart_ns END AS duration_ns,  -- greatest() would make NULL 0 too
        gaps.is_next
            AND EXISTS (
                SELECT 1
                FROM processes AS one
                JOIN processes AS other ON one.rank = other.rank
                WHERE one.capture = gaps.before AND other.capture = gaps.capture AND one.process <> other.process
            ) AS is_restart
    FROM gaps
    WHERE gaps.before IS NOT NULL
),

pieces AS (
    SELECT
        unnest(
            [
                {
                    'class': CASE WHEN is_warm_up THEN 'warm-up' ELSE 'train' END,
                    'duration_ns': duration_ns - checkpoint_ns - evaluation_ns,
                    'is_in': TRUE
                },
                {'class': 'checkpoint', 'duration_ns': checkpoint_ns, 'is_in': has_checkpoint},
                {'class': 'evaluation', 'duration_ns': evaluation_ns, 'is_in': has_evaluation}
            ],
            recursive := TRUE
        )
    FROM split
),

parts AS (
    SELECT
        pieces.class,
        count(*) AS n_steps,
        CASE WHEN count(pieces.duration_ns) = count(*) THEN sum(pieces.duration_ns) END AS duration_ns,
        pieces.class = 'train' AS is_useful,
        coalesce('annotation ' || any_value(names.name), 'no annotation says otherwise') AS evidence
    FROM pieces
    LEFT JOIN names ON pieces.class = names.class
    WHERE pieces.is_in
    GROUP BY pieces.class
    UNION ALL
    SELECT
        CASE WHEN is_restart THEN 'restart' ELSE 'not recorded' END AS class,
        count(*) AS n_steps,
        CASE WHEN count(duration_ns) = count(*) THEN sum(duration_ns) END AS duration_ns,
        FALSE AS is_useful,
        CASE
            WHEN is_restart THEN 'another process goes on with the next step'
            ELSE 'step numbers skipped, or the same process: nothing says what it did'
        END AS evidence
    FROM judged
    GROUP BY is_restart
),

wall AS (
    SELECT CASE WHEN count(duration_ns) = count(*) THEN sum(duration_ns) END AS duration_ns
    FROM parts
    WHERE class <> 'not recorded'
)

SELECT
    parts.class,
    parts.n_steps,
    parts.duration_ns::BIGINT AS duration_ns,
    CASE WHEN parts.class <> 'not recorded' THEN parts.duration_ns / nullif(wall.duration_ns, 0) END AS wall_ratio,
    parts.is_useful,
    CASE WHEN parts.duration_ns IS NULL THEN 'n/a: clocks not aligned' ELSE parts.evidence END AS evidence
FROM parts
CROSS JOIN wall
