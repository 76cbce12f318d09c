-- One row per instant of a rank's host to which something is tied: a launch, a wait for the device, a step's end.
--
-- dump_no     BIGINT   Which of the rank's dumps.
-- point_no    BIGINT   Place in order of time, over all dumps.
-- own_ns      BIGINT   The instant on the rank's own clock.
-- at_ns       BIGINT   The instant, aligned.
-- thread      BIGINT   Thread whose time leads to it.
-- before_ns   BIGINT   The point before it in the dump, on the rank's own clock; NULL for the first.
-- length_ns   BIGINT   Time since the point before, aligned; NULL for the first, and where the host waited for the device.
-- segment_no  BIGINT   Stretches between waits for the device, in order, over all dumps; its first point starts it.
-- released_no BIGINT   The activity whose end let the host go on; NULL where it had not waited.
-- release_lag_ns BIGINT From that end to the point.
-- launches    BOOLEAN  Whether an activity was launched at it.
-- completes   BIGINT   The step whose marker ends at it, where that launched no device work; else NULL.
--
-- Scope: graph
-- How: without a device a capture's first marker starts the host's time: nothing else in its first step may be tied to it.
WITH clock AS (
    SELECT
        clocks.offset_ns,
        clocks.drift_ppb,
        clocks.reference_ns
    FROM rank_clocks AS clocks
    JOIN context ON clocks.rank = context.rank
),

instants AS (
    SELECT
        dump_no,
        launch_ns AS own_ns,
        2 AS place,
        min(launch_thread) AS thread,
        NULL::BIGINT AS released_no,
        NULL::BIGINT AS released_ns,
        NULL::BIGINT AS completes
    FROM _blockers
    WHERE launch_ns IS NOT NULL
    GROUP BY dump_no, launch_ns
    UNION ALL
    SELECT
        dump_no,
        release_ns AS own_ns,
        0 AS place,
        thread,
        activity_no AS released_no,
        released_ns,
        NULL AS completes
    FROM _releases
    UNION ALL
    SELECT
        dump_no,
        blocked_ns AS own_ns,
        1 AS place,
        min(thread) AS thread,
        NULL AS released_no,
        NULL AS released_ns,
        NULL AS completes
    FROM _releases
    WHERE blocked_ns < release_ns
    GROUP BY dump_no, blocked_ns
    UNION ALL
    SELECT
        steps.dump_no,
        steps.end_ns AS own_ns,
        3 AS place,
        NULL AS thread,
        NULL AS released_no,
        NULL AS released_ns,
        steps.step AS completes
    FROM _host_steps AS steps
    JOIN _windows AS windows ON steps.dump_no = windows.dump_no AND steps.step = windows.step
    WHERE NOT steps.has_device OR windows.n_launched = 0
    UNION ALL
    SELECT
        dump_no,
        min(start_ns) AS own_ns,
        -1 AS place,
        NULL AS thread,
        NULL AS released_no,
        NULL AS released_ns,
        NULL AS completes
    FROM _windows
    WHERE NOT has_device
    GROUP BY dump_no, capture
),

aligned AS (
    SELECT
        instants.*,
        aligned_ns(instants.own_ns, clock.offset_ns, clock.drift_ppb, clock.reference_ns) AS at_ns,
        aligned_ns(instants.released_ns, clock.offset_ns, clock.drift_ppb, clock.reference_ns) AS released_at_ns
    FROM instants
    CROSS JOIN clock
),

ordered AS (
    SELECT
        *,
        row_number() OVER (ORDER BY dump_no, own_ns, place, completes) AS point_no,
        lag(own_ns) OVER in_order AS before_ns,
        lag(at_ns) OVER in_order AS before_at_ns
    FROM aligned
    WINDOW in_order AS (PARTITION BY dump_no ORDER BY own_ns, place, completes)
)

SELECT
    dump_no,
    point_no,
    own_ns,
    at_ns,
    thread,
    before_ns,
    CASE WHEN released_no IS NULL THEN at_ns - before_at_ns END AS length_ns,
    sum(CASE WHEN released_no IS NOT NULL OR before_ns IS NULL THEN 1 ELSE 0 END)
        OVER (ORDER BY point_no ROWS UNBOUNDED PRECEDING)::BIGINT AS segment_no,
    released_no,
    at_ns - released_at_ns AS release_lag_ns,
    place = 2 AS launches,
    completes
FROM ordered
