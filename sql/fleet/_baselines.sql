-- One row per run, run that it is compared with.
--
-- run          VARCHAR  Run.
-- baseline_run VARCHAR  The run named, else each of the last good runs before it of the same job and workload.
-- place        BIGINT   1 for the latest.
--
-- Scope: fleet
-- How: a run is good when it has a step time and fails no gate of its own.
WITH good AS (
    SELECT
        befores.run,
        befores.before_run AS baseline_run,
        row_number() OVER (PARTITION BY befores.run ORDER BY befores.n_back) AS place
    FROM _runs_before AS befores
    JOIN run_measures AS measures ON befores.before_run = measures.run
    LEFT JOIN _failed_alone AS failed ON befores.before_run = failed.run
    WHERE measures.measure = 'step_time_ns' AND measures.value IS NOT NULL AND failed.run IS NULL
)

SELECT
    good.run,
    good.baseline_run,
    good.place
FROM good
JOIN _run_order AS runs ON good.run = runs.run
WHERE runs.baseline IS NULL AND good.place <= (SELECT baseline_runs FROM params)
UNION ALL
SELECT
    run,
    baseline AS baseline_run,
    1::BIGINT AS place
FROM _run_order
WHERE baseline IS NOT NULL AND baseline <> run
