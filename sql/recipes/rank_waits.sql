-- What does each rank wait for?
-- $rows  BIGINT = 20  Rows at most.
-- run              VARCHAR  Run.
-- rank             INTEGER  Rank.
-- n_steps          BIGINT   Steps it recorded.
-- duration_ns      BIGINT   Their windows.
-- wait_ns          BIGINT   Of them, inside collectives for a later rank; NULL where clocks are not aligned.
-- exposed_comm_ns  BIGINT   In comm beside no compute: it holds most of wait_ns.
-- exposed_copy_ns  BIGINT   In copies beside neither compute nor comm.
-- idle_input_ns    BIGINT   Idle, while the launching thread waited for input.
-- idle_host_ns     BIGINT   Idle, until the host launched.
-- idle_sync_ns     BIGINT   Idle, behind a blocking call.
-- idle_rest_ns     BIGINT   Idle for another cause: launch, turnaround, other.
SELECT
    run,
    rank,
    count(*) AS n_steps,
    sum(duration_ns)::BIGINT AS duration_ns,
    CASE WHEN count(wait_ns) = count(*) THEN sum(wait_ns)::BIGINT END AS wait_ns,
    sum(exposed_comm_ns)::BIGINT AS exposed_comm_ns,
    sum(exposed_copy_ns)::BIGINT AS exposed_copy_ns,
    sum(idle_input_ns)::BIGINT AS idle_input_ns,
    sum(idle_host_ns)::BIGINT AS idle_host_ns,
    sum(idle_sync_ns)::BIGINT AS idle_sync_ns,
    sum(idle_launch_ns + idle_turnaround_ns + idle_other_ns)::BIGINT AS idle_rest_ns
FROM rank_steps
GROUP BY run, rank
ORDER BY run, rank
LIMIT $rows
