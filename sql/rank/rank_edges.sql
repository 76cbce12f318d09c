-- One row per edge of a rank's dependency graph, contracted to what ties it to others and to its own host.
--
-- scenario    INTEGER  Scenario.
-- rank        INTEGER  Rank.
-- source      BIGINT   Node it leads from; NULL where cost_ns is a time.
-- node        BIGINT   Node it leads to.
-- cost_ns     BIGINT   Time from one to the other; of an edge without a source the time itself, aligned.
-- activity_no BIGINT   The collective whose start the node is; else NULL.
-- step        BIGINT   The step whose completion the node is; else NULL.
-- work_ns     BIGINT   Of a collective's start: its own duration.
-- factor      DOUBLE   Of a collective's start: by what a change multiplies its transfer.
--
-- Scope: graph
-- Order: scenario, node, source, cost_ns
-- How: nodes are numbered by rank and by what they are: 0 the start of an activity, 1 the end of a collective, 2 the start
-- of a host segment, 3 the completion of a step. What lies between two nodes is a sum, or the maximum of two.
WITH places AS (
    SELECT
        step,
        dump_no,
        row_number() OVER (ORDER BY dump_no, step) AS place
    FROM _completions
),

ends AS (
    SELECT
        runs.scenario,
        runs.activity_no,
        (SELECT rank::BIGINT << 41 FROM context) + (CASE WHEN runs.is_exit THEN 1::BIGINT << 38 ELSE 0 END)
        + runs.node_no AS source,
        runs.run_ns AS cost_ns
    FROM _graph_runs AS runs
    UNION ALL
    SELECT
        runs.scenario,
        runs.activity_no,
        (SELECT rank::BIGINT << 41 FROM context) + (2::BIGINT << 38) + runs.segment_no AS source,
        runs.host_ns AS cost_ns
    FROM _graph_runs AS runs
    WHERE runs.host_ns IS NOT NULL
),

nodes AS (
    SELECT
        costs.scenario,
        (SELECT rank::BIGINT << 41 FROM context) + costs.activity_no AS node,
        costs.*
    EXCLUDE (scenario)
    FROM _graph_costs AS costs
    JOIN _graph_runs AS runs ON costs.scenario = runs.scenario AND costs.activity_no = runs.activity_no
    WHERE runs.is_node
),

launched AS (
    SELECT
        scenario,
        (SELECT rank::BIGINT << 41 FROM context) + (2::BIGINT << 38) + segment_no AS source,
        node,
        since_ns + launch_ns AS cost_ns
    FROM nodes
    WHERE launch_ns IS NOT NULL
),

followed AS (
    SELECT
        nodes.scenario,
        ends.source,
        nodes.node,
        ends.cost_ns + nodes.stream_ns AS cost_ns
    FROM nodes
    JOIN ends ON nodes.scenario = ends.scenario AND nodes.before_no = ends.activity_no
    WHERE NOT nodes.is_tied
    UNION ALL
    SELECT
        scenario,
        (SELECT rank::BIGINT << 41 FROM context) + before_no AS source,
        node,
        stream_ns AS cost_ns
    FROM nodes
    WHERE is_tied
),

waited AS (
    SELECT
        nodes.scenario,
        ends.source,
        nodes.node,
        ends.cost_ns + nodes.wait_ns AS cost_ns
    FROM nodes
    JOIN ends ON nodes.scenario = ends.scenario AND nodes.wait_no = ends.activity_no
    WHERE nodes.wait_ns IS NOT NULL
),

loose AS (
    SELECT
        nodes.scenario,
        NULL::BIGINT AS source,
        nodes.node,
        activities.start_ns AS cost_ns
    FROM nodes
    JOIN _graph_activities AS activities ON nodes.activity_no = activities.activity_no
    WHERE nodes.launch_ns IS NULL AND nodes.stream_ns IS NULL AND nodes.wait_ns IS NULL
),

segments AS (
    SELECT
        points.point_no,
        points.dump_no,
        points.segment_no,
        points.at_ns,
        points.released_no,
        points.release_lag_ns,
        lag(points.segment_no) OVER in_dump AS before_segment
    FROM _host_points AS points
    WHERE points.released_no IS NOT NULL OR points.before_ns IS NULL
    WINDOW in_dump AS (PARTITION BY points.dump_no ORDER BY points.point_no)
),

segment_ends AS (
    SELECT
        scenario,
        segment_no,
        max(since_ns) AS since_ns
    FROM _host_times
    GROUP BY scenario, segment_no
),

