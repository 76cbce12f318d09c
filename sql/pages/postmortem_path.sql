-- One row per piece of a step's critical path as it is drawn: long segments alone, short ones together.
--
-- rank        INTEGER  Rank.
-- lane        VARCHAR  stream N or thread N.
-- kind        VARCHAR  As in step_critical_path.
-- offset_ns   BIGINT   Start, from the step's.
-- end_ns      BIGINT   End; pieces follow each other and add up to the step.
-- n_segments  BIGINT   Segments of the path in it.
-- longest_ns  BIGINT   The longest of them.
-- name        VARCHAR  Name with most of its time.
-- from_rank   INTEGER  Rank of the piece before, where it is another; else NULL.
-- from_lane   VARCHAR  Lane of that piece; NULL as above.
--
-- How: a segment of a bin or more, one of $n_bins of the step, is a piece by itself. Those between two such that begin in one bin
-- are one piece for each rank, lane and kind, side by side in order of their first: within a bin the order is not the path's, the
-- time of each is. Parameters: $run, $step, $n_bins.
WITH segments AS (
    SELECT
        path.rank,
        path.lane,
        path.kind,
        path.name,
        path.seq,
        path.start_ns - steps.start_ns AS offset_ns,
        path.duration_ns,
        greatest(1, steps.duration_ns // $n_bins) AS bin_ns
    FROM step_critical_path AS path
    JOIN steps ON path.run = steps.run AND path.step = steps.step
    WHERE path.run = $run AND path.step = $step::BIGINT
),

sized AS (
    SELECT
        *,
        duration_ns >= bin_ns AS is_long,
        sum((duration_ns >= bin_ns)::BIGINT) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS island_no
    FROM segments
),

grouped AS (
    SELECT
        *,
        CASE WHEN is_long THEN -1 ELSE offset_ns // bin_ns END AS bin_no
    FROM sized
),

names AS (
    SELECT
        island_no,
        bin_no,
        rank,
        lane,
        kind,
        name,
        sum(duration_ns) AS name_ns,
        count(*) AS n_segments,
        max(duration_ns) AS longest_ns,
        min(seq) AS first_seq,
        min(offset_ns) AS first_ns
    FROM grouped
    GROUP BY island_no, bin_no, rank, lane, kind, name
),

pieces AS (
    SELECT
        island_no,
        bin_no,
        rank,
        lane,
        kind,
        sum(name_ns)::BIGINT AS duration_ns,
        sum(n_segments)::BIGINT AS n_segments,
        max(longest_ns) AS longest_ns,
        min(first_seq) AS first_seq,
        min(first_ns) AS first_ns,
        arg_max(name, (name_ns, -first_seq)) AS name
    FROM names
    GROUP BY island_no, bin_no, rank, lane, kind
),

laid AS (
    SELECT
        *,
        (
            min(first_ns) OVER (PARTITION BY island_no, bin_no)
            + sum(duration_ns) OVER (PARTITION BY island_no, bin_no ORDER BY first_seq ROWS UNBOUNDED PRECEDING) - duration_ns
        )::BIGINT AS offset_ns
    FROM pieces
)

SELECT
    rank,
    lane,
    kind,
    offset_ns,
    offset_ns + duration_ns AS end_ns,
    n_segments,
    longest_ns,
    name,
    CASE WHEN rank <> lag(rank) OVER in_time THEN lag(rank) OVER in_time END AS from_rank,
    CASE WHEN rank <> lag(rank) OVER in_time THEN lag(lane) OVER in_time END AS from_lane
FROM laid
WINDOW in_time AS (ORDER BY offset_ns, first_seq)
ORDER BY offset_ns, first_seq
