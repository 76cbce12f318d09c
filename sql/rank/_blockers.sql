-- One row per activity of a device, and per collective of a rank without one: what its start waited for.
--
-- activity_no      BIGINT   The activity.
-- dump_no          BIGINT   Which of the rank's dumps.
-- step             BIGINT   Step that launched it.
-- precedence       TINYINT  0 compute, 1 comm, 2 copy.
-- lane             BIGINT   Stream; without a device the thread.
-- start_ns         BIGINT   Start; on the host no earlier than the end of the collective before it on its thread.
-- end_ns           BIGINT   End, not included.
-- launch_ns        BIGINT   Start of its launch; NULL where the dump lacks it.
-- launch_end_ns    BIGINT   End of its launch.
-- launch_thread    BIGINT   Thread of its launch.
-- is_head          BOOLEAN  Whether it heads a run: it or the one before it on its lane is comm, or something other than that
--     one let it go last.
-- wait_no          BIGINT   Activity of another stream that it waited for, recorded or inferred.
-- blocker          VARCHAR  What it was ready last by: wait, stream or launch; NULL where nothing is known.
-- ready_ns         BIGINT   When that let it go, no later than its start.
-- source_no        BIGINT   The activity that did; NULL for a launch.
--
-- Scope: rank
-- How: the blocker is the latest of the wait it obeys, the activity before it on its stream and its launch call's start;
-- of equals the first of these. Taking the call's end instead would let one blocking copy hide what the device did. A wait
-- is inferred where a stream was free for longer than the device's own pace (5 µs) and work of another stream ended within
-- that of its start; or within 20 µs, where the stream had been free for ten times as long as that.
WITH lanes AS (
    SELECT
        *,
        CASE WHEN is_device THEN stream ELSE launch_thread END AS lane
    FROM _activities
    WHERE is_device OR precedence = 1
),

ordered AS (
    SELECT
        lanes.*,
        lag(activity_no) OVER in_order AS before_no,
        lag(end_ns) OVER in_order AS before_end_ns,
        lag(precedence) OVER in_order AS before_precedence,
        max(end_ns) OVER (
            PARTITION BY dump_no, is_device, lane ORDER BY activity_no ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_end_ns
    FROM lanes
    WINDOW in_order AS (PARTITION BY dump_no, is_device, lane ORDER BY activity_no)
),

free AS (
    SELECT
        ordered.activity_no,
        ordered.dump_no,
        ordered.start_ns,
        ordered.start_ns - ordered.busy_end_ns AS free_ns
    FROM ordered
    ANTI JOIN _recorded_waits ON ordered.activity_no = _recorded_waits.activity_no
    CROSS JOIN params
    WHERE ordered.is_device AND coalesce(ordered.start_ns - ordered.busy_end_ns > turnaround_ns, TRUE)
),

ends AS (
    SELECT
        dump_no AS end_dump,
        end_ns,
        max(activity_no) AS source_no
    FROM lanes
    WHERE is_device AND (SELECT count(*) > 0 FROM free)
    GROUP BY dump_no, end_ns
),

inferred AS (
    SELECT
        free.activity_no,
        ends.source_no,
        ends.end_ns AS source_end_ns
    FROM free
    ASOF JOIN ends ON free.dump_no = ends.end_dump AND free.start_ns >= ends.end_ns
    CROSS JOIN params
    WHERE ends.source_no < free.activity_no
        AND (
            free.start_ns - ends.end_ns <= turnaround_ns
            OR (free.start_ns - ends.end_ns <= event_wait_ns AND 10 * (free.start_ns - ends.end_ns) <= free.free_ns)
        )
),

waits AS (
    FROM _recorded_waits
    UNION ALL BY NAME
    FROM inferred
),

known AS (
    SELECT
        ordered.* REPLACE (
            CASE
                WHEN ordered.is_device THEN ordered.start_ns
                ELSE greatest(ordered.start_ns, coalesce(ordered.before_end_ns, ordered.start_ns))
            END AS start_ns
        ),
        waits.source_no AS wait_no,
        waits.source_end_ns AS wait_end_ns
    FROM ordered
    LEFT JOIN waits ON ordered.activity_no = waits.activity_no
),

ready AS (
    SELECT
        *,
        CASE WHEN wait_end_ns < start_ns THEN wait_end_ns WHEN wait_no IS NOT NULL THEN start_ns END AS wait_ready_ns,
        CASE WHEN before_end_ns < start_ns THEN before_end_ns WHEN before_no IS NOT NULL THEN start_ns END AS stream_ready_ns,
        CASE WHEN launch_ns < start_ns THEN launch_ns WHEN launch_ns IS NOT NULL THEN start_ns END AS launch_ready_ns
    FROM known
),

judged AS (
    SELECT
        *,
        greatest(wait_ready_ns, stream_ready_ns, launch_ready_ns) AS ready_ns
    FROM ready
)

SELECT
    activity_no,
    dump_no,
    step,
    precedence,
    lane,
    start_ns,
    end_ns,
    launch_ns,
    launch_end_ns,
    launch_thread,
    precedence = 1
    OR coalesce(before_precedence = 1, FALSE)
    OR ready_ns IS NULL
    OR ready_ns IS DISTINCT FROM stream_ready_ns
    OR coalesce(ready_ns = wait_ready_ns, FALSE) AS is_head,
    wait_no,
    CASE ready_ns WHEN wait_ready_ns THEN 'wait' WHEN stream_ready_ns THEN 'stream' WHEN launch_ready_ns THEN 'launch' END AS blocker,
    ready_ns,
    CASE ready_ns WHEN wait_ready_ns THEN wait_no WHEN stream_ready_ns THEN before_no END AS source_no
FROM judged
