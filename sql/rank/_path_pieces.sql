-- One row per piece of a step's critical path that lies on this rank: its bounds on the rank's own clock.
--
-- step        BIGINT   Step.
-- piece_no    BIGINT   As in path_pieces.
-- is_comm     BOOLEAN  Whether it is a collective.
-- activity_no BIGINT   As in path_pieces.
-- is_matched  BOOLEAN  As in path_pieces.
-- start_ns    BIGINT   Start, aligned.
-- end_ns      BIGINT   End, aligned.
-- low_ns      BIGINT   First instant of the rank's clock that is not before start_ns.
-- high_ns     BIGINT   First instant that is not before end_ns.
--
-- Scope: path
-- How: the rank's clock runs within 100 parts per million of the run's, so the guess is off by one nanosecond at most.
WITH bounds AS (
    SELECT DISTINCT unnest([start_ns, end_ns]) AS aligned_ns
    FROM path_pieces
),

guessed AS (
    SELECT
        bounds.aligned_ns,
        clocks.offset_ns,
        clocks.drift_ppb,
        clocks.reference_ns,
        unnest(range(-2, 3)) + bounds.aligned_ns + clocks.offset_ns
        + coalesce(
            round(clocks.drift_ppb * (bounds.aligned_ns + clocks.offset_ns - clocks.reference_ns) / (1e9 - clocks.drift_ppb)), 0
        )::BIGINT AS own_ns
    FROM bounds
    CROSS JOIN rank_clocks AS clocks
    JOIN context ON clocks.rank = context.rank
),

own AS (
    SELECT
        aligned_ns,
        min(own_ns) AS own_ns
    FROM guessed
    WHERE aligned_ns(own_ns, offset_ns, drift_ppb, reference_ns) >= aligned_ns
    GROUP BY aligned_ns
)

SELECT
    pieces.step,
    pieces.piece_no,
    pieces.is_comm,
    pieces.activity_no,
    pieces.is_matched,
    pieces.start_ns,
    pieces.end_ns,
    lows.own_ns AS low_ns,
    highs.own_ns AS high_ns
FROM path_pieces AS pieces
JOIN context ON pieces.rank = context.rank
JOIN own AS lows ON pieces.start_ns = lows.aligned_ns
JOIN own AS highs ON pieces.end_ns = highs.aligned_ns
