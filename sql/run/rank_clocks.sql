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
-- How: a rank has the clock of its unit, in _units, and that is fitted to the ends of synchronising collectives over all
-- groups. A rank without anchors takes its host's clock. A collective cannot tell an offset from a host whose ranks always
-- leave later: that part is in no residual.
WITH placed AS (
    SELECT
        units.rank,
        coalesce(fits.clock_no, units.unit) AS clock_no,
        coalesce(fits.offset_ns, 0) AS raw_offset_ns,
        coalesce(fits.drift, 0) AS raw_drift,
        CASE
            WHEN units.is_shared
                AND count(*) OVER (PARTITION BY units.unit) > 1
                AND (fits.unit IS NULL OR units.rank NOT IN (SELECT member.rank FROM _member_fits AS member))
                THEN 'host'
            WHEN fits.unit IS NOT NULL THEN 'collectives'
            ELSE 'none'
        END AS basis
    FROM _units AS units
    LEFT JOIN _clock_refined AS fits ON units.unit = fits.unit
),

clocks AS (
    SELECT
        rank,
        clock_no,
        basis,
        -- The lowest rank of a clock keeps its own times.
        (raw_offset_ns - first_value(raw_offset_ns) OVER of_clock) / (1 - first_value(raw_drift) OVER of_clock) AS offset_ns,
        1 - (1 - raw_drift) / (1 - first_value(raw_drift) OVER of_clock) AS drift
    FROM placed
    WINDOW of_clock AS (PARTITION BY clock_no ORDER BY rank)
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
