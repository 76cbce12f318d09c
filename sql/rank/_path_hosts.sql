-- One row per stretch of the path in which the host worked, or waited for the device.
--
-- step      BIGINT   Step.
-- piece_no  BIGINT   As in path_pieces.
-- dump_no   BIGINT   Which of the rank's dumps.
-- thread    BIGINT   Thread whose time it is; NULL where nothing says it.
-- call      VARCHAR  The blocking call that waited for the device; NULL where the host worked.
-- start_ns  BIGINT   Start, on the rank's clock, cut to the piece.
-- end_ns    BIGINT   End.
--
-- Scope: path
WITH completed AS (
    SELECT
        pieces.step,
        pieces.piece_no,
        pieces.low_ns,
        pieces.high_ns,
        completions.dump_no,
        NULL::BIGINT AS thread,
        completions.end_ns AS ready_ns,
        completions.release_ns,
        completions.source_ns,
        completions.call,
        completions.call_thread
    FROM _path_pieces AS pieces
    JOIN _completions AS completions ON pieces.step = completions.step
    WHERE NOT pieces.is_comm AND pieces.activity_no IS NULL AND completions.activity_no IS NULL
),

launched AS (
    SELECT
        visits.step,
        visits.piece_no,
        visits.low_ns,
        visits.high_ns,
        hops.dump_no,
        CASE WHEN markers.has_device THEN hops.thread END AS thread,
        hops.ready_ns,
        hops.release_ns,
        hops.source_ns,
        hops.call,
        hops.call_thread
    FROM _path_visits AS visits
    JOIN _hops AS hops ON visits.head_no = hops.head_no
    JOIN _marker_threads AS markers ON hops.dump_no = markers.dump_no
    WHERE hops.blocker = 'launch'
),

sides AS (
    FROM completed
    UNION ALL
    FROM launched
),

stretches AS (
    SELECT
        step,
        piece_no,
        dump_no,
        thread,
        NULL AS call,
        greatest(coalesce(release_ns, low_ns), low_ns) AS start_ns,
        least(ready_ns, high_ns) AS end_ns
    FROM sides
    UNION ALL
    SELECT
        step,
        piece_no,
        dump_no,
        call_thread AS thread,
        call,
        greatest(source_ns, low_ns) AS start_ns,
        least(release_ns, high_ns) AS end_ns
    FROM sides
    WHERE release_ns IS NOT NULL
)

SELECT
    stretches.step,
    stretches.piece_no,
    stretches.dump_no,
    coalesce(stretches.thread, markers.thread) AS thread,
    stretches.call,
    stretches.start_ns,
    stretches.end_ns
FROM stretches
LEFT JOIN _marker_threads AS markers ON stretches.dump_no = markers.dump_no
WHERE stretches.end_ns > stretches.start_ns
