-- One row per time between two host points, where a change speaks of host time by kind, name or phase.
--
-- point_no BIGINT  The point it leads to.
-- dump_no  BIGINT  Which of the rank's dumps.
-- thread   BIGINT  Thread whose time it is: of a point without one, and without a device, the step markers'.
-- start_ns BIGINT  Start, on the rank's own clock.
-- end_ns   BIGINT  End.
--
-- Scope: graph
SELECT
    points.point_no,
    points.dump_no,
    CASE WHEN markers.has_device THEN coalesce(points.thread, markers.thread) ELSE markers.thread END AS thread,
    points.before_ns AS start_ns,
    points.own_ns AS end_ns
FROM _host_points AS points
JOIN _marker_threads AS markers ON points.dump_no = markers.dump_no
WHERE points.length_ns > 0
    AND EXISTS (
        FROM changes
        JOIN context ON changes.rank IS NULL OR changes.rank = context.rank
        WHERE changes.what = 'scale' AND coalesce(changes.kind IN ('host', 'input', 'sync', 'compute'), TRUE)
    )
