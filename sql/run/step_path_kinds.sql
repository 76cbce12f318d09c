-- One row per step, kind, rank: how much of the step's critical path is work of that kind on that rank.
--
-- step        BIGINT   Step.
-- kind        VARCHAR  As in step_critical_path.
-- rank        INTEGER  Rank.
-- duration_ns BIGINT   Time; over kinds and ranks it adds up to the step.
-- no_event_ns BIGINT   Of it, host time in which the dump shows no event.
-- n_segments  BIGINT   Segments.
--
-- Scope: paths
-- Order: step, rank, kind
SELECT
    step,
    kind,
    rank,
    sum(duration_ns)::BIGINT AS duration_ns,
    coalesce(sum(duration_ns) FILTER (name = '(no event)'), 0)::BIGINT AS no_event_ns,
    count(*) AS n_segments
FROM step_critical_path
GROUP BY step, kind, rank
