-- One row per part of a piece of a step's critical path on this rank, in the rank's own time and without its name.
--
-- step        BIGINT  Step.
-- piece_no    BIGINT  As in path_pieces.
-- start_ns    BIGINT  Start, on the rank's clock.
-- end_ns      BIGINT  End, not included.
-- kind        VARCHAR compute, comm, copy, host, launch, turnaround, sync, input or unknown.
-- activity_no BIGINT  Device activity that it is, or leads to; NULL on the host.
-- event_no    BIGINT  Event of the host that it is; NULL elsewhere.
-- lane_no     BIGINT  Stream or thread.
-- call        VARCHAR Blocking call, where it is one.
-- is_host     BOOLEAN It lies on a thread.
--
-- Scope: path
-- How: a table of its own, so that parts can spill before names, which are as many as events, are held beside them.
WITH told AS (
    SELECT
        step,
        piece_no,
        start_ns,
        end_ns,
        kind,
        activity_no,
        NULL::BIGINT AS event_no,
        lane AS lane_no,
        NULL::VARCHAR AS call,
        FALSE AS is_host
    FROM _path_device
    UNION ALL
    SELECT
        step,
        piece_no,
        start_ns,
        end_ns,
        kind,
        NULL AS activity_no,
        event_no,
        thread AS lane_no,
        NULL AS call,
        TRUE AS is_host
    FROM _host_parts
    UNION ALL
    SELECT
        step,
        piece_no,
        start_ns,
        end_ns,
        'sync' AS kind,
        NULL AS activity_no,
        NULL AS event_no,
        thread AS lane_no,
        call,
        TRUE AS is_host
    FROM _path_hosts
    WHERE call IS NOT NULL
    UNION ALL
    SELECT
        pieces.step,
        pieces.piece_no,
        pieces.low_ns AS start_ns,
        pieces.high_ns AS end_ns,
        'comm' AS kind,
        pieces.activity_no,
        NULL AS event_no,
        runs.lane AS lane_no,
        NULL AS call,
        FALSE AS is_host
    FROM _path_pieces AS pieces
    LEFT JOIN _runs AS runs ON pieces.activity_no = runs.activity_no
    WHERE pieces.is_comm
),

cut AS (
    SELECT
        told.* EXCLUDE (start_ns, end_ns),
        greatest(told.start_ns, pieces.low_ns) AS start_ns,
        least(told.end_ns, pieces.high_ns) AS end_ns
    FROM told
    JOIN _path_pieces AS pieces ON told.step = pieces.step AND told.piece_no = pieces.piece_no
    WHERE least(told.end_ns, pieces.high_ns) > greatest(told.start_ns, pieces.low_ns)
),

ordered AS (
    SELECT
        cut.* REPLACE (greatest(cut.start_ns, coalesce(max(cut.end_ns) OVER earlier, cut.start_ns)) AS start_ns),
        max(cut.end_ns) OVER earlier AS before_end_ns,
        lead(cut.step) OVER (PARTITION BY cut.step, cut.piece_no ORDER BY cut.start_ns, cut.end_ns) IS NULL AS is_last
    FROM cut
    WINDOW earlier AS (
        PARTITION BY cut.step, cut.piece_no ORDER BY cut.start_ns, cut.end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

holes AS (
    SELECT
        ordered.step,
        ordered.piece_no,
        coalesce(ordered.before_end_ns, pieces.low_ns) AS start_ns,
        ordered.start_ns AS end_ns,
        ordered.activity_no
    FROM ordered
    JOIN _path_pieces AS pieces ON ordered.step = pieces.step AND ordered.piece_no = pieces.piece_no
    UNION ALL
    SELECT
        pieces.step,
        pieces.piece_no,
        coalesce(ordered.end_ns, pieces.low_ns) AS start_ns,
        pieces.high_ns AS end_ns,
        pieces.activity_no
    FROM _path_pieces AS pieces
    LEFT JOIN ordered ON pieces.step = ordered.step AND pieces.piece_no = ordered.piece_no AND ordered.is_last
)

SELECT
    step,
    piece_no,
    start_ns,
    end_ns,
    kind,
    activity_no,
    event_no,
    lane_no,
    call,
    is_host
FROM ordered
WHERE end_ns > start_ns
UNION ALL
SELECT
    holes.step,
    holes.piece_no,
    holes.start_ns,
    holes.end_ns,
    'unknown' AS kind,
    holes.activity_no,
    NULL AS event_no,
    runs.lane AS lane_no,
    NULL AS call,
    FALSE AS is_host
FROM holes
LEFT JOIN _runs AS runs ON holes.activity_no = runs.activity_no
WHERE holes.end_ns > holes.start_ns
