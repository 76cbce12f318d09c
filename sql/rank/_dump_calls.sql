-- One row per correlation id of a dump: the host call that launched the device work of that id.
--
-- correlation_id BIGINT   Joins the call to what it launched.
-- start_ns       BIGINT   Start of the call, without base_ns.
-- end_ns         BIGINT   End of the call, without base_ns.
-- thread         BIGINT   Host thread that called.
-- step           BIGINT   Step whose host range holds the call's start; NULL outside every step.
--
-- Scope: dump
-- How: where a runtime call and the driver call beneath it carry one id, the outer one, which starts first, counts.
WITH calls AS (
    SELECT
        raw.correlation_id,
        min(raw.start_ns) AS start_ns,
        max(raw.start_ns + raw.duration_ns) AS end_ns,
        arg_min(raw.thread, raw.start_ns) AS thread
    FROM raw
    WHERE raw.category IN ('runtime', 'driver')
        AND raw.correlation_id IS NOT NULL
        AND raw.start_ns >= 0
        AND raw.duration_ns BETWEEN 0 AND (SELECT longest_event_ns FROM params)
    GROUP BY raw.correlation_id
)

SELECT
    calls.correlation_id,
    calls.start_ns,
    calls.end_ns,
    calls.thread,
    CASE WHEN calls.start_ns < _dump_steps.end_ns THEN _dump_steps.step END AS step
FROM calls
ASOF LEFT JOIN _dump_steps ON calls.start_ns >= _dump_steps.start_ns
