-- How close do kernels come to what the device allows them?
-- $rows  BIGINT = 20  Rows at most.
-- run             VARCHAR  Run.
-- kernel_class    VARCHAR  gemm, attention, convolution, other, comm or copy.
-- total_ns        BIGINT   Sum of its calls' durations, over ranks and steps.
-- flops           BIGINT   FLOPs of the calls whose shapes are known; NULL without.
-- flops_per_s     DOUBLE   Achieved in the median rank and step; NULL without.
-- roofline_ratio  DOUBLE   Of what the roofline allows, likewise.
-- reason          VARCHAR  Why clocks are not known; NULL where they are.
SELECT
    run,
    kernel_class,
    sum(total_ns)::BIGINT AS total_ns,
    sum(flops)::BIGINT AS flops,
    quantile_disc(flops_per_s, 0.5) AS flops_per_s,
    quantile_disc(flops_per_s / nullif(bound_flops_per_s, 0), 0.5) AS roofline_ratio,
    min(reason) AS reason
FROM kernel_clocks
GROUP BY run, kernel_class
ORDER BY total_ns DESC, run, kernel_class
LIMIT $rows
