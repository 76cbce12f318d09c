-- Which kernels take longer on one rank than on the others?
-- $slower  DOUBLE = 1.05  Show calls that take this many times as long.
-- $rows    BIGINT = 20    Rows at most.
-- run           VARCHAR  Run.
-- name          VARCHAR  Kernel of kind compute.
-- rank          INTEGER  Rank.
-- n_calls       BIGINT   Its calls there.
-- mean_ns       BIGINT   Of one call.
-- others_ns     BIGINT   Median of the ranks' means, the lower of two.
-- slower_ratio  DOUBLE   The first by the second.
-- beyond_ns     BIGINT   What its calls took beyond that.
-- Empty: where the kernels of all ranks take the same, and with fewer than three ranks.
WITH
means AS (
    SELECT
        run,
        name,
        rank,
        sum(n_calls)::BIGINT AS n_calls,
        sum(total_ns)::BIGINT AS total_ns,
        round(sum(total_ns) / sum(n_calls))::BIGINT AS mean_ns
    FROM kernels
    WHERE kind = 'compute'
    GROUP BY run, name, rank
),
beside AS (
    SELECT
        *,
        quantile_disc(mean_ns, 0.5) OVER (PARTITION BY run, name) AS others_ns,
        count(*) OVER (PARTITION BY run, name) AS n_ranks
    FROM means
)
SELECT
    run,
    name,
    rank,
    n_calls,
    mean_ns,
    others_ns,
    mean_ns / others_ns AS slower_ratio,
    total_ns - n_calls * others_ns AS beyond_ns
FROM beside
WHERE n_ranks >= 3 AND mean_ns > others_ns * $slower::DOUBLE
ORDER BY beyond_ns DESC, run, name, rank
LIMIT $rows
