-- One row: whether the recorded ranks' times can be compared as they stand, and why.
--
-- is_shared BOOLEAN  Whether one host's clock made all times.
-- basis     VARCHAR  The evidence, or what is missing.
--
-- Scope: run
-- How: hosts that differ settle it; one host that all ranks name settles it; else every rank on a device of its own, of
-- a host that has at least as many devices as the job has ranks, can only be one host.
WITH recorded AS (
    SELECT * FROM ranks WHERE is_recorded
),

counted AS (
    SELECT
        count(*) AS n_ranks,
        count(host) AS n_hosts_known,
        count(DISTINCT host) AS n_hosts,
        count(DISTINCT device_index) AS n_device_indices,
        min(n_devices) AS n_devices,
        any_value(host) AS host
    FROM recorded
),

judged AS (
    SELECT
        *,
        (SELECT count(*) FROM ranks) AS world_size
    FROM counted
)

SELECT
    coalesce(
        n_ranks <= 1
        OR (n_hosts = 1 AND n_hosts_known = n_ranks)
        OR (n_hosts <= 1 AND n_device_indices = n_ranks AND n_devices >= world_size),
        FALSE
    ) AS is_shared,
    CASE
        WHEN n_ranks <= 1 THEN 'one rank'
        WHEN n_hosts > 1 THEN n_hosts || ' hosts'
        WHEN n_hosts = 1 AND n_hosts_known = n_ranks THEN 'one host: ' || host
        WHEN n_device_indices = n_ranks AND n_devices >= world_size
            THEN 'one host: each rank on its own of ' || n_devices || ' devices'
        ELSE 'the dumps do not say that the ranks share a host'
    END AS basis
FROM judged
