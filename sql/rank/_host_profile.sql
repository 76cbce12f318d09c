-- One row per stretch of a host thread in which the same event is innermost.
--
-- dump_no     BIGINT   Which of the rank's dumps.
-- thread      BIGINT   Thread.
-- start_ns    BIGINT   Start; it lasts until the thread's next row.
-- event_no    BIGINT   Innermost operator, call or annotation, by its place among the rank's events; NULL where there is none.
-- is_busy     BOOLEAN  Whether an operator or a call covers it.
-- is_operator BOOLEAN  Whether an operator does.
-- is_compute  BOOLEAN  Whether an operator that counts as compute does.
-- is_input    BOOLEAN  Whether a wait for input does.
-- is_blocking BOOLEAN  Whether a synchronise or a blocking copy does.
--
-- Scope: path
-- How: events of a thread nest, so the innermost at depth d is the one that started last at that depth. A call is always
-- innermost: dumps time calls and operators apart, and a call of 55 ms was seen to begin 8 µs before the operator that
-- makes it. Where a dump's rounding lets an event outlast what it stands in, the one that has ended is not taken: the latest
-- that covers the instant is.
WITH input_names AS (
    SELECT DISTINCT names.name
    FROM (SELECT DISTINCT name FROM events WHERE category IN ('annotation', 'cpu_op')) AS names
    WHERE EXISTS (FROM input_ranges WHERE regexp_matches(names.name, input_ranges.pattern))
),

numbered AS (
    SELECT
        row_number() OVER () - 1 AS event_no,
        dump_no,
        thread,
        category,
        name,
        kind,
        start_ns,
        duration_ns
    FROM events
),

stretch_ends AS (
    SELECT
        dump_no AS stretch_dump,
        start_ns AS stretch_start_ns,
        end_ns AS stretch_end_ns
    FROM _host_stretches
),

near AS (
    SELECT numbered.*
    FROM (
        FROM numbered
        WHERE category IN ('annotation', 'cpu_op', 'runtime', 'driver') AND thread IS NOT NULL AND duration_ns > 0
    ) AS numbered
    ASOF JOIN stretch_ends
        ON numbered.dump_no = stretch_ends.stretch_dump AND numbered.start_ns < stretch_ends.stretch_end_ns
    WHERE stretch_ends.stretch_start_ns < numbered.start_ns + numbered.duration_ns
),

ranges AS (
    SELECT
        near.event_no,
        near.dump_no,
        near.thread,
        near.start_ns,
        near.start_ns + near.duration_ns AS end_ns,
        (near.category IN ('runtime', 'driver'))::INTEGER AS is_call,
        (near.category <> 'annotation')::INTEGER AS is_busy,
        (near.category = 'cpu_op')::INTEGER AS is_operator,
        (near.category = 'cpu_op' AND coalesce(near.kind = 'compute', FALSE))::INTEGER AS is_compute,
        (near.category IN ('annotation', 'cpu_op') AND input_names.name IS NOT NULL)::INTEGER AS is_input,
        (near.category IN ('runtime', 'driver') AND coalesce(blocking_calls.what <> 'allocate', FALSE))::INTEGER
            AS is_blocking
    FROM near
    LEFT JOIN input_names ON near.name = input_names.name
    LEFT JOIN blocking_calls ON near.name = blocking_calls.name
),

turns AS (
    SELECT
        event_no,
        dump_no,
        thread,
        start_ns AS at_ns,
        end_ns,
        1 AS turn,
        is_call,
        is_call = 1 AS of_call,
        is_busy,
        is_operator,
        is_compute,
        is_input,
        is_blocking
    FROM ranges
    UNION ALL
    SELECT
        event_no,
        dump_no,
        thread,
        end_ns AS at_ns,
        end_ns,
        -1 AS turn,
        -is_call AS is_call,
        is_call = 1 AS of_call,
        -is_busy AS is_busy,
        -is_operator AS is_operator,
        -is_compute AS is_compute,
        -is_input AS is_input,
        -is_blocking AS is_blocking
    FROM ranges
),

open AS (
    SELECT
        event_no,
        dump_no,
        thread,
        at_ns,
        end_ns,
        turn,
        of_call,
        sum(turn) OVER so_far AS n_open,
        sum(is_call) OVER so_far AS n_calls,
        sum(is_busy) OVER so_far AS n_busy,
        sum(is_operator) OVER so_far AS n_operators,
        sum(is_compute) OVER so_far AS n_compute,
        sum(is_input) OVER so_far AS n_inputs,
        sum(is_blocking) OVER so_far AS n_blocking,
        lead(at_ns) OVER (PARTITION BY dump_no, thread ORDER BY at_ns, turn, end_ns DESC, event_no) AS next_ns
    FROM turns
    WINDOW so_far AS (
        PARTITION BY dump_no, thread ORDER BY at_ns, turn, end_ns DESC, event_no ROWS UNBOUNDED PRECEDING
    )
),

stretches AS (
    SELECT
        dump_no,
        thread,
        at_ns,
        n_open,
        n_calls > 0 AS in_call,
        CASE WHEN n_calls > 0 THEN n_calls ELSE n_open END AS depth,
        n_busy,
        n_operators,
        n_compute,
        n_inputs,
        n_blocking
    FROM open
    WHERE next_ns IS NULL OR next_ns > at_ns
),

begun AS (
    SELECT
        dump_no AS begun_dump,
        thread AS begun_thread,
        of_call AS begun_call,
        CASE WHEN of_call THEN n_calls ELSE n_open - n_calls END AS begun_depth,
        at_ns AS begun_ns,
        max(event_no) AS begun_no,
        max(end_ns) AS begun_end_ns
    FROM open
    WHERE turn = 1
    GROUP BY dump_no, thread, of_call, begun_depth, at_ns
),

named AS (
    SELECT
        stretches.*,
        begun.begun_no,
        stretches.n_open > 0 AND coalesce(begun.begun_end_ns <= stretches.at_ns, TRUE) AS is_astray
    FROM stretches
    ASOF LEFT JOIN begun
        ON stretches.dump_no = begun.begun_dump
        AND stretches.thread = begun.begun_thread
        AND stretches.in_call = begun.begun_call
        AND stretches.depth = begun.begun_depth
        AND stretches.at_ns >= begun.begun_ns
),

mended AS (
    SELECT
        astray.dump_no AS mended_dump,
        astray.thread AS mended_thread,
        astray.at_ns AS mended_ns,
        max_by(ranges.event_no, (ranges.is_call, ranges.start_ns, -ranges.end_ns, ranges.event_no)) AS mended_no
    FROM (FROM named WHERE is_astray) AS astray
    JOIN ranges
        ON astray.dump_no = ranges.dump_no
        AND astray.thread = ranges.thread
        AND astray.at_ns >= ranges.start_ns
        AND astray.at_ns < ranges.end_ns
    GROUP BY astray.dump_no, astray.thread, astray.at_ns
)

SELECT
    named.dump_no,
    named.thread,
    named.at_ns AS start_ns,
    CASE WHEN named.is_astray THEN mended.mended_no WHEN named.n_open > 0 THEN named.begun_no END AS event_no,
    named.n_busy > 0 AS is_busy,
    named.n_operators > 0 AS is_operator,
    named.n_compute > 0 AS is_compute,
    named.n_inputs > 0 AS is_input,
    named.n_blocking > 0 AS is_blocking
FROM named
LEFT JOIN mended
    ON named.dump_no = mended.mended_dump AND named.thread = mended.mended_thread AND named.at_ns = mended.mended_ns
