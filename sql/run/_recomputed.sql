-- One row per step whose recomputed FLOPs are known: those of forward work that backward did once more.
--
-- step             BIGINT  Number of the step.
-- recomputed_flops DOUBLE  FLOPs of all recorded ranks.
--
-- Scope: mfu
-- How: known where every recorded rank has shapes for as much of its compute time as the clocks need.
SELECT
    step,
    sum(recomputed_flops)::DOUBLE AS recomputed_flops
FROM rank_work
WHERE step IS NOT NULL
GROUP BY step
HAVING min(coalesce(shaped_ratio, 0)) >= (SELECT shaped_ratio FROM params) AND count(recomputed_flops) = count(*)
