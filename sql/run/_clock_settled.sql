-- One row per rank that collectives tie to others: its clock after a second pass over all its groups.
--
-- rank      INTEGER  Rank.
-- clock_no  INTEGER  Lowest rank it is tied to.
-- offset_ns DOUBLE   aligned x = x - (offset + drift * x), x from the reference.
-- drift     DOUBLE   Its drift.
--
-- Scope: clock
-- How: each rank moves to the median of where its collectives' members leave, over all its groups; its drift changes where
-- the change shows as in _member_fits. Composition alone hangs on one path from rank to rank; this weighs all.
WITH left_at AS (
    SELECT
        anchors.group_id,
        anchors.instance,
        anchors.rank,
        anchors.x_ns,
        anchors.x_ns - (clocks.offset_ns + clocks.drift * anchors.x_ns) AS aligned_ns
    FROM _anchors AS anchors
    JOIN _member_fits AS fits ON anchors.group_id = fits.group_id AND anchors.rank = fits.rank
    JOIN _clock_refined AS clocks ON anchors.rank = clocks.rank
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

judged AS (
    SELECT
        errors.rank,
        CASE
            WHEN abs(any_value(slopes.slope)) * (max(errors.x_ns) - min(errors.x_ns))
                > 4 * 1.4826 * mad(errors.error_ns - slopes.slope * errors.x_ns) * sqrt(12 / count(*))
                THEN any_value(slopes.slope)
            ELSE 0
        END AS slope
    FROM errors
    LEFT JOIN slopes ON errors.rank = slopes.rank
    GROUP BY errors.rank
),

moves AS (
    SELECT
        errors.rank,
        any_value(judged.slope) AS slope,
        median(errors.error_ns - judged.slope * errors.x_ns) AS shift_ns
    FROM errors
    JOIN judged ON errors.rank = judged.rank
    GROUP BY errors.rank
)

SELECT
    clocks.rank,
    clocks.clock_no,
    clocks.offset_ns + coalesce(moves.shift_ns, 0) AS offset_ns,
    clocks.drift + coalesce(moves.slope, 0) AS drift
FROM _clock_refined AS clocks
LEFT JOIN moves ON clocks.rank = moves.rank
