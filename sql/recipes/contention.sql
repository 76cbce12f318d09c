-- Which kernels run slower beside communication than alone?
-- $rows  BIGINT = 20  Rows at most.
-- run            VARCHAR  Run.
-- name           VARCHAR  Kernel.
-- n_compared     BIGINT   Calls beside comm whose like ran alone, over ranks and steps.
-- contention_ns  BIGINT   By how much they took longer; negative, less.
-- per_call_ns    BIGINT   Of one call.
-- beside_ns      BIGINT   Time of all its calls beside comm.
-- Empty: where no kernel runs both beside comm and alone.
SELECT
    run,
    name,
    sum(n_compared)::BIGINT AS n_compared,
    sum(contention_ns)::BIGINT AS contention_ns,
    round(sum(contention_ns) / sum(n_compared))::BIGINT AS per_call_ns,
    sum(beside_ns)::BIGINT AS beside_ns
FROM kernel_contention
WHERE n_compared > 0
GROUP BY run, name
ORDER BY contention_ns DESC, run, name
LIMIT $rows
