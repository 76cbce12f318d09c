-- One row: the dense peak of the run's device at the run's element type, and how many devices there are.
--
-- device     VARCHAR  Device as data sheets name it; as told or recorded where it is not known.
-- dtype      VARCHAR  Element type; NULL where run.toml gives none.
-- peak_flops DOUBLE   FLOP/s of one device, without sparsity; NULL with reasons.
-- n_devices  BIGINT   Devices of the job, one for a rank.
-- reasons    VARCHAR[]  Why there is no peak; empty where there is.
--
-- Scope: mfu
-- How: never another device's peak, never another type's. A peak in run.toml counts before the table's, unless it is twice
-- the table's: then it is the one with sparsity.
WITH spelt AS (
    SELECT DISTINCT
        device,
        regexp_replace(lower(unnest(list_append(string_split(aliases, '|'), device))), '[^a-z0-9]', '', 'g') AS spelling
    FROM devices
),

recorded AS (
    SELECT
        count(DISTINCT device_name) AS n_names,
        string_agg(DISTINCT device_name, ', ' ORDER BY device_name) AS names
    FROM ranks
    WHERE is_recorded
),

told AS (
    SELECT
        run_config.*,
        recorded.n_names,
        recorded.names,
        coalesce(run_config.hardware_device, CASE WHEN recorded.n_names = 1 THEN recorded.names END) AS device_name,
        regexp_replace(lower(device_name), '[^a-z0-9]', '', 'g') AS spelling
    FROM run_config
    CROSS JOIN recorded
),

nearest AS (
    SELECT arg_min(spelt.device, (levenshtein(spelt.spelling, told.spelling), spelt.device)) AS device
    FROM told
    CROSS JOIN spelt
    WHERE told.spelling IS NOT NULL
),

known AS (
    SELECT
        told.*,
        spelt.device,
        (
            SELECT any_value(devices.peak_flops)::DOUBLE
            FROM devices
            WHERE devices.device = spelt.device AND devices.dtype = told.hardware_dtype
        ) AS known_peak,
        (SELECT string_agg(devices.dtype, ', ') FROM devices WHERE devices.device = spelt.device) AS dtypes
    FROM told
    LEFT JOIN spelt ON told.spelling = spelt.spelling
),

size AS (
    SELECT
        max(world_size)::BIGINT AS n_world,
        (SELECT count(*) FROM ranks) AS n_ranks
    FROM dumps
    WHERE world_size <= (SELECT largest_world FROM params)
),

counted AS (
    SELECT
        known.*,
        coalesce(size.n_world, size.n_ranks) AS n_found,
        size.n_world IS NOT NULL AS is_stated,
        known.parallel_dp::DOUBLE
        * coalesce(known.parallel_tp, 1)
        * coalesce(known.parallel_pp, 1)
        * coalesce(known.parallel_cp, 1) AS n_told
    FROM known
    CROSS JOIN size
),

judged AS (
    SELECT
        *,
        CASE
            WHEN hardware_peak_flops IS NULL AND device_name IS NULL AND n_names > 1
                THEN format('ranks ran on different devices ({}): write [hardware] device, or peak_flops', names)
            WHEN hardware_peak_flops IS NULL AND device_name IS NULL
                THEN 'no dump names the device: write [hardware] device, or peak_flops'
            WHEN hardware_peak_flops IS NULL AND counted.device IS NULL
                THEN
                    format(
                        'device {} is not one whose peak is known (nearest: {}): write [hardware] device, or peak_flops',
                        device_name,
                        nearest.device
                    )
            WHEN hardware_peak_flops IS NULL AND hardware_dtype IS NULL
                THEN format('run.toml lacks [hardware] dtype: of {} are known {}', counted.device, dtypes)
            WHEN hardware_peak_flops IS NULL AND known_peak IS NULL
                THEN format('no {} peak of {} is known, only {}: write [hardware] peak_flops', hardware_dtype, counted.device, dtypes)
            WHEN hardware_peak_flops / known_peak BETWEEN (SELECT least_sparse_ratio FROM params) AND (SELECT most_sparse_ratio FROM params)
                THEN
                    format(
                        '[hardware] peak_flops is the peak with sparsity: without, {} has {:.4g} in {}',
                        counted.device,
                        known_peak,
                        hardware_dtype
                    )
        END AS peak_reason,
        CASE
            WHEN is_stated AND n_told <> n_found
                THEN format('[parallel] dp x tp x pp x cp is {:.0f}, the job has {} ranks', n_told, n_found)
        END AS size_reason
    FROM counted
    CROSS JOIN nearest
)

SELECT
    coalesce(judged.device, device_name) AS device,
    hardware_dtype AS dtype,
    CASE WHEN peak_reason IS NULL THEN coalesce(hardware_peak_flops, known_peak) END AS peak_flops,
    CASE WHEN is_stated OR n_told > largest_world THEN n_found ELSE coalesce(n_told::BIGINT, n_found) END AS n_devices,
    list_filter([peak_reason, size_reason], lambda reason: reason IS NOT NULL) AS reasons
FROM judged
CROSS JOIN params
