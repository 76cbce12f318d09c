-- One row per element type that the rank's device multiplies: its peak, and the device's bandwidths; one row in any case.
--
-- device           VARCHAR  Device as data sheets name it; as told or recorded where it is not known.
-- dtype            VARCHAR  Element type; NULL where no peak is known.
-- peak_flops       DOUBLE   Dense FLOP/s at that type.
-- hbm_bytes_per_s  DOUBLE   Of the device's memory; NULL unknown.
-- link_bytes_per_s DOUBLE   Of a device's link to others, one direction; NULL unknown.
--
-- Scope: rank
-- How: what run.toml tells counts before the table of devices; a peak that it gives is that of its element type alone, and
-- one twice the table's, which is the one with sparsity, is not taken.
WITH spelt AS (
    SELECT DISTINCT
        device AS known_device,
        regexp_replace(lower(unnest(list_append(string_split(aliases, '|'), device))), '[^a-z0-9]', '', 'g') AS spelling
    FROM devices
),

found AS (
    SELECT
        told_hardware.*,
        spelt.known_device
    FROM told_hardware
    LEFT JOIN spelt ON regexp_replace(lower(told_hardware.device), '[^a-z0-9]', '', 'g') = spelt.spelling
),

types AS (
    SELECT
        found.known_device,
        devices.dtype,
        devices.peak_flops::DOUBLE AS peak_flops
    FROM found
    JOIN devices ON found.known_device = devices.device
    UNION
    SELECT
        known_device,
        dtype,
        NULL::DOUBLE AS peak_flops
    FROM found
    WHERE dtype IS NOT NULL AND peak_flops IS NOT NULL
),

peaks AS (
    SELECT
        dtype,
        max(peak_flops) AS peak_flops
    FROM types
    GROUP BY dtype
),

bandwidths AS (
    SELECT
        max(hbm_bytes_per_s::DOUBLE) AS hbm_bytes_per_s,
        max(link_bytes_per_s::DOUBLE) AS link_bytes_per_s
    FROM devices
    WHERE device = (SELECT known_device FROM found)
)

SELECT
    coalesce(found.known_device, found.device) AS device,
    peaks.dtype,
    CASE
        WHEN peaks.dtype = found.dtype AND coalesce(found.peak_flops / peaks.peak_flops NOT BETWEEN (SELECT least_sparse_ratio FROM params) AND (SELECT most_sparse_ratio FROM params), TRUE)
            THEN coalesce(found.peak_flops, peaks.peak_flops)
        ELSE peaks.peak_flops
    END AS peak_flops,
    coalesce(found.hbm_bytes_per_s, bandwidths.hbm_bytes_per_s) AS hbm_bytes_per_s,
    coalesce(found.link_bytes_per_s, bandwidths.link_bytes_per_s) AS link_bytes_per_s
FROM found
CROSS JOIN bandwidths
LEFT JOIN peaks ON TRUE
