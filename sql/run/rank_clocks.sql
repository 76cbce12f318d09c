-- One row per recorded rank: what turns its times into the run's.
--
-- rank         INTEGER  Rank.
-- reference_ns BIGINT   Time on its own clock at which the offset holds; NULL where nothing is fitted.
-- offset_ns    BIGINT   aligned t = t - offset_ns - round(drift_ppb * (t - reference_ns) / 1e9); 0 where nothing is fitted.
-- drift_ppb    DOUBLE   How much faster its clock runs, in parts per 10^9; 0 where it does not show.
-- residual_ns  BIGINT   Median absolute deviation of its collectives' ends from the members' median end, aligned; NULL
--     without anchors. Differences below about three of it mean nothing.
-- n_anchors    BIGINT   Collectives that the residual is of.
-- clock_no     INTEGER  Lowest rank whose times can be compared with its own.
-- basis        VARCHAR  collectives, host or none: what the offset rests on.
-- verdict      VARCHAR  ok, or why its times cannot be compared with all others'.
--
-- Scope: clock
-- How: ends of synchronising collectives, over all groups. Ranks that share a host by the dumps' word keep one clock where
-- the fit does not contradict it, by 100 µs or three residuals, at any of their anchors: the median of those whose anchors
-- span half as long as any's, for a short span knows no drift. A rank without anchors takes its host's clock. A collective
-- cannot tell an offset from a rank that always leaves later: that part is in no residual.
WITH spans AS (
    SELECT
        anchors.rank AS span_rank,
        min(anchors.x_ns) AS first_x_ns,
        max(anchors.x_ns) AS last_x_ns
    FROM _anchors AS anchors
    JOIN _member_fits AS member ON anchors.group_id = member.group_id AND anchors.rank = member.rank
    GROUP BY anchors.rank
),

looseness AS (
    SELECT
        rank AS fit_rank,
        max(residual_ns) AS pair_residual_ns
    FROM _member_fits
    GROUP BY rank
),

fitted AS (
    SELECT
        hosts.rank,
        hosts.host,
        fits.clock_no,
        fits.offset_ns,
        fits.drift,
        spans.first_x_ns,
        spans.last_x_ns,
        looseness.pair_residual_ns,
        2 * (spans.last_x_ns - spans.first_x_ns)
        >= max(spans.last_x_ns - spans.first_x_ns) OVER (PARTITION BY hosts.host) AS is_long
    FROM _hosts AS hosts
    LEFT JOIN _clock_refined AS fits ON hosts.rank = fits.rank
    LEFT JOIN spans ON hosts.rank = spans.span_rank
    LEFT JOIN looseness ON hosts.rank = looseness.fit_rank
),

placed AS (
    SELECT
        *,
        median(offset_ns) FILTER (is_long) OVER of_host AS host_offset_ns,
        median(drift) FILTER (is_long) OVER of_host AS host_drift,
        min(clock_no) OVER of_host AS host_clock_no,
        min(rank) OVER of_host AS host_rank,
        count(*) OVER of_host AS n_mates,
        max(pair_residual_ns) OVER of_host AS host_residual_ns
    FROM fitted
    WINDOW of_host AS (PARTITION BY host)
),

contradicted AS (
    SELECT
        placed.*,
        host IS NOT NULL
        AND coalesce(
            bool_and(
                offset_ns IS NULL
                OR greatest(
                    abs(offset_ns + drift * first_x_ns - host_offset_ns - host_drift * first_x_ns),
                    abs(offset_ns + drift * last_x_ns - host_offset_ns - host_drift * last_x_ns)
                ) <= greatest(shared_clock_ns, 3 * host_residual_ns)
            ) OVER (PARTITION BY host),
            TRUE
        ) AS is_shared
    FROM placed
    CROSS JOIN params
),

chosen AS (
    SELECT
        rank,
        host,
        n_mates,
        is_shared,
        CASE
            WHEN is_shared THEN coalesce(host_clock_no, host_rank)
            ELSE coalesce(clock_no, rank)
        END AS clock_no,
        CASE WHEN is_shared THEN coalesce(host_offset_ns, 0) ELSE coalesce(offset_ns, 0) END AS raw_offset_ns,
        CASE WHEN is_shared THEN coalesce(host_drift, 0) ELSE coalesce(drift, 0) END AS raw_drift,
        offset_ns IS NOT NULL AS is_fitted
    FROM contradicted
),

against AS (
    SELECT
        chosen.*,
        -- The lowest rank of a clock keeps its own times.
        first_value(raw_offset_ns) OVER of_clock AS base_offset_ns,
        first_value(raw_drift) OVER of_clock AS base_drift,
        count(DISTINCT host) OVER (PARTITION BY clock_no) AS n_hosts
    FROM chosen
    WINDOW of_clock AS (PARTITION BY clock_no ORDER BY rank)
),

clocks AS (
    SELECT
        rank,
        clock_no,
        is_fitted,
        (raw_offset_ns - base_offset_ns) / (1 - base_drift) AS offset_ns,
        1 - (1 - raw_drift) / (1 - base_drift) AS drift,
        CASE
            WHEN is_shared AND n_mates > 1 AND (n_hosts = 1 OR NOT is_fitted) THEN 'host'
            WHEN is_fitted THEN 'collectives'
            ELSE 'none'
        END AS basis
    FROM against
),

ends AS (
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
        JOIN clocks ON anchors.rank = clocks.rank
    )
    GROUP BY rank
)

SELECT
    clocks.rank,
    CASE
        WHEN ends.n_anchors IS NOT NULL OR clocks.offset_ns <> 0
            THEN (SELECT any_value(_anchors.reference_ns) FROM _anchors)
    END AS reference_ns,
    round(clocks.offset_ns)::BIGINT AS offset_ns,
    round(clocks.drift * 1e9, 3) AS drift_ppb,
    round(ends.residual_ns)::BIGINT AS residual_ns,
    coalesce(ends.n_anchors, 0) AS n_anchors,
    clocks.clock_no,
    clocks.basis,
    CASE
        WHEN count(DISTINCT clocks.clock_no) OVER () = 1 THEN 'ok'
        WHEN clocks.basis = 'none' AND clocks.rank IN (SELECT _anchors.rank FROM _anchors)
            THEN 'no anchor, members of its groups do not leave together: keeps its own clock'
        WHEN clocks.basis = 'none' THEN 'no anchor: keeps its own clock'
        ELSE 'not tied to every rank: comparable with those of clock ' || clocks.clock_no
    END AS verdict
FROM clocks
LEFT JOIN ends ON clocks.rank = ends.end_rank
