-- One row per step whose critical path is not the step: segments with gaps or overlaps, or sums that differ.
--
-- run         VARCHAR  Run.
-- step        BIGINT   Step.
-- duration_ns BIGINT   The step; NULL where it has no length, and so no path.
-- segments_ns BIGINT   The sum of its path's segments; NULL without any.
-- kinds_ns    BIGINT   The sum over kinds and ranks; NULL without any.
-- n_breaks    BIGINT   Segments that do not start where the one before ended, the first at the step's start.
-- n_empty     BIGINT   Segments without length.
--
-- Scope: check
WITH segments AS (
    SELECT
        path.run,
        path.step,
        path.start_ns,
        path.end_ns,
        path.duration_ns,
        coalesce(
            lag(path.end_ns) OVER (PARTITION BY path.run, path.step ORDER BY path.seq), steps.start_ns
        ) AS end_before_ns
    FROM step_critical_path AS path
    LEFT JOIN steps ON path.run = steps.run AND path.step = steps.step
),

paths AS (
    SELECT
        run AS path_run,
        step AS path_step,
        sum(duration_ns)::BIGINT AS segments_ns,
        max(end_ns) AS path_end_ns,
        count(*) FILTER (start_ns IS DISTINCT FROM end_before_ns) AS n_breaks,
        count(*) FILTER (end_ns <= start_ns OR duration_ns <> end_ns - start_ns) AS n_empty
    FROM segments
    GROUP BY run, step
),

kinds AS (
    SELECT
        run AS kind_run,
        step AS kind_step,
        sum(duration_ns)::BIGINT AS kinds_ns
    FROM step_path_kinds
    GROUP BY run, step
)

SELECT
    coalesce(steps.run, paths.path_run, kinds.kind_run) AS run,
    coalesce(steps.step, paths.path_step, kinds.kind_step) AS step,
    steps.duration_ns,
    paths.segments_ns,
    kinds.kinds_ns,
    coalesce(paths.n_breaks, 0) AS n_breaks,
    coalesce(paths.n_empty, 0) AS n_empty
FROM steps
FULL JOIN paths ON steps.run = paths.path_run AND steps.step = paths.path_step
FULL JOIN kinds
    ON coalesce(steps.run, paths.path_run) = kinds.kind_run AND coalesce(steps.step, paths.path_step) = kinds.kind_step
WHERE nullif(steps.duration_ns, 0) IS DISTINCT FROM paths.segments_ns
    OR nullif(steps.duration_ns, 0) IS DISTINCT FROM kinds.kinds_ns
    OR paths.path_end_ns <> steps.end_ns
    OR paths.n_breaks > 0
    OR paths.n_empty > 0
