-- How much of the devices' time goes to forward, backward, exchange and optimizer?
-- $rows  BIGINT = 20  Rows at most.
-- run           VARCHAR  Run.
-- phase         VARCHAR  Phase.
-- gpu_ns        BIGINT   Busy time that it alone explains, summed over ranks and steps.
-- busy_ratio    DOUBLE   Of all busy time.
-- device_ratio  DOUBLE   Of all windows, idle included.
WITH windows AS (
    SELECT
        run,
        sum(duration_ns) AS windows_ns
    FROM rank_steps
    GROUP BY run
)
SELECT
    run,
    p.phase,
    sum(p.gpu_ns)::BIGINT AS gpu_ns,
    sum(p.gpu_ns) / nullif(sum(sum(p.gpu_ns)) OVER (PARTITION BY run), 0) AS busy_ratio,
    sum(p.gpu_ns) / nullif(min(w.windows_ns), 0) AS device_ratio
FROM phases AS p
LEFT JOIN windows AS w USING (run)
GROUP BY run, p.phase
ORDER BY run, gpu_ns DESC, p.phase
LIMIT $rows
