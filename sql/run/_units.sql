-- One row per recorded rank: the clock that made its times.
--
-- rank      INTEGER  Rank.
-- unit      INTEGER  Lowest rank of the clock.
-- is_shared BOOLEAN  Whether it is its host's, by the dumps' word.
--
-- Scope: clock
-- How: ranks of one host keep one clock, unless the ends of a group that several of them are in say otherwise: by more
-- than 100 µs and three residuals, at its first or its last anchor.
WITH apart AS (
    SELECT
        hosts.host,
        greatest(
            max(fits.shift_ns + fits.slope * fits.first_x_ns) - min(fits.shift_ns + fits.slope * fits.first_x_ns),
            max(fits.shift_ns + fits.slope * fits.last_x_ns) - min(fits.shift_ns + fits.slope * fits.last_x_ns)
        ) AS apart_ns,
        max(fits.residual_ns) AS residual_ns
    FROM _member_fits AS fits
    JOIN _hosts AS hosts ON fits.rank = hosts.rank
    WHERE hosts.host IS NOT NULL
    GROUP BY hosts.host, fits.group_id
),

contradicted AS (
    SELECT DISTINCT host AS contradicted_host
    FROM apart
    CROSS JOIN params
    WHERE apart_ns > greatest(shared_clock_ns, 3 * residual_ns)
)

SELECT
    hosts.rank,
    CASE
        WHEN hosts.host IS NULL OR contradicted.contradicted_host IS NOT NULL THEN hosts.rank
        ELSE min(hosts.rank) OVER (PARTITION BY hosts.host)
    END AS unit,
    hosts.host IS NOT NULL AND contradicted.contradicted_host IS NULL AS is_shared
FROM _hosts AS hosts
LEFT JOIN contradicted ON hosts.host = contradicted.contradicted_host
