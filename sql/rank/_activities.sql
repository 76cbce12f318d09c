-- One row per activity that occupies a lane of a rank, in order of start.
--
-- activity_no   BIGINT   Place in order of start, from 0.
-- dump_no       BIGINT   Which of the rank's dumps.
-- step          BIGINT   Step that launched it; NULL where its launch is in no step or not in the dump.
-- precedence    TINYINT  0 compute, 1 comm, 2 copy: a moment that several cover counts as the lowest.
-- start_ns      BIGINT   Start.
-- end_ns        BIGINT   End, not included.
-- stream        BIGINT   Device stream; NULL on the host.
-- launch_ns     BIGINT   Start of its launch; on the host its own start; NULL where the dump lacks the launch.
-- launch_end_ns BIGINT   End of its launch; on the host its own start; NULL where the dump lacks the launch.
-- launch_thread BIGINT   Thread of its launch; on the host its own.
-- is_linked     BOOLEAN  Whether its launch is in the dump.
-- is_device     BOOLEAN  Whether it runs on the device.
--
-- Scope: rank
-- How: the rows keep the order of the events' files, which are sorted by start. Every running maximum downstream
-- relies on it, so it is asserted in _coverage.
SELECT
    row_number() OVER () - 1 AS activity_no,
    dump_no,
    step,
    CASE kind WHEN 'compute' THEN 0 WHEN 'comm' THEN 1 ELSE 2 END::TINYINT AS precedence,
    start_ns,
    start_ns + duration_ns AS end_ns,
    stream,
    CASE WHEN category IN ('kernel', 'memcpy', 'memset') THEN launch_ns ELSE start_ns END AS launch_ns,
    CASE WHEN category IN ('kernel', 'memcpy', 'memset') THEN launch_end_ns ELSE start_ns END AS launch_end_ns,
    CASE WHEN category IN ('kernel', 'memcpy', 'memset') THEN launch_thread ELSE thread END AS launch_thread,
    launch_ns IS NOT NULL OR category NOT IN ('kernel', 'memcpy', 'memset') AS is_linked,
    category IN ('kernel', 'memcpy', 'memset') AS is_device
FROM events
WHERE kind IS NOT NULL
