-- One row per run, per cent of its steps: how long the step at that place is, from the shortest to the longest.
--
-- side     VARCHAR  baseline or run.
-- percent  BIGINT   So many of a hundred steps take no longer.
-- value_ns BIGINT   Step time.
-- n_steps  BIGINT   Steps of the run.
--
-- How: parameters: $run, $baseline. A run of fewer steps repeats them.
WITH sorted AS (
    SELECT
        CASE WHEN run = $run THEN 'run' ELSE 'baseline' END AS side,
        list_sort(list(value_ns)) AS steps_ns
    FROM step_parts
    WHERE dimension = 'step' AND run IN ($baseline, $run)
    GROUP BY run
),

percents AS (
    SELECT unnest(range(1, 101)) AS percent
)

SELECT
    sorted.side,
    percents.percent,
    sorted.steps_ns[(percents.percent * len(sorted.steps_ns) + 99) // 100] AS value_ns,
    len(sorted.steps_ns) AS n_steps
FROM sorted
CROSS JOIN percents
ORDER BY sorted.side, percents.percent
