-- One row per rank, step, of a run with telemetry: what the device did in the rank's window.
--
-- rank            INTEGER  Rank.
-- step            BIGINT   Step.
-- sm_clock_hz     DOUBLE   Mean clock over the part of the window that samples speak of; NULL without.
-- min_sm_clock_hz BIGINT   Lowest of them.
-- power_w         DOUBLE   Mean power, likewise.
-- temperature_c   DOUBLE   Highest temperature.
-- throttled_ratio DOUBLE   Share of that part in which a limit held the clock down; NULL where the file does not say.
-- covered_ratio   DOUBLE   Share of the window that samples speak of.
-- n_samples       BIGINT   Samples that speak of it.
-- verdict         VARCHAR  ok, or why nothing is known.
--
-- Scope: sampled
-- Order: step
-- How: telemetry and dumps of a host have one clock, so both are read on it. A sample speaks for the time until the next
-- of its device, a minute at most. Hosts are the same where their names are, up to the domain. A file without hosts is of
-- the host that its name has, else of the run's only one.
WITH seats AS (
    SELECT
        rank AS seat_rank,
        CASE
            WHEN regexp_matches(host, '^[0-9.:]+$') THEN host
            ELSE split_part(lower(host), '.', 1)
        END AS host_key,
        device_index
    FROM ranks
    WHERE is_recorded
),

seat AS (
    SELECT
        host_key AS seat_host,
        device_index
    FROM seats
    WHERE seat_rank = (SELECT context.rank FROM context)
),

known_hosts AS (
    SELECT DISTINCT host_key AS known_host
    FROM seats
    WHERE host_key IS NOT NULL
),

files AS (
    SELECT
        told.host_key AS file_host,
        told.file_name AS of_file,
        coalesce(
            told.host_key,
            (
                SELECT arg_max(known_hosts.known_host, (len(known_hosts.known_host), known_hosts.known_host))
                FROM known_hosts
                WHERE list_contains(
                        regexp_split_to_array(lower(told.file_name), '[^a-z0-9-]+'), known_hosts.known_host
                    )
            ),
            (SELECT min(known_hosts.known_host) FROM known_hosts HAVING count(*) = 1)
        ) AS on_host
    FROM (SELECT DISTINCT host_key, file_name FROM telemetry) AS told
),

alone AS (
    SELECT
        (SELECT count(*) FROM files) = 1
        AND count(host_key) = 0
        AND count(DISTINCT device_index) = count(*) AS is_alone
    FROM seats
),

mine AS (
    SELECT
        telemetry.time_ns,
        arg_min(telemetry.sm_clock_hz, (telemetry.file_name, telemetry.sm_clock_hz)) AS sm_clock_hz,
        arg_min(telemetry.power_w, (telemetry.file_name, telemetry.power_w)) AS power_w,
        max(telemetry.temperature_c) AS temperature_c,
        bool_or(telemetry.is_throttled) AS is_throttled
    FROM telemetry
    JOIN files ON telemetry.host_key IS NOT DISTINCT FROM files.file_host AND telemetry.file_name = files.of_file
    JOIN seat ON telemetry.gpu = seat.device_index
    CROSS JOIN alone
    WHERE files.on_host = seat.seat_host OR alone.is_alone
    GROUP BY telemetry.time_ns
),

spans AS (
    SELECT
        *,
        least(
            coalesce(lead(time_ns) OVER (ORDER BY time_ns), time_ns + params.longest_sample_ns),
            time_ns + params.longest_sample_ns
        ) AS until_ns
    FROM mine
    CROSS JOIN params
),

shared AS (
    SELECT
        windows.step AS shared_step,
        least(windows.end_ns, spans.until_ns) - greatest(windows.start_ns, spans.time_ns) AS shared_ns,
        spans.sm_clock_hz,
        spans.power_w,
        spans.temperature_c,
        spans.is_throttled
    FROM rank_windows AS windows
    JOIN spans ON spans.time_ns < windows.end_ns AND spans.until_ns > windows.start_ns
    WHERE windows.duration_ns > 0
),

summed AS (
    SELECT
        shared_step,
        sum(shared_ns::DOUBLE * sm_clock_hz) / sum(shared_ns) FILTER (sm_clock_hz IS NOT NULL) AS sm_clock_hz,
        min(sm_clock_hz) AS min_sm_clock_hz,
        sum(shared_ns * power_w) / sum(shared_ns) FILTER (power_w IS NOT NULL) AS power_w,
        max(temperature_c) AS temperature_c,
        (
            coalesce(sum(shared_ns) FILTER (is_throttled), 0) / sum(shared_ns) FILTER (is_throttled IS NOT NULL)
        )::DOUBLE AS throttled_ratio,
        sum(shared_ns)::BIGINT AS covered_ns,
        count(*) AS n_samples
    FROM shared
    GROUP BY shared_step
)

SELECT
    windows.rank,
    windows.step,
    summed.sm_clock_hz,
    summed.min_sm_clock_hz,
    summed.power_w,
    summed.temperature_c,
    summed.throttled_ratio,
    coalesce(summed.covered_ns / nullif(windows.duration_ns, 0), 0) AS covered_ratio,
    coalesce(summed.n_samples, 0) AS n_samples,
    CASE
        WHEN summed.sm_clock_hz IS NOT NULL THEN 'ok'
        WHEN summed.n_samples > 0 THEN 'its samples have no clock'
        WHEN seat.device_index IS NULL THEN 'its device is not known'
        WHEN seat.seat_host IS NULL AND NOT alone.is_alone THEN 'its host is not known'
        WHEN NOT EXISTS (FROM mine) THEN 'no telemetry of its host and device'
        ELSE 'no sample in its time: the clocks of dumps and telemetry do not meet'
    END AS verdict
FROM rank_windows AS windows
CROSS JOIN seat
CROSS JOIN alone
LEFT JOIN summed ON windows.step = summed.shared_step
