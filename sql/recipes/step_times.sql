-- How long do steps take, and how much do they differ?
-- $rows  BIGINT = 20  Rows at most.
-- run           VARCHAR  Run.
-- n_steps       BIGINT   Steps with a step time.
-- shortest_ns   BIGINT   The shortest.
-- median_ns     BIGINT   The median, the lower of two.
-- p95_ns        BIGINT   The 95th percentile.
-- longest_ns    BIGINT   The longest.
-- longest_step  BIGINT   Which that is.
-- spread_ratio  DOUBLE   p95_ns beyond the median, of the median.
-- Empty: where clocks are not aligned: no step time is known then.
SELECT
    run,
    count(*) AS n_steps,
    min(duration_ns) AS shortest_ns,
    quantile_disc(duration_ns, 0.5) AS median_ns,
    quantile_disc(duration_ns, 0.95) AS p95_ns,
    max(duration_ns) AS longest_ns,
    arg_max(step, (duration_ns, -step)) AS longest_step,
    quantile_disc(duration_ns, 0.95) / nullif(quantile_disc(duration_ns, 0.5), 0) - 1 AS spread_ratio
FROM steps
WHERE duration_ns IS NOT NULL
GROUP BY run
ORDER BY run
LIMIT $rows
