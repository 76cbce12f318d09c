-- One row: whether the recorded ranks' times can be compared, and why.
--
-- is_shared BOOLEAN  Whether every rank's times can be compared with every other's.
-- basis     VARCHAR  The evidence, or what is missing.
--
-- Scope: clock
WITH counted AS (
    SELECT
        count(*) AS n_ranks,
        count(DISTINCT clock_no) AS n_clocks,
        count(*) FILTER (basis = 'collectives') AS n_fitted,
        median(residual_ns) AS residual_ns
    FROM rank_clocks
),

named AS (
    SELECT
        count(DISTINCT host) AS n_hosts,
        any_value(host) AS host,
        any_value(evidence) AS evidence
    FROM _hosts
)

SELECT
    counted.n_ranks <= 1 OR counted.n_clocks = 1 AS is_shared,
    CASE
        WHEN counted.n_ranks <= 1 THEN 'one rank'
        WHEN counted.n_clocks = 1 AND counted.n_fitted > 0
            THEN 'collective ends, to ' || round(counted.residual_ns / 1e3, 1) || ' µs'
        WHEN counted.n_clocks = 1 AND named.evidence = 'named' THEN 'one host: ' || named.host
        WHEN counted.n_clocks = 1 THEN 'one host: ' || named.evidence
        WHEN named.n_hosts > 1 THEN named.n_hosts || ' hosts without a collective that ties them'
        ELSE 'the dumps do not say that the ranks share a host, and no collective ties them'
    END AS basis
FROM counted
CROSS JOIN named
