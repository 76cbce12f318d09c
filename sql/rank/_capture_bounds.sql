-- One row per capture of a rank: what belongs to it.
--
-- dump_no    BIGINT   Which of the rank's dumps.
-- capture    BIGINT   Which contiguous recording of the rank.
-- from_ns    BIGINT   Its activities are launched at or after this; NULL for a dump's first capture: no bound.
-- to_ns      BIGINT   Its activities are launched before this; NULL for a dump's last capture: no bound.
-- first_step BIGINT   First step.
-- last_step  BIGINT   Last step.
-- n_steps    BIGINT   Steps.
-- is_window  BOOLEAN  Whether the whole dump stands in for a step.
-- has_device BOOLEAN  Whether the dump holds device activities.
--
-- Scope: rank
-- How: an activity belongs to the last capture of its dump whose first marker starts at or before its launch, else to
-- the dump's first one.
WITH captures AS (
    SELECT
        dump_no,
        capture,
        min(start_ns) AS start_ns,
        min(step) AS first_step,
        max(step) AS last_step,
        count(*) AS n_steps,
        bool_or(is_window) AS is_window,
        bool_and(has_device) AS has_device
    FROM _host_steps
    GROUP BY dump_no, capture
)

SELECT
    dump_no,
    capture,
    CASE WHEN capture > min(capture) OVER (PARTITION BY dump_no) THEN start_ns END AS from_ns,
    lead(start_ns) OVER (PARTITION BY dump_no ORDER BY capture) AS to_ns,
    first_step,
    last_step,
    n_steps,
    is_window,
    has_device
FROM captures
