-- One row per name of a step's path, the largest first.
--
-- name        VARCHAR  As in step_critical_path.
-- duration_ns BIGINT   Time of its segments, of any kind and rank.
-- share_ratio DOUBLE   Its share of the step.
-- n_segments  BIGINT   Segments.
--
-- How: Parameters: $run, $step, $max_rows.
SELECT
    path.name,
    sum(path.duration_ns)::BIGINT AS duration_ns,
    sum(path.duration_ns) / any_value(steps.duration_ns) AS share_ratio,
    count(*) AS n_segments
FROM step_critical_path AS path
JOIN steps ON path.run = steps.run AND path.step = steps.step
WHERE path.run = $run AND path.step = $step::BIGINT
GROUP BY path.name
ORDER BY sum(path.duration_ns) DESC, path.name
LIMIT $max_rows
