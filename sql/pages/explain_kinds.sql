-- One row per kind, rank of a step's path, the largest first.
--
-- kind        VARCHAR  As in step_critical_path.
-- rank        INTEGER  Rank.
-- duration_ns BIGINT   Time; over all rows it adds up to the step.
-- share_ratio DOUBLE   Its share of the step.
-- n_segments  BIGINT   Segments.
--
-- How: Parameters: $run, $step.
SELECT
    kinds.kind,
    kinds.rank,
    kinds.duration_ns,
    kinds.duration_ns / steps.duration_ns AS share_ratio,
    kinds.n_segments
FROM step_path_kinds AS kinds
JOIN steps ON kinds.run = steps.run AND kinds.step = steps.step
WHERE kinds.run = $run AND kinds.step = $step::BIGINT
ORDER BY kinds.duration_ns DESC, kinds.kind, kinds.rank
