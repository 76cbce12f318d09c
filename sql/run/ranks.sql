-- One row per rank of the job, recorded or not: where it ran.
--
-- rank         INTEGER  Rank.
-- host         VARCHAR  Host: from the topology file, else the dump's metadata, else a file name that also holds the
--     process; NULL unknown.
-- device_index INTEGER  Device the rank used; NULL without a device.
-- device_name  VARCHAR  Its name; NULL where the dump does not say.
-- n_devices    INTEGER  Devices the rank's host has, as the dump describes them.
-- process      BIGINT   Process id.
-- node         VARCHAR  From the topology file; NULL without.
-- rack         VARCHAR  From the topology file; NULL without.
-- rail         VARCHAR  From the topology file; NULL without.
-- dp           INTEGER  Data-parallel coordinate, as in _coordinates; NULL unknown.
-- tp           INTEGER  Tensor-parallel coordinate; NULL unknown.
-- pp           INTEGER  Pipeline stage; NULL unknown.
-- ep           INTEGER  Expert-parallel coordinate; NULL unknown.
-- cp           INTEGER  Context-parallel coordinate; NULL unknown.
-- is_recorded  BOOLEAN  Whether a dump of the rank could be read.
--
-- Scope: clock
-- How: PyTorch's TensorBoard handler names a file HOST_PROCESS.TIME.pt.trace.json. A user's own name can look alike, so
-- the host is taken from it only where the process in the name is the one in the dump.
WITH named AS (
    SELECT
        rank,
        coalesce(
            host,
            CASE
                WHEN regexp_extract(file_name, '^(.+)_(\d+)\.\d+\.pt\.trace\.json', 2) = process::VARCHAR
                    THEN regexp_extract(file_name, '^(.+)_(\d+)\.\d+\.pt\.trace\.json', 1)
            END
        ) AS host,
        device_index,
        device_name,
        n_devices,
        process,
        first_ns,
        dump
    FROM dumps
    WHERE error IS NULL AND rank IS NOT NULL
),

recorded AS (
    SELECT
        rank,
        arg_min(host, (first_ns, dump)) AS host,
        arg_min(device_index, (first_ns, dump)) AS device_index,
        arg_min(device_name, (first_ns, dump)) AS device_name,
        arg_min(n_devices, (first_ns, dump)) AS n_devices,
        arg_min(process, (first_ns, dump)) AS process
    FROM named
    GROUP BY rank
),

expected AS (
    SELECT unnest(
        range(
            coalesce(
                (SELECT max(world_size) FROM dumps WHERE world_size <= (SELECT largest_world FROM params)), 0
            )
        )
    )::INTEGER AS rank
    UNION
    SELECT rank FROM recorded
)

SELECT
    expected.rank,
    coalesce(topology.host, recorded.host) AS host,
    recorded.device_index,
    recorded.device_name,
    recorded.n_devices,
    recorded.process,
    topology.node,
    topology.rack,
    topology.rail,
    coordinates.dp,
    coordinates.tp,
    coordinates.pp,
    coordinates.ep,
    coordinates.cp,
    recorded.rank IS NOT NULL AS is_recorded
FROM expected
LEFT JOIN recorded ON expected.rank = recorded.rank
LEFT JOIN topology ON expected.rank = topology.rank
LEFT JOIN _coordinates AS coordinates ON expected.rank = coordinates.rank
