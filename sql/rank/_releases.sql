-- One row per instant at which a rank's host went on because work it had waited for was done.
--
-- dump_no     BIGINT   Which of the rank's dumps.
-- release_ns  BIGINT   The host goes on.
-- blocked_ns  BIGINT   It has waited since.
-- activity_no BIGINT   The activity whose end let it go.
-- released_ns BIGINT   That end.
-- thread      BIGINT   Thread that waited.
-- name        VARCHAR  The blocking call; (inferred wait) where none is recorded; NULL on a rank without a device, where a
--     gap between operators waits.
--
-- Scope: rank
-- How: a blocking call of a thread that launches waits for the activity that ends last inside it, on the call's stream
-- where the dump says one; one that allocates is busy itself. A wait is inferred where a thread makes no call for 10 ms inside
-- an operator and goes on within 100 µs of the end of an activity that ran for at least half of that: allocators wait for
-- events so, unrecorded (such a silence leaves one of the bins of half its length empty). What was launched when it ended,
-- or later, is no work to wait for. Without a device, a collective that ends while no operator runs lets the host go on.
WITH blocking AS (
    SELECT
        dump_no,
        start_ns AS blocked_ns,
        end_ns AS release_ns,
        thread,
        name,
        correlation_id
    FROM _calls
    WHERE what IN ('synchronise', 'copy') AND end_ns > start_ns
),

launching AS (
    SELECT DISTINCT
        dump_no,
        launch_thread
    FROM _activities
    WHERE is_device AND launch_thread IS NOT NULL
),

streams AS (
    SELECT
        dump_no,
        correlation_id,
        any_value(coalesce(wait_stream, stream)) AS stream
    FROM _calls
    WHERE what IN ('sync', 'wait') AND coalesce(wait_stream, stream) >= 0 AND correlation_id IS NOT NULL
    GROUP BY dump_no, correlation_id
),

calls AS (
    SELECT
        blocking.*,
        streams.stream
    FROM blocking
    JOIN launching ON blocking.dump_no = launching.dump_no AND blocking.thread = launching.launch_thread
    LEFT JOIN streams
        ON blocking.dump_no = streams.dump_no AND blocking.correlation_id = streams.correlation_id
),

of_any AS (
    SELECT
        calls.*,
        ends.end_no,
        ends.end_ns
    FROM (FROM calls WHERE stream IS NULL) AS calls
    ASOF JOIN (
        SELECT
            dump_no AS end_dump,
            end_ns,
            max(activity_no) AS end_no
        FROM _activities
        WHERE is_device AND (SELECT bool_or(stream IS NULL) FROM calls)
            AND coalesce(launch_ns < end_ns, TRUE)
        GROUP BY dump_no, end_ns
    ) AS ends
        ON calls.dump_no = ends.end_dump AND calls.release_ns >= ends.end_ns
),

of_stream AS (
    SELECT
        calls.*,
        ends.end_no,
        ends.end_ns
    FROM (FROM calls WHERE stream IS NOT NULL) AS calls
    ASOF JOIN (
        SELECT
            dump_no AS end_dump,
            stream AS end_stream,
            end_ns,
            max(activity_no) AS end_no
        FROM _activities
        WHERE is_device AND (SELECT bool_or(stream IS NOT NULL) FROM calls)
            AND coalesce(launch_ns < end_ns, TRUE)
        GROUP BY dump_no, stream, end_ns
    ) AS ends
        ON calls.dump_no = ends.end_dump AND calls.stream = ends.end_stream AND calls.release_ns >= ends.end_ns
),

bins AS (
    SELECT
        calls.dump_no,
        calls.thread,
        2 * calls.start_ns // params.silent_ns AS bin,
        min(calls.start_ns) AS release_ns,
        max(calls.end_ns) AS end_ns
    FROM _calls AS calls
    JOIN launching ON calls.dump_no = launching.dump_no AND calls.thread = launching.launch_thread
    CROSS JOIN params
    WHERE calls.end_ns IS NOT NULL AND calls.what IS DISTINCT FROM 'sync' AND calls.what IS DISTINCT FROM 'wait'
    GROUP BY calls.dump_no, calls.thread, bin
),

