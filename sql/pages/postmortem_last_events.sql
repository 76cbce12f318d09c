-- One row per event of a rank's last ones: on the device, and on its host.
--
-- side        VARCHAR  device or host.
-- place_no    BIGINT   Order, 1 the last to end.
-- category    VARCHAR  As in events.
-- name        VARCHAR  As the dump spells it.
-- lane        VARCHAR  stream N or thread N.
-- step        BIGINT   As in events.
-- before_ns   BIGINT   How long before $last_ns it started.
-- duration_ns BIGINT   Length; NULL where it did not finish.
--
-- How: what did not finish comes first. Of each side $max_rows, of events that start from $read_ns, own clock. Parameters: $run,
-- $rank, $read_ns, $last_ns, $max_rows.
WITH sided AS (
    SELECT
        row_id,
        category,
        name,
        step,
        start_ns,
        CASE WHEN duration_ns BETWEEN 0 AND epoch_ns(INTERVAL 7 DAY) THEN duration_ns END AS duration_ns,
        CASE WHEN category IN ('kernel', 'memcpy', 'memset') THEN 'device' ELSE 'host' END AS side,
        CASE
            WHEN category IN ('kernel', 'memcpy', 'memset') THEN coalesce('stream ' || stream, 'no stream')
            ELSE coalesce('thread ' || thread, 'no thread')
        END AS lane
    FROM events
    WHERE run = $run
        AND rank = $rank::INTEGER
        AND start_ns >= $read_ns
        AND start_ns <= $last_ns
        AND category IN ('kernel', 'memcpy', 'memset', 'cpu_op', 'runtime', 'driver', 'annotation')
),

ordered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY side ORDER BY duration_ns IS NULL DESC, start_ns + coalesce(duration_ns, 0) DESC, start_ns DESC, row_id
        ) AS place_no
    FROM sided
)

SELECT
    side,
    place_no,
    category,
    name,
    lane,
    step,
    $last_ns::BIGINT - start_ns AS before_ns,
    duration_ns
FROM ordered
WHERE place_no <= $max_rows
ORDER BY side, place_no
