-- One row per activity that obeys a recorded wait for an event: the work that the event stands for.
--
-- activity_no   BIGINT  The activity that waits.
-- source_no     BIGINT  The activity that is waited for: of several, the one that ends last.
-- source_end_ns BIGINT  Its end.
--
-- Scope: rank
-- How: a wait holds the first activity launched on its stream at or after it; the rest of the stream follows in order. Its
-- event stands for what was launched last on the other stream before the call that recorded it.
WITH waits AS (
    SELECT
        waits.dump_no,
        waits.stream AS wait_stream,
        waits.start_ns AS wait_ns,
        waits.wait_stream AS source_stream,
        records.start_ns AS record_ns
    FROM _calls AS waits
    JOIN _calls AS records
        ON waits.dump_no = records.dump_no AND waits.wait_correlation_id = records.correlation_id
    WHERE waits.what = 'wait' AND records.what = 'record'
),

launched AS (
    SELECT
        dump_no AS launch_dump,
        stream,
        launch_ns,
        min(activity_no) AS first_no,
        max(activity_no) AS last_no
    FROM _activities
    WHERE is_device AND launch_ns IS NOT NULL AND (SELECT count(*) > 0 FROM waits)
    GROUP BY dump_no, stream, launch_ns
),

held AS (
    SELECT
        waits.*,
        launched.first_no AS activity_no
    FROM waits
    ASOF JOIN launched
        ON waits.dump_no = launched.launch_dump
        AND waits.wait_stream = launched.stream
        AND waits.wait_ns <= launched.launch_ns
),

sourced AS (
    SELECT
        held.activity_no,
        launched.last_no AS source_no
    FROM held
    ASOF JOIN launched
        ON held.dump_no = launched.launch_dump
        AND held.source_stream = launched.stream
        AND held.record_ns > launched.launch_ns
)

SELECT
    sourced.activity_no,
    max_by(sourced.source_no, (sources.end_ns, sourced.source_no)) AS source_no,
    max(sources.end_ns) AS source_end_ns
FROM sourced
JOIN _activities AS sources ON sourced.source_no = sources.activity_no
WHERE sourced.source_no < sourced.activity_no
GROUP BY sourced.activity_no
