-- One row per step marker event of a dump, by its place in the file.
--
-- row_id   BIGINT  Place of the event in the dump.
-- step     BIGINT  Number of the step, from the first group of the marker's pattern; NULL where that is no usable number.
-- thread   BIGINT  Thread that carries it.
-- start_ns BIGINT  Start, without base_ns.
-- end_ns   BIGINT  End, without base_ns.
--
-- Scope: dump
-- How: the pattern is tried on each distinct name once, not on each event.
WITH names AS (
    SELECT DISTINCT name
    FROM raw
    WHERE category IN ('annotation', 'cpu_op')
),

numbered AS (
    SELECT
        names.name,
        try_cast(regexp_extract(names.name, context.step_pattern, 1) AS BIGINT) AS step
    FROM names
    CROSS JOIN context
    WHERE regexp_matches(names.name, context.step_pattern)
)

SELECT
    raw.row_id,
    CASE WHEN numbered.step BETWEEN 0 AND (SELECT largest_step FROM params) THEN numbered.step END AS step,
    raw.thread,
    raw.start_ns,
    raw.start_ns + raw.duration_ns AS end_ns
FROM raw
JOIN numbered ON raw.name = numbered.name
WHERE raw.category IN ('annotation', 'cpu_op')
    AND raw.start_ns >= 0
    AND raw.duration_ns BETWEEN 0 AND (SELECT longest_event_ns FROM params)
