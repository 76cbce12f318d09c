-- One row per recorded rank: what turns its times into the run's.
--
-- rank         INTEGER  Rank.
-- reference_ns BIGINT   Time on its own clock at which the offset holds; NULL where nothing is fitted.
-- offset_ns    BIGINT   aligned t = t - offset_ns - round(drift_ppb * (t - reference_ns) / 1e9); 0 where nothing is fitted.
-- drift_ppb    DOUBLE   How much faster its clock runs, in parts per 10^9; 0 where it does not show.
-- residual_ns  BIGINT   Median absolute deviation of its collectives' ends from the members' median end, aligned; NULL
--     without anchors. Differences below about three of it mean nothing.
-- n_anchors    BIGINT   Collectives it was fitted to.
-- clock_no     INTEGER  Lowest rank whose times can be compared with its own.
-- basis        VARCHAR  collectives, host or none: what the offset rests on.
-- verdict      VARCHAR  ok, or why its times cannot be compared with all others'.
--
-- Scope: clock
-- How: ends of synchronising collectives, over all groups. Ranks that share a host by the dumps' word keep one clock where
-- the fit does not contradict it, by 100 µs or three residuals; a rank without anchors takes its host's clock.
WITH fits AS (
    SELECT
        settled.*,
        ends.residual_ns,
        ends.n_anchors
    FROM _clock_settled AS settled
    JOIN (
        SELECT
            rank AS end_rank,
            median(abs(error_ns)) AS residual_ns,
            count(*) AS n_anchors
        FROM (
            SELECT
                anchors.rank,
                anchors.x_ns - (clocks.offset_ns + clocks.drift * anchors.x_ns)
                - median(anchors.x_ns - (clocks.offset_ns + clocks.drift * anchors.x_ns)) OVER (
                    PARTITION BY anchors.group_id, anchors.instance
                ) AS error_ns
            FROM _anchors AS anchors
            JOIN _member_fits AS member ON anchors.group_id = member.group_id AND anchors.rank = member.rank
            JOIN _clock_settled AS clocks ON anchors.rank = clocks.rank
        )
        GROUP BY rank
    ) AS ends ON settled.rank = ends.end_rank
),

placed AS (
    SELECT
        hosts.rank,
        hosts.host,
        fits.clock_no,
        fits.offset_ns,
        fits.drift,
        fits.residual_ns,
        fits.n_anchors,
        median(fits.offset_ns) OVER of_host AS host_offset_ns,
        median(fits.drift) OVER of_host AS host_drift,
        min(fits.clock_no) OVER of_host AS host_clock_no,
        min(hosts.rank) OVER of_host AS host_rank,
        (SELECT max(x_ns) FROM _anchors) AS span_ns
    FROM _hosts AS hosts
    LEFT JOIN fits ON hosts.rank = fits.rank
    WINDOW of_host AS (PARTITION BY hosts.host)
),

contradicted AS (
    SELECT
        placed.*,
        host IS NOT NULL
        AND coalesce(
            bool_and(
                offset_ns IS NULL
                OR greatest(
                    abs(offset_ns - host_offset_ns),
                    abs(offset_ns + drift * span_ns - host_offset_ns - host_drift * span_ns)
                ) <= greatest(shared_clock_ns, 3 * residual_ns)
            ) OVER (PARTITION BY host),
            TRUE
        ) AS is_shared
    FROM placed
    CROSS JOIN params
),

chosen AS (
    SELECT
        rank,
        CASE
            WHEN is_shared THEN coalesce(host_clock_no, host_rank)
            ELSE coalesce(clock_no, rank)
        END AS clock_no,
        CASE WHEN is_shared THEN coalesce(host_offset_ns, 0) ELSE coalesce(offset_ns, 0) END AS raw_offset_ns,
        CASE WHEN is_shared THEN coalesce(host_drift, 0) ELSE coalesce(drift, 0) END AS raw_drift,
        residual_ns,
        n_anchors,
        CASE
            WHEN is_shared AND count(*) OVER (PARTITION BY host) > 1 THEN 'host'
            WHEN offset_ns IS NOT NULL THEN 'collectives'
            ELSE 'none'
        END AS basis
    FROM contradicted
),

against AS (
    SELECT
        chosen.*,
        -- The lowest rank of a clock keeps its own times.
        first_value(raw_offset_ns) OVER of_clock AS base_offset_ns,
        first_value(raw_drift) OVER of_clock AS base_drift,
        (SELECT any_value(reference_ns) FROM _anchors) AS reference_ns
    FROM chosen
    WINDOW of_clock AS (PARTITION BY clock_no ORDER BY rank)
)

SELECT
    rank,
    CASE WHEN n_anchors IS NOT NULL OR raw_offset_ns <> 0 THEN reference_ns END AS reference_ns,
    round(raw_offset_ns - base_offset_ns)::BIGINT AS offset_ns,
    round((raw_drift - base_drift) * 1e9, 3) AS drift_ppb,
    round(residual_ns)::BIGINT AS residual_ns,
    coalesce(n_anchors, 0) AS n_anchors,
    clock_no,
    basis,
    CASE
        WHEN count(DISTINCT clock_no) OVER () = 1 THEN 'ok'
        WHEN basis = 'none' THEN 'no anchor: keeps its own clock'
        ELSE 'not tied to every rank: comparable with those of clock ' || clock_no
    END AS verdict
FROM against
