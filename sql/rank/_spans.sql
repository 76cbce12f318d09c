-- One row per stretch of time that is broken down: the window of a step, or the whole of a capture.
--
-- capture  BIGINT  Which contiguous recording of the rank.
-- step     BIGINT  Number of the step; NULL for the whole capture, first to last activity.
-- start_ns BIGINT  Start.
-- end_ns   BIGINT  End, not included.
--
-- Scope: rank
SELECT
    capture,
    step,
    start_ns,
    end_ns
FROM _windows
UNION ALL
SELECT
    bounds.capture,
    NULL AS step,
    min(_activities.start_ns) AS start_ns,
    max(_activities.end_ns) AS end_ns
FROM _capture_bounds AS bounds
JOIN _activities
    ON bounds.dump_no = _activities.dump_no
    AND (bounds.from_ns IS NULL OR coalesce(_activities.launch_ns, _activities.start_ns) >= bounds.from_ns)
    AND (bounds.to_ns IS NULL OR coalesce(_activities.launch_ns, _activities.start_ns) < bounds.to_ns)
GROUP BY bounds.capture
