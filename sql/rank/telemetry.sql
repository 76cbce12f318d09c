-- One row per sample of a device that telemetry beside the dumps has: its clock, power and temperature.
--
-- host          VARCHAR  Host, as the file says it; NULL where it does not.
-- host_key      VARCHAR  The same in lower case and without its domain: what hosts are compared by.
-- file_name     VARCHAR  The file.
-- gpu           INTEGER  Device of the host.
-- time_ns       BIGINT   When, on the host's own clock.
-- sm_clock_hz   BIGINT   Clock of its multiprocessors; NULL where the file has none.
-- power_w       DOUBLE   Power; NULL likewise.
-- temperature_c DOUBLE   Temperature; NULL likewise.
-- throttle      VARCHAR  Why its clock is held down, as NVML names it, else as the file does; NULL for no reason.
-- is_throttled  BOOLEAN  Whether one of them is a limit that was hit, and not idleness or a setting; NULL where the file has none.
--
-- Scope: telemetry
-- Order: host, file_name, gpu, time_ns, sm_clock_hz, power_w, temperature_c, throttle
-- How: of several samples of a device at one time the first in this order counts later.
WITH masks AS (
    SELECT
        found.throttle_mask AS mask,
        string_agg(reasons.reason, ', ' ORDER BY reasons.bit::BIGINT) AS mask_reasons,
        coalesce(bool_or(reasons.is_throttle::BOOLEAN), FALSE) AS is_limit
    FROM (SELECT DISTINCT throttle_mask FROM raw_telemetry WHERE throttle_mask IS NOT NULL) AS found
    LEFT JOIN throttle_reasons AS reasons ON found.throttle_mask & reasons.bit::BIGINT <> 0
    GROUP BY found.throttle_mask
)

SELECT
    raw_telemetry.host,
    CASE
        WHEN regexp_matches(raw_telemetry.host, '^[0-9.:]+$') THEN raw_telemetry.host
        ELSE split_part(lower(raw_telemetry.host), '.', 1)
    END AS host_key,
    raw_telemetry.file_name,
    raw_telemetry.gpu,
    raw_telemetry.time_ns,
    raw_telemetry.sm_clock_hz,
    raw_telemetry.power_w,
    raw_telemetry.temperature_c,
    CASE
        WHEN raw_telemetry.throttle_mask IS NOT NULL THEN masks.mask_reasons
        WHEN lower(raw_telemetry.throttle) NOT IN ('none', 'not active', 'no', 'false') THEN raw_telemetry.throttle
    END AS throttle,
    CASE
        WHEN raw_telemetry.throttle_mask IS NOT NULL THEN masks.is_limit
        ELSE lower(raw_telemetry.throttle) NOT IN ('none', 'not active', 'no', 'false', 'idle', 'gpu_idle')
    END AS is_throttled
FROM raw_telemetry
LEFT JOIN masks ON raw_telemetry.throttle_mask = masks.mask
