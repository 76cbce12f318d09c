-- One row per rank, step: the work that its recorded shapes tell of.
--
-- rank             INTEGER  Rank.
-- step             BIGINT   Step that launched the calls; NULL where their launch is in no step or not in the dump.
-- flops            BIGINT   FLOPs, a multiply and an add counting as two; NULL where no shapes tell of any.
-- recomputed_flops BIGINT   Of them, forward work that backward did once more: 0 where none was seen; NULL without FLOPs.
-- n_bytes          BIGINT   Bytes of compute whose shapes are known, of collectives and of copies; NULL where none are known.
-- n_launches       BIGINT   Launch calls: one for all kernels of a graph.
-- launch_ns        BIGINT   What one took: the median over the rank's recording; NULL without any.
-- compute_total_ns BIGINT   Sum of compute's durations.
-- shaped_ratio     DOUBLE   Of it, calls whose shapes are known; NULL without compute.
--
-- Scope: rank
SELECT
    context.rank,
    clocks.step,
    clocks.flops,
    CASE WHEN clocks.flops IS NOT NULL THEN coalesce(clocks.recomputed_flops, 0) END AS recomputed_flops,
    clocks.n_bytes,
    round(clocks.n_launches)::BIGINT AS n_launches,
    launch_cost.launch_ns,
    clocks.compute_total_ns,
    clocks.counted_ns / nullif(clocks.compute_total_ns, 0) AS shaped_ratio
FROM _clocks AS clocks
CROSS JOIN _launch_cost AS launch_cost
CROSS JOIN context
WHERE clocks.grain = 'step'
