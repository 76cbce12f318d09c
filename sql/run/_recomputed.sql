-- One row per step whose recomputed FLOPs are known: those of forward work that backward did once more.
--
-- step             BIGINT  Number of the step.
-- recomputed_flops DOUBLE  FLOPs of all recorded ranks.
--
-- Scope: mfu
-- How: no relation tells recomputed from first work yet, so there is no row, and what rests on it says so.
SELECT
    step,
    NULL::DOUBLE AS recomputed_flops
FROM steps
WHERE FALSE
