-- One row per dump with steps: the thread that its step markers are on.
--
-- dump_no    BIGINT   Which of the rank's dumps.
-- thread     BIGINT   Thread of the longest marker; NULL where none says one.
-- has_device BOOLEAN  Whether the dump holds device activities.
--
-- Scope: rank
WITH markers AS (
    SELECT
        dump_no,
        max_by(thread, duration_ns) AS thread
    FROM events
    WHERE category = 'step' AND thread IS NOT NULL
    GROUP BY dump_no
)

SELECT
    steps.dump_no,
    any_value(markers.thread) AS thread,
    bool_or(steps.has_device) AS has_device
FROM _host_steps AS steps
LEFT JOIN markers ON steps.dump_no = markers.dump_no
GROUP BY steps.dump_no
