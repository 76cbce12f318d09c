-- One row per step of a run that does not start where the step before it in its capture ended.
--
-- run           VARCHAR  Run.
-- step          BIGINT   Step.
-- start_ns      BIGINT   Its start.
-- end_before_ns BIGINT   End of the step before.
--
-- Scope: check
WITH chained AS (
    SELECT
        run,
        step,
        start_ns,
        lag(end_ns) OVER (PARTITION BY run, capture ORDER BY step) AS end_before_ns,
        lag(step) OVER (PARTITION BY run, capture ORDER BY step) AS step_before
    FROM steps
)

SELECT
    run,
    step,
    start_ns,
    end_before_ns
FROM chained
WHERE start_ns <> end_before_ns AND step = step_before + 1
