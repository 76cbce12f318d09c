-- One row per scenario, host point: when it comes, counted from the start of its segment.
--
-- scenario   INTEGER  Scenario.
-- point_no   BIGINT   As in _host_points.
-- dump_no    BIGINT   Which of the rank's dumps.
-- own_ns     BIGINT   The point on the rank's own clock.
-- launches   BOOLEAN  Whether an activity was launched at it.
-- segment_no BIGINT   As in _host_points.
-- since_ns   BIGINT   Host time since the segment's start.
--
-- Scope: graph
-- How: with a rank at the median, what led to a launch takes no longer than what leads to the same launch on the median
-- rank: the n-th of that kernel in the step.
WITH fixed AS (
    SELECT
        changes.scenario,
        medians.point_no,
        min(medians.host_ns) AS host_ns
    FROM changes
    JOIN context ON changes.rank IS NULL OR changes.rank = context.rank
    CROSS JOIN _median_points AS medians
    WHERE changes.what = 'fix' AND (changes.kind IS NULL OR changes.kind = 'host')
    GROUP BY changes.scenario, medians.point_no
),

lengths AS (
    SELECT
        scenarios.scenario,
        points.point_no,
        points.dump_no,
        points.own_ns,
        points.launches,
        points.segment_no,
        points.released_no IS NOT NULL OR points.before_ns IS NULL AS is_start,
        greatest(
            CASE
                WHEN fixed.host_ns < points.length_ns - coalesce(savings.saved_ns, 0) THEN fixed.host_ns
                ELSE points.length_ns - coalesce(savings.saved_ns, 0)
            END,
            0
        ) AS length_ns
    FROM _host_points AS points
    CROSS JOIN scenarios
    LEFT JOIN _host_savings AS savings
        ON points.point_no = savings.point_no AND scenarios.scenario = savings.scenario
    LEFT JOIN fixed ON points.point_no = fixed.point_no AND scenarios.scenario = fixed.scenario
)

SELECT
    scenario,
    point_no,
    dump_no,
    own_ns,
    launches,
    segment_no,
    sum(CASE WHEN is_start THEN 0 ELSE length_ns END) OVER (
        PARTITION BY scenario, segment_no ORDER BY point_no ROWS UNBOUNDED PRECEDING
    )::BIGINT AS since_ns
FROM lengths
