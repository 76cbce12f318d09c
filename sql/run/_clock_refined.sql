-- One row per clock that collectives tie to others: how it runs by all of them at once.
--
-- unit      INTEGER  Lowest rank of the clock.
-- clock_no  INTEGER  Lowest rank it is tied to.
-- offset_ns DOUBLE   aligned x = x - (offset + drift * x), x from the reference.
-- drift     DOUBLE   Its drift.
--
-- Scope: clock
-- How: each clock moves to the median of where its collectives' members leave, over all groups. A drift that shows between
-- two clocks is corrected by whatever they say, one that did not must show as in _member_fits. Composition alone hangs on
-- one path from clock to clock; this weighs all.
WITH errors AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY unit ORDER BY x_ns, group_id, instance) AS place,
        count(*) OVER (PARTITION BY unit) AS n
    FROM (
        SELECT
            anchors.group_id,
            anchors.instance,
            anchors.unit,
            anchors.x_ns,
            anchors.x_ns - (clocks.offset_ns + clocks.drift * anchors.x_ns)
            - median(anchors.x_ns - (clocks.offset_ns + clocks.drift * anchors.x_ns)) OVER (
                PARTITION BY anchors.group_id, anchors.instance
            ) AS error_ns
        FROM _unit_anchors AS anchors
        JOIN _clock_composed AS clocks ON anchors.unit = clocks.unit
    )
),

pairs AS (
    SELECT
        early.unit,
        late.error_ns - early.error_ns AS rise_ns,
        late.x_ns - early.x_ns AS run_ns
    FROM errors AS early
    JOIN errors AS late
        ON early.unit = late.unit AND early.place + early.n // 2 = late.place
    WHERE early.n > 64
    UNION ALL
    SELECT
        early.unit,
        late.error_ns - early.error_ns AS rise_ns,
        late.x_ns - early.x_ns AS run_ns
    FROM errors AS early
    JOIN errors AS late
        ON early.unit = late.unit AND early.place < late.place
    WHERE early.n BETWEEN 4 AND 64
),

weighed AS (
    SELECT
        *,
        rise_ns / run_ns AS slope,
        sum(run_ns) OVER (
            PARTITION BY unit ORDER BY rise_ns / run_ns, run_ns ROWS UNBOUNDED PRECEDING
        ) AS run_to_ns,
        sum(run_ns) OVER (PARTITION BY unit) AS run_of_all_ns
    FROM pairs
    WHERE run_ns > 0
),

slopes AS (
    SELECT
        unit,
        min(slope) AS slope
    FROM weighed
    WHERE 2 * run_to_ns >= run_of_all_ns
    GROUP BY unit
),

seen AS (
    SELECT
        errors.unit,
        any_value(slopes.slope) AS slope,
        max(errors.x_ns) - min(errors.x_ns) AS span_ns,
        visible_rise_ns(errors.x_ns, errors.error_ns - slopes.slope * errors.x_ns, rounded_ns) AS visible_ns
    FROM errors
    JOIN slopes ON errors.unit = slopes.unit
    CROSS JOIN params
    GROUP BY errors.unit
),

judged AS (
    SELECT
        clocks.unit,
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
    LEFT JOIN seen ON clocks.unit = seen.unit
    CROSS JOIN params
),

shifts AS (
    SELECT
        errors.unit,
        median(errors.error_ns - judged.slope * errors.x_ns) AS shift_ns
    FROM errors
    JOIN judged ON errors.unit = judged.unit
    GROUP BY errors.unit
)

SELECT
    judged.unit,
    judged.clock_no,
    judged.offset_ns + coalesce(shifts.shift_ns, 0) AS offset_ns,
    judged.drift + judged.slope AS drift
FROM judged
LEFT JOIN shifts ON judged.unit = shifts.unit
