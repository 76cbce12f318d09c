-- One row per device activity of a dump, by its place in the file: who launched it, in which step, and what it is.
--
-- row_id         BIGINT   Place of the event in the dump.
-- kind           VARCHAR  compute, comm or copy; NULL where the event has no usable time.
-- comm_evidence  VARCHAR  Why it is comm, or would be had it a duration: metadata, operator or name; else NULL.
-- launch_ns      BIGINT   Start of the launching call, without base_ns; NULL where the dump lacks it.
-- launch_end_ns  BIGINT   End of the launching call.
-- launch_thread  BIGINT   Thread of the launching call.
-- step           BIGINT   Step of the launching call.
--
-- Scope: dump
WITH device AS (
    SELECT
        raw.row_id,
        raw.category,
        raw.name,
        raw.start_ns,
        raw.start_ns >= 0 AND raw.duration_ns BETWEEN 0 AND (SELECT longest_event_ns FROM params) AS is_timed,
        raw.comm_op IS NOT NULL AND lower(raw.comm_op) <> 'wait' AS has_metadata,
        calls.start_ns AS launch_ns,
        calls.end_ns AS launch_end_ns,
        calls.thread AS launch_thread,
        calls.step
    FROM raw
    LEFT JOIN _dump_calls AS calls ON raw.correlation_id = calls.correlation_id
    WHERE raw.category IN ('kernel', 'memcpy', 'memset')
),

comm_names AS (
    SELECT DISTINCT names.name
    FROM (SELECT DISTINCT name FROM device WHERE category = 'kernel') AS names
    WHERE EXISTS (FROM comm_patterns WHERE regexp_matches(names.name, comm_patterns.pattern))
),

evidence AS (
    SELECT
        device.*,
        CASE
            WHEN device.category <> 'kernel' THEN NULL
            WHEN device.has_metadata THEN 'metadata'
            WHEN device.launch_ns < ranges.end_ns THEN 'operator'
            WHEN comm_names.name IS NOT NULL THEN 'name'
        END AS comm_evidence
    FROM device
    ASOF LEFT JOIN _dump_comm_ranges AS ranges
        ON device.launch_thread = ranges.thread AND device.launch_ns >= ranges.start_ns
    LEFT JOIN comm_names ON device.name = comm_names.name
)

SELECT
    row_id,
    CASE
        WHEN NOT is_timed OR is_timed IS NULL THEN NULL
        WHEN category <> 'kernel' THEN 'copy'
        WHEN comm_evidence IS NOT NULL THEN 'comm'
        ELSE 'compute'
    END AS kind,
    comm_evidence,
    launch_ns,
    launch_end_ns,
    launch_thread,
    step
FROM evidence
