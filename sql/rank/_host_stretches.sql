-- One row per stretch of host time that is to be split by what the host ran.
--
-- step      BIGINT   Of the path: step. NULL for the time before a host point.
-- piece_no  BIGINT   Of the path: as in path_pieces. Else the host point, as in _host_points.
-- dump_no   BIGINT   Which of the rank's dumps.
-- thread    BIGINT   Thread whose time it is.
-- start_ns  BIGINT   Start, on the rank's own clock.
-- end_ns    BIGINT   End.
--
-- Scope: path
-- How: stretches of a dump do not overlap, for a path is in one place at a time and host points follow each other. One of
-- the two sources is empty.
SELECT
    step,
    piece_no,
    dump_no,
    thread,
    start_ns,
    end_ns
FROM _path_hosts
WHERE call IS NULL
UNION ALL
SELECT
    NULL AS step,
    point_no AS piece_no,
    dump_no,
    thread,
    start_ns,
    end_ns
FROM _host_intervals