calling AS (
    SELECT
        dump_no,
        thread,
        release_ns,
        max(end_ns) OVER (
            PARTITION BY dump_no, thread ORDER BY bin ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS blocked_ns
    FROM bins
),

silent AS (
    SELECT
        calling.*
    FROM calling
    CROSS JOIN params
    WHERE calling.release_ns - calling.blocked_ns >= params.silent_ns
),

within AS (
    SELECT
        silent.dump_no,
        silent.thread,
        silent.blocked_ns,
        silent.release_ns
    FROM silent
    JOIN events
        ON silent.dump_no = events.dump_no
        AND silent.thread = events.thread
        AND events.category = 'cpu_op'
        AND events.start_ns <= silent.blocked_ns
        AND events.start_ns + events.duration_ns >= silent.release_ns
    GROUP BY silent.dump_no, silent.thread, silent.blocked_ns, silent.release_ns
),

long_ends AS (
    SELECT
        dump_no AS end_dump,
        end_ns,
        max(activity_no) AS end_no,
        min(start_ns) AS long_start_ns
    FROM _activities
    CROSS JOIN params
    WHERE is_device AND end_ns - start_ns >= params.silent_ns / 2 AND (SELECT count(*) > 0 FROM within)
    GROUP BY dump_no, end_ns
),

unrecorded AS (
    SELECT
        within.dump_no,
        within.blocked_ns,
        within.release_ns,
        within.thread,
        '(inferred wait)' AS name,
        NULL::BIGINT AS correlation_id,
        NULL::BIGINT AS stream,
        long_ends.end_no,
        long_ends.end_ns
    FROM within
    ASOF JOIN long_ends ON within.dump_no = long_ends.end_dump AND within.release_ns >= long_ends.end_ns
    CROSS JOIN params
    WHERE within.release_ns - long_ends.end_ns <= params.silent_end_ns
        AND 2 * (long_ends.end_ns - greatest(long_ends.long_start_ns, within.blocked_ns))
        >= within.release_ns - within.blocked_ns
),

released AS (
    FROM unrecorded
    UNION ALL
    FROM of_any
    WHERE end_ns > blocked_ns
    UNION ALL
    FROM of_stream
    WHERE end_ns > blocked_ns
),

running AS (
    SELECT
        activity_no,
        dump_no,
        precedence,
        end_ns,
        is_device,
        max(CASE WHEN precedence = 0 THEN end_ns END) OVER (PARTITION BY dump_no ORDER BY activity_no ROWS UNBOUNDED PRECEDING)
            AS busy_end_ns,
        start_ns
    FROM _activities
    WHERE NOT is_device
),

operators AS (
    SELECT
        dump_no AS operator_dump,
        start_ns AS operator_start_ns,
        max(busy_end_ns) AS operators_end_ns
    FROM running
    WHERE precedence = 0
    GROUP BY dump_no, start_ns
),

alone AS (
    SELECT
        running.dump_no,
        running.end_ns,
        running.activity_no,
        operators.operators_end_ns
    FROM running
    ASOF LEFT JOIN operators
        ON running.dump_no = operators.operator_dump AND running.end_ns > operators.operator_start_ns
    WHERE running.precedence = 1
)

SELECT
    dump_no,
    release_ns,
    max(blocked_ns) AS blocked_ns,
    max_by(end_no, (blocked_ns, end_ns, end_no)) AS activity_no,
    max_by(end_ns, (blocked_ns, end_ns, end_no)) AS released_ns,
    max_by(thread, (blocked_ns, end_ns, end_no)) AS thread,
    max_by(name, (blocked_ns, end_ns, end_no)) AS name
FROM released
GROUP BY dump_no, release_ns
UNION ALL
SELECT
    dump_no,
    end_ns AS release_ns,
    end_ns AS blocked_ns,
    max(activity_no) AS activity_no,
    end_ns AS released_ns,
    NULL AS thread,
    NULL AS name
FROM alone
WHERE coalesce(operators_end_ns <= end_ns, TRUE)
GROUP BY dump_no, end_ns
