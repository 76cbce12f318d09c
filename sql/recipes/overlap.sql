-- How much of the exchange is hidden behind compute, on each rank?
-- $rows  BIGINT = 20  Rows at most.
-- run                 VARCHAR  Run.
-- rank                INTEGER  Rank.
-- comm_ns             BIGINT   Time with comm.
-- overlapped_comm_ns  BIGINT   Of it, beside compute.
-- exposed_comm_ns     BIGINT   Of it, beside none.
-- hidden_ratio        DOUBLE   overlapped_comm_ns by comm_ns; NULL without comm.
-- exposed_ratio       DOUBLE   exposed_comm_ns of the rank's windows.
SELECT
    run,
    rank,
    sum(comm_ns)::BIGINT AS comm_ns,
    sum(overlapped_comm_ns)::BIGINT AS overlapped_comm_ns,
    sum(exposed_comm_ns)::BIGINT AS exposed_comm_ns,
    sum(overlapped_comm_ns) / nullif(sum(comm_ns), 0) AS hidden_ratio,
    sum(exposed_comm_ns) / nullif(sum(duration_ns), 0) AS exposed_ratio
FROM rank_steps
GROUP BY run, rank
ORDER BY run, rank
LIMIT $rows
