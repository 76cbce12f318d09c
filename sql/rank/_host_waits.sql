-- One row per range of a host thread that explains an idle device: a wait for input, or a blocking call.
--
-- thread        BIGINT   Host thread.
-- start_ns      BIGINT   Start of the range.
-- input_end_ns  BIGINT   Latest end of any input range of the thread up to here; NULL before the first.
-- input_sum_ns  BIGINT   Size of the union of the thread's input ranges up to here.
-- waits_end_ns  BIGINT   Latest end of any range of the thread up to here.
-- waits_sum_ns  BIGINT   Size of the union of all ranges of the thread up to here.
--
-- Scope: rank
-- How: with t at or after start_ns and before the next row, sum − max(0, end − t) is the union's size before t.
WITH input_names AS (
    SELECT DISTINCT names.name
    FROM (SELECT DISTINCT name FROM events WHERE category IN ('annotation', 'cpu_op')) AS names
    WHERE EXISTS (FROM input_ranges WHERE regexp_matches(names.name, input_ranges.pattern))
),

ranges AS (
    SELECT
        events.thread,
        events.start_ns,
        events.start_ns + events.duration_ns AS end_ns,
        TRUE AS is_input
    FROM events
    JOIN input_names ON events.name = input_names.name
    WHERE events.category IN ('annotation', 'cpu_op') AND events.duration_ns IS NOT NULL
    UNION ALL
    SELECT
        events.thread,
        events.start_ns,
        events.start_ns + events.duration_ns AS end_ns,
        FALSE AS is_input
    FROM events
    JOIN blocking_calls ON events.name = blocking_calls.name
    WHERE events.category IN ('runtime', 'driver') AND events.duration_ns IS NOT NULL
),

running AS (
    SELECT
        *,
        max(CASE WHEN is_input THEN end_ns END) OVER so_far AS input_end_ns,
        max(end_ns) OVER so_far AS waits_end_ns,
        max(CASE WHEN is_input THEN end_ns END) OVER earlier AS input_before_ns,
        max(end_ns) OVER earlier AS waits_before_ns
    FROM ranges
    WINDOW
        so_far AS (PARTITION BY thread ORDER BY start_ns, end_ns, is_input ROWS UNBOUNDED PRECEDING),
        earlier AS (
            PARTITION BY thread ORDER BY start_ns, end_ns, is_input
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
),

summed AS (
    SELECT
        thread,
        start_ns,
        end_ns,
        input_end_ns,
        waits_end_ns,
        is_input,
        sum(
            CASE
                WHEN is_input THEN greatest(0, end_ns - greatest(start_ns, coalesce(input_before_ns, start_ns)))
                ELSE 0
            END
        ) OVER so_far AS input_sum_ns,
        sum(greatest(0, end_ns - greatest(start_ns, coalesce(waits_before_ns, start_ns)))) OVER so_far AS waits_sum_ns
    FROM running
    WINDOW so_far AS (PARTITION BY thread ORDER BY start_ns, end_ns, is_input ROWS UNBOUNDED PRECEDING)
)

SELECT
    thread,
    start_ns,
    max(input_end_ns)::BIGINT AS input_end_ns,
    max(input_sum_ns)::BIGINT AS input_sum_ns,
    max(waits_end_ns)::BIGINT AS waits_end_ns,
    max(waits_sum_ns)::BIGINT AS waits_sum_ns
FROM summed
GROUP BY thread, start_ns
