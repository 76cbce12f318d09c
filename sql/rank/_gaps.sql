-- One row per stretch between edges in which no lane of a rank is busy.
--
-- start_ns      BIGINT   Start of the stretch.
-- host_end_ns   BIGINT   Up to here the host had not launched the next activity.
-- end_ns        BIGINT   End of the stretch: the next activity's start, or an edge.
-- edge_no       BIGINT   The last edge at or before start_ns.
-- launch_thread BIGINT   Thread that launches the next activity.
-- device_cause  VARCHAR  What [host_end_ns, end_ns) is: launch, turnaround or other.
--
-- Scope: rank
-- How: a gap ends where an activity starts after all before it have ended. Its causes follow from the whole gap; then
-- it is cut at the edges inside it. What follows the last activity has no next one, so it is other.
WITH whole AS (
    SELECT
        coalesce(idle_from_ns, (SELECT min(edge_ns) FROM _edges)) AS start_ns,
        start_ns AS end_ns,
        launch_ns,
        launch_thread
    FROM _coverage
    WHERE start_ns > coalesce(idle_from_ns, (SELECT min(edge_ns) FROM _edges))
    UNION ALL
    SELECT
        coalesce((SELECT max(end_ns) FROM _coverage), (SELECT min(edge_ns) FROM _edges)) AS start_ns,
        (SELECT max(edge_ns) FROM _edges) AS end_ns,
        NULL AS launch_ns,
        NULL AS launch_thread
    FROM params
),

caused AS (
    SELECT
        start_ns,
        end_ns,
        launch_thread,
        CASE
            WHEN launch_ns IS NULL THEN start_ns
            ELSE least(greatest(launch_ns, start_ns), end_ns)
        END AS host_end_ns,
        CASE
            WHEN launch_ns IS NULL THEN 'other'
            WHEN launch_ns < start_ns AND end_ns - start_ns <= turnaround_ns THEN 'turnaround'
            ELSE 'launch'
        END AS device_cause
    FROM whole
    CROSS JOIN params
    WHERE start_ns < end_ns
),

first_edge AS (
    SELECT
        caused.*,
        _edges.edge_no AS first_edge_no
    FROM caused
    ASOF JOIN _edges ON caused.start_ns >= _edges.edge_ns
),

next_edge AS (
    SELECT
        edge_no AS this_edge_no,
        edge_ns AS this_edge_ns,
        lead(edge_ns) OVER (ORDER BY edge_no) AS next_edge_ns
    FROM _edges
),

uncut AS (
    SELECT
        first_edge.*,
        next_edge.next_edge_ns
    FROM first_edge
    JOIN next_edge ON first_edge.first_edge_no = next_edge.this_edge_no
),

pieces AS (
    SELECT
        start_ns,
        end_ns,
        host_end_ns,
        first_edge_no AS edge_no,
        launch_thread,
        device_cause
    FROM uncut
    WHERE next_edge_ns IS NULL OR end_ns <= next_edge_ns
    UNION ALL
    SELECT
        greatest(uncut.start_ns, next_edge.this_edge_ns) AS start_ns,
        least(uncut.end_ns, coalesce(next_edge.next_edge_ns, uncut.end_ns)) AS end_ns,
        uncut.host_end_ns,
        next_edge.this_edge_no AS edge_no,
        uncut.launch_thread,
        uncut.device_cause
    FROM uncut
    JOIN next_edge
        ON next_edge.this_edge_no >= uncut.first_edge_no AND next_edge.this_edge_ns < uncut.end_ns
    WHERE uncut.end_ns > uncut.next_edge_ns
)

SELECT
    start_ns,
    least(greatest(host_end_ns, start_ns), end_ns) AS host_end_ns,
    end_ns,
    edge_no,
    launch_thread,
    device_cause
FROM pieces
