-- One row per group, member: how its clock runs against that of the group's lowest recorded rank.
--
-- group_id    VARCHAR  Process group.
-- rank        INTEGER  Member.
-- n_anchors   BIGINT   Collectives they have in common.
-- slope       DOUBLE   Drift against the lowest rank's clock; 0 where it does not show.
-- shift_ns    DOUBLE   Offset at the reference: own end = theirs + shift + slope * own end.
-- residual_ns DOUBLE   Median absolute deviation from that.
--
-- Scope: clock
-- How: the slope is the median over pairs half the anchors apart (Theil and Sen's estimator on n/2 pairs), the shift the
-- median of what is left: a few late leavers move neither. A slope counts where over the anchors' span it exceeds three
-- residuals, below which nothing does, and four of its own standard errors, sqrt(12 / n) of the deviation for anchors
-- evenly spread; and only where a crystal's drift would. A member whose ends are loose is left out, and so is what is
-- left of a group when none but its lowest rank is.
WITH lowest AS (
    SELECT
        group_id AS lowest_group,
        min(rank) AS lowest_rank
    FROM _anchors
    GROUP BY group_id
),

differences AS (
    SELECT
        mine.group_id,
        mine.rank,
        mine.x_ns,
        mine.x_ns - theirs.x_ns AS d_ns,
        row_number() OVER (PARTITION BY mine.group_id, mine.rank ORDER BY mine.x_ns, mine.instance) AS place,
        count(*) OVER (PARTITION BY mine.group_id, mine.rank) AS n
    FROM _anchors AS mine
    JOIN lowest ON mine.group_id = lowest.lowest_group
    JOIN _anchors AS theirs
        ON mine.group_id = theirs.group_id
        AND mine.instance = theirs.instance
        AND theirs.rank = lowest.lowest_rank
),

slopes AS (
    SELECT
        early.group_id,
        early.rank,
        median((late.d_ns - early.d_ns) / nullif(late.x_ns - early.x_ns, 0)) AS slope
    FROM differences AS early
    JOIN differences AS late
        ON early.group_id = late.group_id AND early.rank = late.rank AND early.place + early.n // 2 = late.place
    WHERE early.n >= 8
    GROUP BY early.group_id, early.rank
),

sloped AS (
    SELECT
        differences.*,
        coalesce(slopes.slope, 0) AS slope,
        differences.d_ns - coalesce(slopes.slope, 0) * differences.x_ns AS left_ns
    FROM differences
    LEFT JOIN slopes ON differences.group_id = slopes.group_id AND differences.rank = slopes.rank
),

seen AS (
    SELECT
        group_id,
        rank,
        any_value(slope) AS slope,
        max(x_ns) - min(x_ns) AS span_ns,
        greatest(3, 4 * 1.4826 * sqrt(12 / count(*))) * greatest(mad(left_ns), any_value(rounded_ns)) AS visible_ns
    FROM sloped
    CROSS JOIN params
    GROUP BY group_id, rank
),

judged AS (
    SELECT
        seen.group_id,
        seen.rank,
        CASE
            WHEN abs(seen.slope) * seen.span_ns > seen.visible_ns AND crystal_drift * seen.span_ns > seen.visible_ns
                THEN seen.slope
            ELSE 0
        END AS kept_slope
    FROM seen
    CROSS JOIN params
),

fitted AS (
    SELECT
        differences.group_id,
        differences.rank,
        count(*) AS n_anchors,
        any_value(judged.kept_slope) AS slope,
        median(differences.d_ns - judged.kept_slope * differences.x_ns) AS shift_ns,
        mad(differences.d_ns - judged.kept_slope * differences.x_ns) AS residual_ns
    FROM differences
    JOIN judged ON differences.group_id = judged.group_id AND differences.rank = judged.rank
    GROUP BY differences.group_id, differences.rank
)

SELECT
    group_id,
    rank,
    n_anchors,
    slope,
    shift_ns,
    residual_ns
FROM fitted
CROSS JOIN params
WHERE residual_ns <= loose_end_ns
QUALIFY count(*) OVER (PARTITION BY group_id) > 1
