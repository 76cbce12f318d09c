-- One row per step of a rank: the window in which the rank completed it.
--
-- dump_no    BIGINT   Which of the rank's dumps.
-- capture    BIGINT   Which contiguous recording of the rank.
-- step       BIGINT   Number of the step.
-- start_ns   BIGINT   Completion of the step before; for a capture's first step, when the device was done with what was
--     launched before it, and no earlier than its marker.
-- end_ns     BIGINT   Completion: the end of the last device activity the step launched, and no earlier than start_ns.
-- n_launched BIGINT   Device activities the step launched.
-- is_window  BOOLEAN  Whether the whole dump stands in for a step.
-- has_device BOOLEAN  Whether the dump holds device activities.
--
-- Scope: rank
-- How: an activity without its launch counts as launched before a capture's first step where it starts before the first
-- activity of its stream that was launched at or after that step's start; where its stream has none such, before the
-- first of any stream. Windows of a capture tile. Without a device a step's window is its marker.
WITH firsts AS (
    SELECT
        dump_no,
        capture,
        min(start_ns) AS host_start_ns
    FROM _host_steps
    WHERE has_device
    GROUP BY dump_no, capture
),

stream_first AS (
    SELECT
        firsts.capture,
        _activities.stream,
        min(_activities.start_ns) AS start_ns
    FROM firsts
    JOIN _activities
        ON firsts.dump_no = _activities.dump_no AND _activities.launch_ns >= firsts.host_start_ns
    GROUP BY firsts.capture, _activities.stream
),

any_first AS (
    SELECT
        capture,
        min(start_ns) AS start_ns
    FROM stream_first
    GROUP BY capture
),

before AS (
    SELECT
        firsts.capture,
        max(_activities.end_ns) AS end_ns
    FROM firsts
    JOIN _activities ON firsts.dump_no = _activities.dump_no
    LEFT JOIN stream_first
        ON firsts.capture = stream_first.capture AND _activities.stream IS NOT DISTINCT FROM stream_first.stream
    LEFT JOIN any_first ON firsts.capture = any_first.capture
    WHERE CASE
            WHEN _activities.is_linked THEN _activities.launch_ns < firsts.host_start_ns
            ELSE _activities.start_ns < coalesce(stream_first.start_ns, any_first.start_ns)
        END
    GROUP BY firsts.capture
),

launched AS (
    SELECT
        dump_no,
        step,
        max(end_ns) AS end_ns,
        count(*) AS n_launched
    FROM _activities
    WHERE step IS NOT NULL
    GROUP BY dump_no, step
),

completed AS (
    SELECT
        steps.*,
        coalesce(launched.n_launched, 0) AS n_launched,
        greatest(firsts.host_start_ns, coalesce(before.end_ns, firsts.host_start_ns)) AS capture_start_ns,
        max(coalesce(launched.end_ns, steps.end_ns)) OVER (
            PARTITION BY steps.capture ORDER BY steps.step ROWS UNBOUNDED PRECEDING
        ) AS done_ns
    FROM _host_steps AS steps
    LEFT JOIN launched ON steps.dump_no = launched.dump_no AND steps.step = launched.step
    LEFT JOIN firsts ON steps.capture = firsts.capture
    LEFT JOIN before ON steps.capture = before.capture
)

SELECT
    dump_no,
    capture,
    step,
    CASE
        WHEN has_device THEN
            greatest(
                capture_start_ns,
                coalesce(lag(done_ns) OVER (PARTITION BY capture ORDER BY step), capture_start_ns)
            )
        ELSE start_ns
    END AS start_ns,
    CASE WHEN has_device THEN greatest(capture_start_ns, done_ns) ELSE end_ns END AS end_ns,
    n_launched,
    is_window,
    has_device
FROM completed
