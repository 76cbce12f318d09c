-- One row per two clocks whose ranks left collectives together: how one runs against the other.
--
-- base        INTEGER  The lower.
-- unit        INTEGER  The other.
-- n_anchors   BIGINT   Collectives they have in common, over all groups.
-- slope       DOUBLE   Drift against the base; 0 where it does not show.
-- shift_ns    DOUBLE   Offset at the reference: own end = the base's + shift + slope * own end.
-- residual_ns DOUBLE   Median absolute deviation from that.
--
-- Scope: clock
-- How: as in _member_fits.
WITH differences AS (
    SELECT
        base,
        unit,
        x_ns,
        x_ns - base_x_ns AS d_ns,
        row_number() OVER (PARTITION BY base, unit ORDER BY x_ns, group_id, instance) AS place,
        count(*) OVER (PARTITION BY base, unit) AS n
    FROM _unit_anchors
    WHERE unit <> base
),

pairs AS (
    SELECT
        early.base,
        early.unit,
        late.d_ns - early.d_ns AS rise_ns,
        late.x_ns - early.x_ns AS run_ns
    FROM differences AS early
    JOIN differences AS late
        ON early.base = late.base AND early.unit = late.unit AND early.place + early.n // 2 = late.place
    WHERE early.n > 64
    UNION ALL
    SELECT
        early.base,
        early.unit,
        late.d_ns - early.d_ns AS rise_ns,
        late.x_ns - early.x_ns AS run_ns
    FROM differences AS early
    JOIN differences AS late
        ON early.base = late.base AND early.unit = late.unit AND early.place < late.place
    WHERE early.n BETWEEN 4 AND 64
),

weighed AS (
    SELECT
        *,
        rise_ns / run_ns AS slope,
        sum(run_ns) OVER (
            PARTITION BY base, unit ORDER BY rise_ns / run_ns, run_ns ROWS UNBOUNDED PRECEDING
        ) AS run_to_ns,
        sum(run_ns) OVER (PARTITION BY base, unit) AS run_of_all_ns
    FROM pairs
    WHERE run_ns > 0
),

slopes AS (
    SELECT
        base,
        unit,
        min(slope) AS slope
    FROM weighed
    WHERE 2 * run_to_ns >= run_of_all_ns
    GROUP BY base, unit
),

seen AS (
    SELECT
        differences.base,
        differences.unit,
        any_value(slopes.slope) AS slope,
        max(differences.x_ns) - min(differences.x_ns) AS span_ns,
        visible_rise_ns(differences.x_ns, differences.d_ns - slopes.slope * differences.x_ns, rounded_ns) AS visible_ns
    FROM differences
    JOIN slopes ON differences.base = slopes.base AND differences.unit = slopes.unit
    CROSS JOIN params
    GROUP BY differences.base, differences.unit
),

judged AS (
    SELECT
        base AS of_base,
        unit AS of_unit,
        CASE
            WHEN abs(slope) * span_ns > visible_ns AND crystal_drift * span_ns > visible_ns THEN slope
            ELSE 0
        END AS kept_slope
    FROM seen
    CROSS JOIN params
)

SELECT
    differences.base,
    differences.unit,
    count(*) AS n_anchors,
    coalesce(any_value(judged.kept_slope), 0) AS slope,
    median(differences.d_ns - coalesce(judged.kept_slope, 0) * differences.x_ns) AS shift_ns,
    mad(differences.d_ns - coalesce(judged.kept_slope, 0) * differences.x_ns) AS residual_ns
FROM differences
LEFT JOIN judged ON differences.base = judged.of_base AND differences.unit = judged.of_unit
GROUP BY differences.base, differences.unit
