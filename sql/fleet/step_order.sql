-- One row per run, step: its place among all steps of the run, whether or not a time of it is known.
--
-- run     VARCHAR Run.
-- capture BIGINT  Which contiguous recording.
-- step    BIGINT  Step.
-- place   BIGINT  Place in order of capture and step, from 0.
-- n_steps BIGINT  Steps of the run.
--
-- Scope: fleet
-- How: columns of charts are neighbouring steps, as many as keep the columns within what a chart can show.
WITH every_step AS (
    SELECT
        run,
        capture,
        step
    FROM steps
    UNION
    SELECT
        run,
        capture,
        step
    FROM rank_steps
)

SELECT
    run,
    capture,
    step,
    row_number() OVER (PARTITION BY run ORDER BY capture, step) - 1 AS place,
    count(*) OVER (PARTITION BY run) AS n_steps
FROM every_step
