-- One row: what one launch costs the host, as this rank's recording measured it.
--
-- launch_ns BIGINT  Median duration of the calls that launched kernels; NULL where there is none.
--
-- Scope: rank
SELECT quantile_disc(launch_end_ns - launch_ns, 0.5)::BIGINT AS launch_ns
FROM (
    SELECT DISTINCT
        dump_no,
        launch_thread,
        launch_ns,
        launch_end_ns
    FROM events
    WHERE category = 'kernel' AND launch_ns IS NOT NULL
)
