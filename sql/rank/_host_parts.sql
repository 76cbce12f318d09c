-- One row per part of a stretch of host time in which one event is innermost.
--
-- step      BIGINT   As in _host_stretches.
-- piece_no  BIGINT   As in _host_stretches.
-- start_ns  BIGINT   Start, on the rank's clock.
-- end_ns    BIGINT   End.
-- thread    BIGINT   Thread whose time it is: the launching one, or where it runs nothing and another runs an operator, that.
-- kind      VARCHAR  input, sync, compute (on a rank without a device) or host.
-- event_no  BIGINT   Innermost event; NULL where there is none.
--
-- Scope: path
WITH stretches AS (
    SELECT
        row_number() OVER (ORDER BY dump_no, start_ns, end_ns) AS stretch_no,
        *
    FROM _host_stretches
),

threads AS (
    SELECT
        dump_no,
        launch_thread AS thread
    FROM _activities
    WHERE launch_thread IS NOT NULL
    UNION
    SELECT
        dump_no,
        thread
    FROM stretches
),

profile AS (
    SELECT
        profile.dump_no AS profile_dump,
        profile.thread AS profile_thread,
        profile.start_ns AS profile_ns,
        profile.event_no,
        profile.is_busy,
        profile.is_operator,
        profile.is_compute,
        profile.is_input,
        profile.is_blocking
    FROM _host_profile AS profile
    JOIN threads ON profile.dump_no = threads.dump_no AND profile.thread = threads.thread
),

points AS (
    SELECT DISTINCT
        profile_dump,
        profile_ns
    FROM profile
),

cuts AS (
    SELECT
        stretches.stretch_no,
        points.profile_ns AS at_ns
    FROM points
    ASOF JOIN stretches ON points.profile_dump = stretches.dump_no AND points.profile_ns > stretches.start_ns
    WHERE points.profile_ns < stretches.end_ns
    UNION ALL
    SELECT
        stretch_no,
        start_ns AS at_ns
    FROM stretches
),

parts AS (
    SELECT
        stretches.stretch_no,
        stretches.step,
        stretches.piece_no,
        stretches.dump_no,
        stretches.thread,
        cuts.at_ns,
        coalesce(lead(cuts.at_ns) OVER (PARTITION BY cuts.stretch_no ORDER BY cuts.at_ns), stretches.end_ns) AS end_ns
    FROM cuts
    JOIN stretches ON cuts.stretch_no = stretches.stretch_no
),

own AS (
    SELECT
        parts.*,
        profile.event_no,
        coalesce(profile.is_busy, FALSE) AS is_busy,
        coalesce(profile.is_compute, FALSE) AS is_compute,
        coalesce(profile.is_input, FALSE) AS is_input,
        coalesce(profile.is_blocking, FALSE) AS is_blocking
    FROM parts
    ASOF LEFT JOIN profile
        ON parts.dump_no = profile.profile_dump
        AND parts.thread = profile.profile_thread
        AND parts.at_ns >= profile.profile_ns
),

elsewhere AS (
    SELECT
        idle.stretch_no,
        idle.at_ns,
        profile.profile_thread AS other_thread,
        profile.event_no AS other_no,
        profile.is_compute AS other_is_compute,
        profile.is_operator
    FROM (
        SELECT
            own.stretch_no,
            own.dump_no,
            own.at_ns,
            threads.thread AS other
        FROM own
        JOIN threads ON own.dump_no = threads.dump_no AND own.thread <> threads.thread
        WHERE NOT own.is_busy
    ) AS idle
    ASOF JOIN profile
        ON idle.dump_no = profile.profile_dump
        AND idle.other = profile.profile_thread
        AND idle.at_ns >= profile.profile_ns
),

others AS (
    SELECT
        stretch_no AS other_stretch,
        at_ns AS other_ns,
        min(other_thread) AS other_thread,
        min_by(other_no, other_thread) AS other_no,
        min_by(other_is_compute, other_thread) AS other_is_compute
    FROM elsewhere
    WHERE is_operator
    GROUP BY stretch_no, at_ns
),

named AS (
    SELECT
        own.stretch_no,
        own.step,
        own.piece_no,
        own.at_ns,
        own.end_ns,
        coalesce(others.other_thread, own.thread) AS thread,
        CASE
            WHEN own.is_input THEN 'input'
            WHEN own.is_blocking THEN 'sync'
            WHEN own.is_compute OR coalesce(others.other_is_compute, FALSE) THEN 'compute'
            ELSE 'host'
        END AS kind,
        CASE WHEN others.other_thread IS NULL THEN own.event_no ELSE others.other_no END AS event_no
    FROM own
    LEFT JOIN others ON own.stretch_no = others.other_stretch AND own.at_ns = others.other_ns
),

changed AS (
    SELECT
        *,
        coalesce(
            (thread, kind, event_no) IS DISTINCT FROM (lag(thread) OVER same, lag(kind) OVER same, lag(event_no) OVER same),
            TRUE
        ) AS is_new
    FROM named
    WINDOW same AS (PARTITION BY stretch_no ORDER BY at_ns)
),

blocks AS (
    SELECT
        *,
        sum(CASE WHEN is_new THEN 1 ELSE 0 END)
            OVER (PARTITION BY stretch_no ORDER BY at_ns ROWS UNBOUNDED PRECEDING)::BIGINT AS block_no
    FROM changed
)

SELECT
    step,
    piece_no,
    min(at_ns) AS start_ns,
    max(end_ns) AS end_ns,
    thread,
    kind,
    event_no
FROM blocks
GROUP BY stretch_no, block_no, step, piece_no, thread, kind, event_no
