-- One row per column of the step charts that has a critical path: its mean time by kind.
--
-- bin            BIGINT  Place of the column, as in overview_step_bins.
-- n_paths        BIGINT  Steps of the column that have a path: the means are over these.
-- compute_ns     BIGINT  Mean time that a step waited for compute.
-- comm_ns        BIGINT  Mean time that a step waited for a collective.
-- copy_ns        BIGINT  Mean time that a step waited for a copy.
-- host_ns        BIGINT  Mean time that a step waited for the host.
-- launch_ns      BIGINT  Mean time that a step waited for work launched and not begun.
-- turnaround_ns  BIGINT  Mean time that a step waited for the device's own pace.
-- sync_ns        BIGINT  Mean time that a step waited for a synchronising call.
-- input_ns       BIGINT  Mean time that a step waited for a data loader.
-- unknown_ns     BIGINT  Mean time that a step waited for what nothing in the dump says.
--
-- How: every mean is rounded to the nanosecond once; a kind that is on no path of a column is 0. Parameters: $run,
-- $max_bins.
WITH by_step AS (
    SELECT
        step,
        coalesce(sum(duration_ns) FILTER (kind = 'compute'), 0) AS compute_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'comm'), 0) AS comm_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'copy'), 0) AS copy_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'host'), 0) AS host_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'launch'), 0) AS launch_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'turnaround'), 0) AS turnaround_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'sync'), 0) AS sync_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'input'), 0) AS input_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'unknown'), 0) AS unknown_ns
    FROM step_path_kinds
    WHERE run = $run
    GROUP BY step
),

binned AS (
    SELECT
        capture,
        step,
        step_bin(place, n_steps, $max_bins::BIGINT) AS bin
    FROM step_order
    WHERE run = $run
)

SELECT
    binned.bin,
    count(*) AS n_paths,
    round(avg(by_step.compute_ns))::BIGINT AS compute_ns,
    round(avg(by_step.comm_ns))::BIGINT AS comm_ns,
    round(avg(by_step.copy_ns))::BIGINT AS copy_ns,
    round(avg(by_step.host_ns))::BIGINT AS host_ns,
    round(avg(by_step.launch_ns))::BIGINT AS launch_ns,
    round(avg(by_step.turnaround_ns))::BIGINT AS turnaround_ns,
    round(avg(by_step.sync_ns))::BIGINT AS sync_ns,
    round(avg(by_step.input_ns))::BIGINT AS input_ns,
    round(avg(by_step.unknown_ns))::BIGINT AS unknown_ns
FROM binned
INNER JOIN by_step USING (step)
GROUP BY binned.bin
ORDER BY binned.bin
