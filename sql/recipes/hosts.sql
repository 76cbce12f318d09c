-- Which host's devices compute longest or idle most?
-- $rows  BIGINT = 20  Rows at most.
-- run            VARCHAR  Run.
-- host           VARCHAR  Host.
-- n_ranks        BIGINT   Recorded ranks there.
-- compute_ns     BIGINT   Compute of a rank in a step, on average.
-- compute_ratio  DOUBLE   By the median host's.
-- idle_ns        BIGINT   Idle time of a rank in a step, on average.
-- wait_ns        BIGINT   Waiting inside collectives for a later rank, likewise; NULL where clocks are not aligned.
WITH of_hosts AS (
    SELECT
        run,
        r.host,
        count(DISTINCT rank) AS n_ranks,
        round(avg(s.compute_ns))::BIGINT AS compute_ns,
        round(avg(s.idle_ns))::BIGINT AS idle_ns,
        CASE WHEN count(s.wait_ns) = count(*) THEN round(avg(s.wait_ns))::BIGINT END AS wait_ns
    FROM rank_steps AS s
    JOIN ranks AS r USING (run, rank)
    GROUP BY run, r.host
)
SELECT
    run,
    host,
    n_ranks,
    compute_ns,
    compute_ns / nullif(median(compute_ns) OVER (PARTITION BY run), 0) AS compute_ratio,
    idle_ns,
    wait_ns
FROM of_hosts
ORDER BY compute_ns DESC, run, host
LIMIT $rows
