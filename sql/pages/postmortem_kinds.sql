-- One row per kind of two steps' critical paths: how much longer it is on one than on the other.
--
-- kind      VARCHAR  As in step_critical_path.
-- this_ns   BIGINT   On the path of the step.
-- other_ns  BIGINT   On the path of the other.
-- change_ns BIGINT   The first minus the second; over all rows the difference of the step times.
--
-- How: Parameters: $run, $step, $other_step.
WITH kinds AS (
    SELECT
        kind,
        coalesce(sum(duration_ns) FILTER (step = $step::BIGINT), 0)::BIGINT AS this_ns,
        coalesce(sum(duration_ns) FILTER (step = $other_step::BIGINT), 0)::BIGINT AS other_ns
    FROM step_path_kinds
    WHERE run = $run AND step IN ($step::BIGINT, $other_step::BIGINT)
    GROUP BY kind
)

SELECT
    kind,
    this_ns,
    other_ns,
    this_ns - other_ns AS change_ns
FROM kinds
ORDER BY abs(this_ns - other_ns) DESC, kind
