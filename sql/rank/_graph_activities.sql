-- One row per activity of a lane, with its times on the run's clock and what it could have waited for.
--
-- activity_no   BIGINT   The activity.
-- dump_no       BIGINT   Which of the rank's dumps.
-- step          BIGINT   Step that launched it.
-- precedence    TINYINT  0 compute, 1 comm, 2 copy.
-- lane          BIGINT   Stream; without a device the thread.
-- start_ns      BIGINT   Start, aligned.
-- end_ns        BIGINT   End, aligned.
-- host_ns       BIGINT   Start of its launch on the rank's own clock: the host point it hangs on; NULL without a launch.
-- before_no     BIGINT   Activity before it on its lane.
-- is_behind     BOOLEAN  Whether that one had ended when it started; else it is tied to that one's start.
-- before_is_comm BOOLEAN Whether that one is a collective.
-- wait_no       BIGINT   Activity of another stream that it waited for.
-- launch_lag_ns BIGINT   From its launch to its start, no longer than usual where something else held it.
-- usual_launch_ns BIGINT  What is usual on this rank from a launch to the start it held up: the median,
--     20 µs at most.
-- stream_lag_ns BIGINT   From the end, or where is_behind is false the start, of the one before, likewise.
-- wait_lag_ns   BIGINT   From the end of the one it waited for, likewise.
-- stream_kind   VARCHAR  What the path calls that lag: turnaround, launch or unknown.
-- wait_kind     VARCHAR  turnaround or unknown.
--
-- Scope: graph
-- How: what held an activity keeps its measured lag, so that nothing changed changes nothing. What did not hold it would
-- have let it go after the lag that is usual on this rank, no longer than 20 µs, or sooner where it was seen to.
WITH clock AS (
    SELECT
        clocks.offset_ns,
        clocks.drift_ppb,
        clocks.reference_ns
    FROM rank_clocks AS clocks
    JOIN context ON clocks.rank = context.rank
),

aligned AS (
    SELECT
        blockers.activity_no,
        blockers.dump_no,
        blockers.step,
        blockers.precedence,
        blockers.lane,
        aligned_ns(blockers.start_ns, clock.offset_ns, clock.drift_ppb, clock.reference_ns) AS start_ns,
        aligned_ns(blockers.end_ns, clock.offset_ns, clock.drift_ppb, clock.reference_ns) AS end_ns,
        aligned_ns(blockers.launch_ns, clock.offset_ns, clock.drift_ppb, clock.reference_ns) AS launch_ns,
        blockers.launch_ns AS host_ns,
        blockers.wait_no,
        blockers.blocker,
        blockers.blocker = 'stream' AND blockers.launch_end_ns > blockers.ready_ns AS is_launching
    FROM _blockers AS blockers
    CROSS JOIN clock
),

ordered AS (
    SELECT
        *,
        lag(activity_no) OVER in_order AS before_no,
        lag(start_ns) OVER in_order AS before_start_ns,
        lag(end_ns) OVER in_order AS before_end_ns,
        lag(precedence) OVER in_order AS before_precedence
    FROM aligned
    WINDOW in_order AS (PARTITION BY dump_no, lane ORDER BY activity_no)
),

measured AS (
    SELECT
        ordered.*,
        coalesce(ordered.before_end_ns <= ordered.start_ns, TRUE) AS is_behind,
        ordered.start_ns - ordered.launch_ns AS launch_lag_ns,
        ordered.start_ns
        - CASE WHEN ordered.before_end_ns <= ordered.start_ns THEN ordered.before_end_ns ELSE ordered.before_start_ns END
            AS stream_lag_ns,
        ordered.start_ns - sources.end_ns AS wait_lag_ns
    FROM ordered
    LEFT JOIN aligned AS sources ON ordered.wait_no = sources.activity_no
),

usual AS (
    SELECT
        least(
            coalesce(quantile_disc(launch_lag_ns, 0.5) FILTER (blocker = 'launch'), 0), any_value(params.event_wait_ns)
        ) AS usual_launch_ns,
        least(
            coalesce(quantile_disc(stream_lag_ns, 0.5) FILTER (blocker = 'stream' AND is_behind), 0),
            any_value(params.event_wait_ns)
        ) AS usual_stream_ns,
        least(
            coalesce(quantile_disc(wait_lag_ns, 0.5) FILTER (blocker = 'wait'), 0), any_value(params.event_wait_ns)
        ) AS usual_wait_ns
    FROM measured
    CROSS JOIN params
)

SELECT
    measured.activity_no,
    measured.dump_no,
    measured.step,
    measured.precedence,
    measured.lane,
    measured.start_ns,
    measured.end_ns,
    measured.host_ns,
    measured.before_no,
    measured.is_behind,
    coalesce(measured.before_precedence = 1, FALSE) AS before_is_comm,
    measured.wait_no,
    CASE
        WHEN measured.blocker = 'launch' THEN measured.launch_lag_ns
        WHEN measured.launch_lag_ns < usual.usual_launch_ns THEN measured.launch_lag_ns
        WHEN measured.launch_lag_ns IS NOT NULL THEN usual.usual_launch_ns
    END AS launch_lag_ns,
    usual.usual_launch_ns,
    CASE
        WHEN measured.blocker = 'stream' OR NOT measured.is_behind THEN measured.stream_lag_ns
        WHEN measured.stream_lag_ns < usual.usual_stream_ns THEN measured.stream_lag_ns
        WHEN measured.stream_lag_ns IS NOT NULL THEN usual.usual_stream_ns
    END AS stream_lag_ns,
    CASE
        WHEN measured.blocker = 'wait' THEN measured.wait_lag_ns
        WHEN measured.wait_lag_ns < usual.usual_wait_ns THEN measured.wait_lag_ns
        WHEN measured.wait_lag_ns IS NOT NULL THEN usual.usual_wait_ns
    END AS wait_lag_ns,
    CASE
        WHEN measured.blocker IS DISTINCT FROM 'stream' OR measured.stream_lag_ns <= params.turnaround_ns THEN 'turnaround'
        WHEN measured.is_launching THEN 'launch'
        ELSE 'unknown'
    END AS stream_kind,
    CASE WHEN measured.wait_lag_ns <= params.event_wait_ns THEN 'turnaround' ELSE 'unknown' END AS wait_kind
FROM measured
CROSS JOIN usual
CROSS JOIN params
