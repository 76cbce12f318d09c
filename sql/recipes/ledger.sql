-- Where did the devices' time go that was not the model?
-- $rows  BIGINT = 20  Rows at most.
-- run          VARCHAR  Run.
-- part         VARCHAR  Part of their time.
-- device_ns    BIGINT   Summed over ranks and steps.
-- share_ratio  DOUBLE   Of all; below 0 where windows overlap.
-- reason       VARCHAR  What the part cannot say; NULL where there is nothing.
SELECT
    run,
    part,
    sum(device_ns)::BIGINT AS device_ns,
    sum(device_ns) / nullif(sum(sum(device_ns)) OVER (PARTITION BY run), 0) AS share_ratio,
    min(reason) AS reason
FROM step_ledger
GROUP BY run, part
ORDER BY run, device_ns DESC, min(place), part
LIMIT $rows