hosts AS (
    SELECT
        scenarios.scenario,
        NULL::BIGINT AS source,
        (SELECT rank::BIGINT << 41 FROM context) + (2::BIGINT << 38) + segments.segment_no AS node,
        segments.at_ns AS cost_ns
    FROM segments
    CROSS JOIN scenarios
    WHERE segments.before_segment IS NULL
    UNION ALL
    SELECT
        segment_ends.scenario,
        (SELECT rank::BIGINT << 41 FROM context) + (2::BIGINT << 38) + segments.before_segment AS source,
        (SELECT rank::BIGINT << 41 FROM context) + (2::BIGINT << 38) + segments.segment_no AS node,
        segment_ends.since_ns AS cost_ns
    FROM segments
    JOIN segment_ends ON segments.before_segment = segment_ends.segment_no
    UNION ALL
    SELECT
        ends.scenario,
        ends.source,
        (SELECT rank::BIGINT << 41 FROM context) + (2::BIGINT << 38) + segments.segment_no AS node,
        ends.cost_ns + segments.release_lag_ns AS cost_ns
    FROM segments
    JOIN ends ON segments.released_no = ends.activity_no
    WHERE segments.before_segment IS NOT NULL
),

lasts AS (
    SELECT
        dump_no,
        step,
        max_by(activity_no, (end_ns, activity_no)) AS activity_no
    FROM _graph_activities
    WHERE step IS NOT NULL
    GROUP BY dump_no, step, lane
),

completed AS (
    SELECT
        ends.scenario,
        ends.source,
        (SELECT rank::BIGINT << 41 FROM context) + (3::BIGINT << 38) + places.place AS node,
        ends.cost_ns,
        places.step
    FROM lasts
    JOIN places ON lasts.dump_no = places.dump_no AND lasts.step = places.step
    JOIN _host_steps AS steps ON lasts.dump_no = steps.dump_no AND lasts.step = steps.step
    JOIN ends ON lasts.activity_no = ends.activity_no
    WHERE steps.has_device
    UNION ALL
    SELECT
        times.scenario,
        (SELECT rank::BIGINT << 41 FROM context) + (2::BIGINT << 38) + times.segment_no AS source,
        (SELECT rank::BIGINT << 41 FROM context) + (3::BIGINT << 38) + places.place AS node,
        times.since_ns AS cost_ns,
        places.step
    FROM _host_points AS points
    JOIN _host_times AS times ON points.point_no = times.point_no
    JOIN places ON points.dump_no = places.dump_no AND points.completes = places.step
    UNION ALL
    SELECT
        scenarios.scenario,
        (SELECT rank::BIGINT << 41 FROM context) + (3::BIGINT << 38) + before.place AS source,
        (SELECT rank::BIGINT << 41 FROM context) + (3::BIGINT << 38) + places.place AS node,
        0 AS cost_ns,
        places.step
    FROM places
    JOIN places AS before ON places.place = before.place + 1
    JOIN _host_steps AS steps ON places.dump_no = steps.dump_no AND places.step = steps.step
    JOIN _host_steps AS steps_before
        ON before.dump_no = steps_before.dump_no
        AND before.step = steps_before.step
        AND steps.capture = steps_before.capture
    CROSS JOIN scenarios
    WHERE steps.has_device
    UNION ALL
    SELECT
        scenarios.scenario,
        NULL AS source,
        (SELECT rank::BIGINT << 41 FROM context) + (3::BIGINT << 38) + places.place AS node,
        aligned_ns(firsts.start_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS cost_ns,
        places.step
    FROM (
        SELECT
            dump_no,
            min(step) AS step,
            min_by(start_ns, step) AS start_ns
        FROM _windows
        WHERE has_device
        GROUP BY dump_no, capture
    ) AS firsts
    JOIN places ON firsts.dump_no = places.dump_no AND firsts.step = places.step
    CROSS JOIN scenarios
    CROSS JOIN context
    JOIN rank_clocks AS clocks ON context.rank = clocks.rank
),

edges AS (
    FROM launched
    UNION ALL
    FROM followed
    UNION ALL
    FROM waited
    UNION ALL
    FROM loose
    UNION ALL
    FROM hosts
)

SELECT
    edges.scenario,
    context.rank,
    edges.source,
    edges.node,
    edges.cost_ns,
    costs.activity_no,
    NULL::BIGINT AS step,
    costs.work_ns,
    coalesce(factors.factor, CASE WHEN costs.activity_no IS NOT NULL THEN 1 END) AS factor
FROM edges
CROSS JOIN context
LEFT JOIN (SELECT scenario, node, activity_no, work_ns FROM nodes WHERE is_comm) AS costs
    ON edges.scenario = costs.scenario AND edges.node = costs.node
LEFT JOIN _activity_classes AS classes ON costs.activity_no = classes.activity_no
LEFT JOIN _class_factors AS factors
    ON classes.class_no = factors.class_no AND edges.scenario = factors.scenario AND factors.kind = 'comm'
UNION ALL
SELECT
    completed.scenario,
    context.rank,
    completed.source,
    completed.node,
    completed.cost_ns,
    NULL AS activity_no,
    completed.step,
    NULL AS work_ns,
    NULL AS factor
FROM completed
CROSS JOIN context
