-- One row per recorded rank: the host whose clock made its times, where the dumps say it.
--
-- rank     INTEGER  Rank.
-- host     VARCHAR  Host; "one host" where every rank is on a device of its own; NULL unknown.
-- evidence VARCHAR  How it is known; NULL unknown.
--
-- Scope: clock
-- How: hosts that are named of all ranks settle it. Where they are not, and no two differ, ranks that each sit on a device
-- of their own, of a host that has at least as many devices as the job has ranks, can only be on one host.
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
        (SELECT count(*) FROM ranks) AS world_size
    FROM recorded
)

SELECT
    recorded.rank,
    CASE
        WHEN recorded.host IS NOT NULL AND counted.n_hosts_known = counted.n_ranks THEN recorded.host
        WHEN counted.n_hosts <= 1
            AND counted.n_device_indices = counted.n_ranks
            AND counted.n_devices >= counted.world_size
            THEN 'one host'
        ELSE recorded.host
    END AS host,
    CASE
        WHEN recorded.host IS NOT NULL AND counted.n_hosts_known = counted.n_ranks THEN 'named'
        WHEN counted.n_hosts <= 1
            AND counted.n_device_indices = counted.n_ranks
            AND counted.n_devices >= counted.world_size
            THEN 'each rank on its own of ' || counted.n_devices || ' devices'
        WHEN recorded.host IS NOT NULL THEN 'named'
    END AS evidence
FROM recorded
CROSS JOIN counted
