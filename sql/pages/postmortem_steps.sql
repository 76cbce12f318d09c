-- One row per step of a range: what is known of it as a whole.
--
-- step          BIGINT   Number of the step.
-- start_ns      BIGINT   Start, on the run's clock. NULL: clocks not aligned.
-- length_ns     BIGINT   The step time; its longest window where clocks are not aligned.
-- is_timed      BOOLEAN  Whether it is the step time.
-- beyond_ns     BIGINT   Its length beyond that of the run's median step, below 0 where it is shorter.
-- beyond_ratio  DOUBLE   That, of the median step's length.
-- verdict       VARCHAR  ok, or the reasons to doubt it.
--
-- How: Parameters: $run, $first_step, $last_step, $median_step, $max_rows.
WITH windows AS (
    SELECT
        step AS window_step,
        max(duration_ns) AS window_ns
    FROM rank_steps
    WHERE run = $run AND (step BETWEEN $first_step AND $last_step OR step = $median_step::BIGINT)
    GROUP BY step
),

known AS (
    SELECT
        steps.*,
        coalesce(steps.duration_ns, windows.window_ns) AS length_ns
    FROM steps
    LEFT JOIN windows ON steps.step = windows.window_step
    WHERE steps.run = $run AND (steps.step BETWEEN $first_step AND $last_step OR steps.step = $median_step::BIGINT)
),

middle AS (
    SELECT any_value(length_ns) AS median_ns
    FROM known
    WHERE step = $median_step::BIGINT
)

SELECT
    known.step,
    known.start_ns,
    known.length_ns,
    known.duration_ns IS NOT NULL AS is_timed,
    known.length_ns - middle.median_ns AS beyond_ns,
    (known.length_ns - middle.median_ns) / nullif(middle.median_ns, 0) AS beyond_ratio,
    known.verdict
FROM known
CROSS JOIN middle
WHERE known.step BETWEEN $first_step AND $last_step
ORDER BY known.step
LIMIT $max_rows
