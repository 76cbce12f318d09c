-- How idle are the devices, by cause, from step to step?
-- $rank  INTEGER = NULL  Rank; without one all.
-- $rows  BIGINT = 20     Rows at most.
-- run            VARCHAR  Run.
-- step           BIGINT   Step.
-- idle_ratio     DOUBLE   Idle time of the windows.
-- idle_ns        BIGINT   The same in time, summed over ranks.
-- input_ns       BIGINT   Of it, while the launching thread waited for input.
-- host_ns        BIGINT   Until the host launched.
-- sync_ns        BIGINT   Behind a blocking call.
-- launch_ns      BIGINT   Launched, not begun.
-- turnaround_ns  BIGINT   At most 5 µs between activities already launched.
-- other_ns       BIGINT   The dump does not show why.
SELECT
    run,
    step,
    sum(idle_ns) / nullif(sum(duration_ns), 0) AS idle_ratio,
    sum(idle_ns)::BIGINT AS idle_ns,
    sum(idle_input_ns)::BIGINT AS input_ns,
    sum(idle_host_ns)::BIGINT AS host_ns,
    sum(idle_sync_ns)::BIGINT AS sync_ns,
    sum(idle_launch_ns)::BIGINT AS launch_ns,
    sum(idle_turnaround_ns)::BIGINT AS turnaround_ns,
    sum(idle_other_ns)::BIGINT AS other_ns
FROM rank_steps
WHERE rank = coalesce($rank::INTEGER, rank)
GROUP BY run, step
ORDER BY run, step
LIMIT $rows
