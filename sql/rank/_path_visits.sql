-- One row per run of a lane that a piece of the path goes through, and per start of a piece.
--
-- step      BIGINT  Step.
-- piece_no  BIGINT  As in path_pieces.
-- visit_no  BIGINT  Place in the piece, from its end backwards.
-- low_ns    BIGINT  The piece's start, on the rank's clock.
-- high_ns   BIGINT  Its end.
-- last_no   BIGINT  The path comes to the run in this activity; NULL where it only starts before head_no.
-- cursor_ns BIGINT  At this instant.
-- head_no   BIGINT  First activity of the run, before whose start the path goes on.
--
-- Scope: path
WITH RECURSIVE pieces AS (
    SELECT
        pieces.step,
        pieces.piece_no,
        pieces.low_ns,
        pieces.high_ns,
        CASE WHEN pieces.activity_no IS NULL THEN completions.source_no END AS last_no,
        CASE WHEN pieces.activity_no IS NULL THEN completions.source_ns END AS cursor_ns,
        coalesce(pieces.activity_no, completions.source_no) AS entry_no
    FROM _path_pieces AS pieces
    LEFT JOIN _completions AS completions ON pieces.step = completions.step
    WHERE NOT pieces.is_comm
),

walked AS (
    SELECT
        pieces.step,
        pieces.piece_no,
        0::BIGINT AS visit_no,
        pieces.low_ns,
        pieces.high_ns,
        pieces.last_no,
        pieces.cursor_ns,
        runs.head_no
    FROM pieces
    JOIN _runs AS runs ON pieces.entry_no = runs.activity_no
    UNION ALL
    SELECT
        walked.step,
        walked.piece_no,
        walked.visit_no + 1,
        walked.low_ns,
        walked.high_ns,
        hops.source_no AS last_no,
        hops.source_ns AS cursor_ns,
        hops.next_no AS head_no
    FROM walked
    JOIN _hops AS hops ON walked.head_no = hops.head_no
    WHERE hops.source_no IS NOT NULL AND hops.source_ns > walked.low_ns
)

SELECT
    step,
    piece_no,
    visit_no,
    low_ns,
    high_ns,
    last_no,
    cursor_ns,
    head_no
FROM walked
