-- One row per rank that collectives tie to others: its clock by all its groups at once.
--
-- rank      INTEGER  Rank.
-- clock_no  INTEGER  Lowest rank it is tied to.
-- offset_ns DOUBLE   aligned x = x - (offset + drift * x), x from the reference.
-- drift     DOUBLE   Its drift.
--
-- Scope: clock
-- How: each rank moves to the median of where its collectives' members leave, over all its groups. A drift that shows in
-- a group is corrected by whatever they say, one that did not must show as in _member_fits. Composition alone hangs on one
-- path from rank to rank; this weighs all. Over rings, chains and meshes of groups one pass takes up to half of
-- composition's error away and further ones a tenth of what is left, so there is one.
WITH left_at AS (
    SELECT
        anchors.group_id,
        anchors.instance,
        anchors.rank,
        anchors.x_ns,
        anchors.x_ns - (clocks.offset_ns + clocks.drift * anchors.x_ns) AS aligned_ns
    FROM _anchors AS anchors
    JOIN _member_fits AS fits ON anchors.group_id = fits.group_id AND anchors.rank = fits.rank
    JOIN _clock_composed AS clocks ON anchors.rank = clocks.rank
),

middles AS (
    SELECT
        group_id,
        instance,
        median(aligned_ns) AS middle_ns
    FROM left_at
    GROUP BY group_id, instance
),

errors AS (
    SELECT
        left_at.rank,
        left_at.x_ns,
        left_at.aligned_ns - middles.middle_ns AS error_ns,
        row_number() OVER (
            PARTITION BY left_at.rank ORDER BY left_at.x_ns, left_at.group_id, left_at.instance
        ) AS place,
        count(*) OVER (PARTITION BY left_at.rank) AS n
    FROM left_at
    JOIN middles ON left_at.group_id = middles.group_id AND left_at.instance = middles.instance
),

slopes AS (
    SELECT
        early.rank,
        median((late.error_ns - early.error_ns) / nullif(late.x_ns - early.x_ns, 0)) AS slope
    FROM errors AS early
    JOIN errors AS late ON early.rank = late.rank AND early.place + early.n // 2 = late.place
    WHERE early.n >= 8
    GROUP BY early.rank
),

seen AS (
    SELECT
        errors.rank,
        any_value(slopes.slope) AS slope,
        max(errors.x_ns) - min(errors.x_ns) AS span_ns,
        greatest(3, 4 * 1.4826 * sqrt(12 / count(*)))
        * greatest(mad(errors.error_ns - slopes.slope * errors.x_ns), any_value(rounded_ns)) AS visible_ns
    FROM errors
    JOIN slopes ON errors.rank = slopes.rank
    CROSS JOIN params
    GROUP BY errors.rank
),

judged AS (
    SELECT
        clocks.rank,
        clocks.clock_no,
        clocks.offset_ns,
        clocks.drift,
        CASE
            WHEN seen.slope IS NULL THEN 0
            WHEN clocks.drift <> 0 THEN seen.slope
            WHEN abs(seen.slope) * seen.span_ns > seen.visible_ns AND crystal_drift * seen.span_ns > seen.visible_ns
                THEN seen.slope
            ELSE 0
        END AS slope
    FROM _clock_composed AS clocks
    LEFT JOIN seen ON clocks.rank = seen.rank
    CROSS JOIN params
),

shifts AS (
    SELECT
        errors.rank,
        median(errors.error_ns - judged.slope * errors.x_ns) AS shift_ns
    FROM errors
    JOIN judged ON errors.rank = judged.rank
    GROUP BY errors.rank
)

SELECT
    judged.rank,
    judged.clock_no,
    judged.offset_ns + coalesce(shifts.shift_ns, 0) AS offset_ns,
    judged.drift + judged.slope AS drift
FROM judged
LEFT JOIN shifts ON judged.rank = shifts.rank
