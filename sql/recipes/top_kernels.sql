-- Which kernels take the most device time?
-- $kind  VARCHAR = NULL  compute, comm or copy; without one all.
-- $rows  BIGINT = 20     Rows at most.
-- run         VARCHAR  Run.
-- name        VARCHAR  Kernel; of a dump without a device an operator.
-- kind        VARCHAR  compute, comm or copy.
-- n_calls     BIGINT   Calls, over ranks and steps.
-- total_ns    BIGINT   Sum of their durations.
-- mean_ns     BIGINT   Of one call.
-- exposed_ns  BIGINT   Time that it alone explains.
SELECT
    run,
    name,
    kind,
    sum(n_calls)::BIGINT AS n_calls,
    sum(total_ns)::BIGINT AS total_ns,
    round(sum(total_ns) / sum(n_calls))::BIGINT AS mean_ns,
    sum(exposed_ns)::BIGINT AS exposed_ns
FROM kernels
WHERE kind = coalesce($kind::VARCHAR, kind)
GROUP BY run, name, kind
ORDER BY total_ns DESC, run, name, kind
LIMIT $rows
