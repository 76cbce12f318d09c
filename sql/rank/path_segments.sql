-- One row per segment of a step's critical path on this rank.
--
-- rank     INTEGER  Rank.
-- step     BIGINT   Step.
-- piece_no BIGINT   As in path_pieces.
-- lane     VARCHAR  stream N or thread N.
-- kind     VARCHAR  compute, comm, copy, host, launch, turnaround, sync, input or unknown.
-- name     VARCHAR  Kernel, or the innermost operator, call or annotation; (no event) where the host shows none.
-- start_ns BIGINT   Start, aligned.
-- end_ns   BIGINT   End, not included.
-- verdict  VARCHAR  ok; of a collective peer not recorded where that may be a peer's time.
--
-- Scope: path
-- Order: step, start_ns
-- How: what no segment of a piece covers is unknown, and visible, under the name of the activity that it leads to.
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
),

whole AS (
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
),

event_names AS (
    SELECT
        row_number() OVER () - 1 AS named_event,
        name AS event_name
    FROM events
),

aligned AS (
    SELECT
        whole.step,
        whole.piece_no,
        whole.kind,
        CASE
            WHEN whole.lane_no IS NULL THEN '(none)'
            WHEN whole.is_host OR named.is_host THEN 'thread ' || whole.lane_no
            ELSE 'stream ' || whole.lane_no
        END AS lane,
        coalesce(whole.call, named.name, event_names.event_name, '(no event)') AS name,
        CASE
            WHEN whole.start_ns = pieces.low_ns THEN pieces.start_ns
            ELSE
                whole.start_ns - clocks.offset_ns
                - coalesce(round(clocks.drift_ppb * (whole.start_ns - clocks.reference_ns) / 1e9), 0)::BIGINT
        END AS start_ns,
        CASE
            WHEN whole.end_ns = pieces.high_ns THEN pieces.end_ns
            ELSE
                whole.end_ns - clocks.offset_ns
                - coalesce(round(clocks.drift_ppb * (whole.end_ns - clocks.reference_ns) / 1e9), 0)::BIGINT
        END AS end_ns,
        CASE WHEN pieces.is_comm AND NOT pieces.is_matched THEN 'peer not recorded' ELSE 'ok' END AS verdict
    FROM whole
    JOIN _path_pieces AS pieces ON whole.step = pieces.step AND whole.piece_no = pieces.piece_no
    CROSS JOIN context
    JOIN rank_clocks AS clocks ON context.rank = clocks.rank
    LEFT JOIN _activity_names AS named ON whole.activity_no = named.activity_no
    LEFT JOIN event_names ON whole.event_no = event_names.named_event
)

SELECT
    context.rank,
    aligned.step,
    aligned.piece_no,
    aligned.lane,
    aligned.kind,
    aligned.name,
    aligned.start_ns,
    aligned.end_ns,
    aligned.verdict
FROM aligned
CROSS JOIN context
WHERE aligned.end_ns > aligned.start_ns
