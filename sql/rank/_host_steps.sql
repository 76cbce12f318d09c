-- One row per step of a rank: its range on the host and the contiguous capture it belongs to.
--
-- dump_no    BIGINT   Which of the rank's dumps, in order of time, from 0.
-- capture    BIGINT   Which contiguous recording of the rank, in order of time, from 0.
-- step       BIGINT   Number of the step.
-- start_ns   BIGINT   Start of the step's marker on the host.
-- end_ns     BIGINT   End of the step's marker on the host.
-- is_window  BOOLEAN  Whether the whole dump stands in for a step, for want of a marker.
-- has_device BOOLEAN  Whether the dump holds device activities; without them the host's threads are the lanes.
--
-- Scope: rank
-- How: a capture ends with its dump, and where step numbers stop following each other.
WITH markers AS (
    SELECT
        dump_no,
        step,
        min(start_ns) AS start_ns,
        max(start_ns + duration_ns) AS end_ns,
        bool_or(name = '(window)') AS is_window
    FROM events
    WHERE category = 'step' AND duration_ns IS NOT NULL AND step IS NOT NULL
    GROUP BY dump_no, step
),

device_dumps AS (
    SELECT DISTINCT dump_no
    FROM events
    WHERE kind IS NOT NULL AND category IN ('kernel', 'memcpy', 'memset')
),

breaks AS (
    SELECT
        *,
        coalesce(
            step <> 1 + lag(step) OVER (PARTITION BY dump_no ORDER BY start_ns, step),
            TRUE
        ) AS is_first
    FROM markers
)

SELECT
    breaks.dump_no,
    sum(CASE WHEN breaks.is_first THEN 1 ELSE 0 END) OVER (
        ORDER BY breaks.dump_no, breaks.start_ns, breaks.step ROWS UNBOUNDED PRECEDING
    )::BIGINT - 1 AS capture,
    breaks.step,
    breaks.start_ns,
    breaks.end_ns,
    breaks.is_window,
    device_dumps.dump_no IS NOT NULL AS has_device
FROM breaks
LEFT JOIN device_dumps ON breaks.dump_no = device_dumps.dump_no
