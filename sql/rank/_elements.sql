-- One row per activity that a step launched, as rank_elements, with what it is on this rank.
--
-- activity_no BIGINT   The activity.
-- point_no    BIGINT   The host point of its launch; NULL where another was launched there before it.
-- step        BIGINT   Step that launched it.
-- name        VARCHAR  Its name.
-- place       BIGINT   Place among those of its name in the step, in order of launch, from 0.
-- device_ns   BIGINT   Its duration; NULL of a collective.
-- host_ns     BIGINT   Host time before its launch.
--
-- Scope: graph
WITH placed AS (
    SELECT
        activities.activity_no,
        activities.dump_no,
        activities.host_ns AS own_ns,
        activities.step,
        named.name,
        activities.precedence,
        activities.end_ns - activities.start_ns AS duration_ns,
        row_number() OVER (
            PARTITION BY activities.step, named.name ORDER BY activities.host_ns, activities.activity_no
        ) - 1 AS place,
        row_number() OVER (PARTITION BY activities.dump_no, activities.host_ns ORDER BY activities.activity_no) AS nth
    FROM _graph_activities AS activities
    JOIN _activity_names AS named ON activities.activity_no = named.activity_no
    WHERE activities.step IS NOT NULL AND activities.host_ns IS NOT NULL
)

SELECT
    placed.activity_no,
    points.point_no,
    placed.step,
    placed.name,
    placed.place,
    CASE WHEN placed.precedence <> 1 THEN placed.duration_ns END AS device_ns,
    points.length_ns AS host_ns
FROM placed
LEFT JOIN _host_points AS points
    ON placed.nth = 1
    AND points.launches
    AND placed.dump_no = points.dump_no
    AND placed.own_ns = points.own_ns
