-- One row per event of a dump, in the order of the file: its step, its kind and its launch.
--
-- row_id        BIGINT   Place of the event in the dump.
-- is_marker     BOOLEAN  Whether it is a step marker.
-- kind          VARCHAR  compute, comm or copy; NULL for what occupies no lane.
-- comm_evidence VARCHAR  comm only: metadata, operator or name.
-- step          BIGINT   Step that launched it, or that it starts in on the host; a marker's own.
-- launch_ns     BIGINT   Start of its launch, without base_ns.
-- launch_end_ns BIGINT   End of its launch.
-- launch_thread BIGINT   Thread of its launch.
--
-- Scope: dump
WITH placed AS (
    SELECT
        raw.row_id,
        raw.category,
        raw.correlation_id,
        CASE WHEN raw.start_ns < steps.end_ns THEN steps.step END AS host_step
    FROM raw
    ASOF LEFT JOIN _dump_steps AS steps ON raw.start_ns >= steps.start_ns
)

SELECT
    placed.row_id,
    markers.row_id IS NOT NULL AS is_marker,
    coalesce(device.kind, host.kind) AS kind,
    CASE
        WHEN device.kind = 'comm' THEN device.comm_evidence
        ELSE host.comm_evidence
    END AS comm_evidence,
    CASE
        WHEN placed.category IN ('kernel', 'memcpy', 'memset') THEN device.step
        WHEN placed.category = 'sync' THEN calls.step
        WHEN placed.category IN ('gpu_annotation', 'trace') THEN NULL
        WHEN markers.row_id IS NOT NULL THEN markers.step
        ELSE placed.host_step
    END AS step,
    coalesce(device.launch_ns, calls.start_ns) AS launch_ns,
    coalesce(device.launch_end_ns, calls.end_ns) AS launch_end_ns,
    coalesce(device.launch_thread, calls.thread) AS launch_thread
FROM placed
LEFT JOIN _dump_markers AS markers ON placed.row_id = markers.row_id AND markers.step IS NOT NULL
LEFT JOIN _dump_device_rows AS device ON placed.row_id = device.row_id
LEFT JOIN _dump_host_rows AS host ON placed.row_id = host.row_id
LEFT JOIN _dump_calls AS calls ON placed.category = 'sync' AND placed.correlation_id = calls.correlation_id
ORDER BY placed.row_id
