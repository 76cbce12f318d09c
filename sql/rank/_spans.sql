-- One row per stretch of time that is broken down: the window of a step, or the whole of a capture.
--
-- capture  BIGINT  Which contiguous recording of the rank.
-- step     BIGINT  Number of the step; NULL for the whole capture, first to last activity.
-- start_ns BIGINT  Start.
-- end_ns   BIGINT  End, not included.
--
-- Scope: rank
-- How: an activity belongs to the last capture of its dump whose first marker starts at or before its launch, else to
-- the dump's first one.
WITH captures AS (
    SELECT
        dump_no,
        capture,
        min(start_ns) AS start_ns
    FROM _host_steps
    GROUP BY dump_no, capture
),

bounds AS (
    SELECT
        dump_no,
        capture,
        CASE
            WHEN capture = min(capture) OVER (PARTITION BY dump_no) THEN NULL
            ELSE start_ns
        END AS from_ns,
        lead(start_ns) OVER (PARTITION BY dump_no ORDER BY capture) AS to_ns
    FROM captures
)

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
FROM bounds
JOIN _activities
    ON bounds.dump_no = _activities.dump_no
    AND (bounds.from_ns IS NULL OR coalesce(_activities.launch_ns, _activities.start_ns) >= bounds.from_ns)
    AND (bounds.to_ns IS NULL OR coalesce(_activities.launch_ns, _activities.start_ns) < bounds.to_ns)
GROUP BY bounds.capture
