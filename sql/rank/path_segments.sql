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
WITH event_names AS (
    SELECT
        named_event,
        event_name
    FROM (SELECT row_number() OVER () - 1 AS named_event, name AS event_name FROM events)
    WHERE named_event IN (SELECT event_no FROM _path_parts)
),

aligned AS (
    SELECT
        parts.step,
        parts.piece_no,
        parts.kind,
        CASE
            WHEN parts.lane_no IS NULL THEN '(none)'
            WHEN parts.is_host OR named.is_host THEN 'thread ' || parts.lane_no
            ELSE 'stream ' || parts.lane_no
        END AS lane,
        coalesce(parts.call, named.name, event_names.event_name, '(no event)') AS name,
        CASE
            WHEN parts.start_ns = pieces.low_ns THEN pieces.start_ns
            ELSE aligned_ns(parts.start_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns)
        END AS start_ns,
        CASE
            WHEN parts.end_ns = pieces.high_ns THEN pieces.end_ns
            ELSE aligned_ns(parts.end_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns)
        END AS end_ns,
        CASE WHEN pieces.is_comm AND NOT pieces.is_matched THEN 'peer not recorded' ELSE 'ok' END AS verdict
    FROM _path_parts AS parts
    JOIN _path_pieces AS pieces ON parts.step = pieces.step AND parts.piece_no = pieces.piece_no
    CROSS JOIN context
    JOIN rank_clocks AS clocks ON context.rank = clocks.rank
    LEFT JOIN _activity_names AS named ON parts.activity_no = named.activity_no
    LEFT JOIN event_names ON parts.event_no = event_names.named_event
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
