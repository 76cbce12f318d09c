-- One row per event of a thread beside a stretch of time: what it did before, what it was in, what it did meanwhile.
--
-- place       VARCHAR  before (the last that ended by its start), around (holds it) or within (lies in it).
-- place_no    BIGINT   Order: before from the first to the last, around from the outermost in, within from the longest down.
-- category    VARCHAR  As in events.
-- name        VARCHAR  As the dump spells it.
-- offset_ns   BIGINT   Start, from the stretch's.
-- duration_ns BIGINT   Length.
-- n_place     BIGINT   Events of that place among those read.
--
-- How: events that start from $read_ns to before $to_ns, on the rank's own clock; $start_ns and $end_ns are the stretch's, on the
-- run's. Of each place $max_rows, of those around the innermost. Parameters: $run, $rank, $lane, $read_ns, $to_ns, $start_ns,
-- $end_ns, $max_rows.
WITH clock AS (
    SELECT
        coalesce(max(offset_ns), 0) AS shift_ns,
        coalesce(max(drift_ppb), 0) AS drift_ppb,
        coalesce(max(reference_ns), 0) AS reference_ns
    FROM rank_clocks
    WHERE run = $run AND rank = $rank::INTEGER
),

aligned AS (
    SELECT
        events.row_id,
        events.category,
        events.name,
        events.duration_ns,
        aligned_ns(events.start_ns, clock.shift_ns, clock.drift_ppb, clock.reference_ns) AS from_ns,
        aligned_ns(events.start_ns + events.duration_ns, clock.shift_ns, clock.drift_ppb, clock.reference_ns) AS left_ns
    FROM events
    CROSS JOIN clock
    WHERE events.run = $run
        AND events.rank = $rank::INTEGER
        AND events.start_ns >= $read_ns
        AND events.start_ns < $to_ns
        AND events.duration_ns BETWEEN 1 AND epoch_ns(INTERVAL 7 DAY)
        AND events.category IN ('cpu_op', 'runtime', 'driver', 'annotation')
        AND coalesce('thread ' || events.thread, 'no thread') = $lane::VARCHAR
),

placed AS (
    SELECT
        *,
        CASE
            WHEN left_ns <= $start_ns::BIGINT THEN 'before'
            WHEN from_ns <= $start_ns::BIGINT AND left_ns >= $end_ns::BIGINT THEN 'around'
            WHEN from_ns >= $start_ns::BIGINT AND left_ns <= $end_ns::BIGINT THEN 'within'
        END AS place
    FROM aligned
),

ordered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY place
            ORDER BY
                CASE place
                    WHEN 'before' THEN $start_ns::BIGINT - left_ns
                    WHEN 'around' THEN duration_ns
                    ELSE -duration_ns
                END,
                from_ns DESC,
                row_id
        ) AS nearness,
        count(*) OVER (PARTITION BY place) AS n_place
    FROM placed
    WHERE place IS NOT NULL
)

SELECT
    place,
    row_number() OVER (
        PARTITION BY place ORDER BY CASE place WHEN 'within' THEN nearness ELSE -nearness END
    ) AS place_no,
    category,
    name,
    from_ns - $start_ns::BIGINT AS offset_ns,
    duration_ns,
    n_place
FROM ordered
WHERE nearness <= $max_rows
ORDER BY place, place_no
