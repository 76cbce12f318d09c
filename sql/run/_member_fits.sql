-- One row per group, member: how its clock runs against that of the group's lowest recorded rank.
--
-- group_id    VARCHAR  Process group.
-- rank        INTEGER  Member.
-- n_anchors   BIGINT   Collectives they have in common.
-- slope       DOUBLE   Drift against the lowest rank's clock; 0 where it does not show.
-- shift_ns    DOUBLE   Offset at the reference: own end = theirs + shift + slope * own end.
-- residual_ns DOUBLE   Median absolute deviation from that.
-- first_x_ns  DOUBLE   First anchor's end.
-- last_x_ns   DOUBLE   Last anchor's end.
--
-- Scope: clock
-- How: the slope is the median over pairs of anchors weighed by how far apart they are (Theil and Sen's estimator; over
-- pairs half the anchors apart where there are more than 64), the shift the median of what is left: a few late leavers move
-- neither. A slope counts where over the anchors' span it exceeds four of its own standard errors, and three residuals, more
-- where few anchors bear it (their number is count / kurtosis): those may be the late leavers. And it counts only where a
-- crystal's drift would. A member whose ends
-- are loose is left out, and so is what is left of a group when none but its lowest rank is.
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

pairs AS (
    SELECT
        early.group_id,
        early.rank,
        late.d_ns - early.d_ns AS rise_ns,
        late.x_ns - early.x_ns AS run_ns
    FROM differences AS early
    JOIN differences AS late
        ON early.group_id = late.group_id AND early.rank = late.rank AND early.place + early.n // 2 = late.place
    WHERE early.n > 64
    UNION ALL
    SELECT
        early.group_id,
        early.rank,
        late.d_ns - early.d_ns AS rise_ns,
        late.x_ns - early.x_ns AS run_ns
    FROM differences AS early
    JOIN differences AS late
        ON early.group_id = late.group_id AND early.rank = late.rank AND early.place < late.place
    WHERE early.n BETWEEN 4 AND 64
),

weighed AS (
    SELECT
        *,
        rise_ns / run_ns AS slope,
        sum(run_ns) OVER (
            PARTITION BY group_id, rank ORDER BY rise_ns / run_ns, run_ns ROWS UNBOUNDED PRECEDING
        ) AS run_to_ns,
        sum(run_ns) OVER (PARTITION BY group_id, rank) AS run_of_all_ns
    FROM pairs
    WHERE run_ns > 0
),

slopes AS (
    SELECT
        group_id,
        rank,
        min(slope) AS slope
    FROM weighed
    WHERE 2 * run_to_ns >= run_of_all_ns
    GROUP BY group_id, rank
),

seen AS (
    SELECT
        differences.group_id,
        differences.rank,
        any_value(slopes.slope) AS slope,
        max(differences.x_ns) - min(differences.x_ns) AS span_ns,
        visible_rise_ns(differences.x_ns, differences.d_ns - slopes.slope * differences.x_ns, rounded_ns) AS visible_ns
    FROM differences
    JOIN slopes ON differences.group_id = slopes.group_id AND differences.rank = slopes.rank
    CROSS JOIN params
    GROUP BY differences.group_id, differences.rank
),

judged AS (
    SELECT
        group_id AS of_group,
        rank AS of_rank,
        CASE
            WHEN abs(slope) * span_ns > visible_ns AND crystal_drift * span_ns > visible_ns THEN slope
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
        coalesce(any_value(judged.kept_slope), 0) AS slope,
        median(differences.d_ns - coalesce(judged.kept_slope, 0) * differences.x_ns) AS shift_ns,
        mad(differences.d_ns - coalesce(judged.kept_slope, 0) * differences.x_ns) AS residual_ns,
        min(differences.x_ns) AS first_x_ns,
        max(differences.x_ns) AS last_x_ns
    FROM differences
    LEFT JOIN judged ON differences.group_id = judged.of_group AND differences.rank = judged.of_rank
    GROUP BY differences.group_id, differences.rank
)

SELECT
    group_id,
    rank,
    n_anchors,
    slope,
    shift_ns,
    residual_ns,
    first_x_ns,
    last_x_ns
FROM fitted
CROSS JOIN params
WHERE residual_ns <= loose_end_ns
QUALIFY count(*) OVER (PARTITION BY group_id) > 1
