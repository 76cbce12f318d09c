-- One row per column of the step charts: a step, or as many neighbouring steps as keep the columns within $max_bins.
--
-- bin               BIGINT   Place of the column, from 0, in the order of capture and step.
-- capture           BIGINT   Capture of its first step.
-- first_step        BIGINT   Its first step.
-- last_step         BIGINT   Its last step.
-- n_steps           BIGINT   Steps in it.
-- n_windows         BIGINT   Windows (rank and step) its means are over; 0 where no rank has a duration.
-- n_mean_window_steps  BIGINT  Steps whose time is the mean window of the ranks, for want of aligned clocks.
-- step_ns           BIGINT   Median step time; an observed value; NULL where no step has a time.
-- step_min_ns       BIGINT   Shortest step time.
-- step_max_ns       BIGINT   Longest step time.
-- compute_ns        BIGINT   Mean compute of a window; NULL where no rank has a duration.
-- exposed_comm_ns   BIGINT   Mean exposed communication of a window.
-- exposed_copy_ns   BIGINT   Mean exposed copies of a window.
-- idle_ns           BIGINT   Mean idle time of a window: the sum of the six causes.
-- idle_input_ns     BIGINT   Mean idle time waiting for input.
-- idle_sync_ns      BIGINT   Mean idle time after a synchronising call.
-- idle_host_ns      BIGINT   Mean idle time waiting for the host to launch.
-- idle_launch_ns    BIGINT   Mean idle time on work launched and not begun.
-- idle_turnaround_ns  BIGINT Mean idle time at the device's own pace.
-- idle_other_ns     BIGINT   Mean idle time without a cause.
-- window_ns         BIGINT   Mean window: compute, exposed communication, exposed copies and idle together.
--
-- How: every mean is rounded to the nanosecond once and the totals are sums of the rounded parts, so a column's parts
-- add up to its window exactly. Parameters: $run, $max_bins.
WITH step_windows AS (
    SELECT
        capture,
        step,
        duration_ns,
        compute_ns,
        exposed_comm_ns,
        exposed_copy_ns,
        idle_input_ns,
        idle_sync_ns,
        idle_host_ns,
        idle_launch_ns,
        idle_turnaround_ns,
        idle_other_ns
    FROM rank_steps
    WHERE run = $run
),

mean_windows AS (
    SELECT
        capture,
        step,
        round(avg(duration_ns))::BIGINT AS window_ns
    FROM step_windows
    GROUP BY capture, step
),

run_steps AS (
    SELECT
        capture,
        step,
        duration_ns
    FROM steps
    WHERE run = $run
),

binned AS (
    SELECT
        places.capture,
        places.step,
        places.place,
        step_bin(places.place, places.n_steps, $max_bins::BIGINT) AS bin,
        coalesce(run_steps.duration_ns, mean_windows.window_ns) AS step_ns,
        run_steps.duration_ns IS NULL AND mean_windows.window_ns IS NOT NULL AS is_mean_window
    FROM step_order AS places
    LEFT JOIN run_steps USING (capture, step)
    LEFT JOIN mean_windows USING (capture, step)
    WHERE places.run = $run
),

bin_times AS (
    SELECT
        bin,
        arg_min(capture, place) AS capture,
        arg_min(step, place) AS first_step,
        arg_max(step, place) AS last_step,
        count(*) AS n_steps,
        count(*) FILTER (WHERE is_mean_window) AS n_mean_window_steps,
        quantile_disc(step_ns, 0.5) AS step_ns,
        min(step_ns) AS step_min_ns,
        max(step_ns) AS step_max_ns
    FROM binned
    GROUP BY bin
),

bin_means AS (
    SELECT
        bin,
        count(duration_ns) AS n_windows,
        round(avg(compute_ns))::BIGINT AS compute_ns,
        round(avg(exposed_comm_ns))::BIGINT AS exposed_comm_ns,
        round(avg(exposed_copy_ns))::BIGINT AS exposed_copy_ns,
        round(avg(idle_input_ns))::BIGINT AS idle_input_ns,
        round(avg(idle_sync_ns))::BIGINT AS idle_sync_ns,
        round(avg(idle_host_ns))::BIGINT AS idle_host_ns,
        round(avg(idle_launch_ns))::BIGINT AS idle_launch_ns,
        round(avg(idle_turnaround_ns))::BIGINT AS idle_turnaround_ns,
        round(avg(idle_other_ns))::BIGINT AS idle_other_ns
    FROM step_windows
    INNER JOIN binned USING (capture, step)
    WHERE step_windows.duration_ns IS NOT NULL
    GROUP BY bin
),

totals AS (
    SELECT
        *,
        idle_input_ns + idle_sync_ns + idle_host_ns + idle_launch_ns + idle_turnaround_ns + idle_other_ns AS idle_ns
    FROM bin_means
)

SELECT
    bin_times.bin,
    bin_times.capture,
    bin_times.first_step,
    bin_times.last_step,
    bin_times.n_steps,
    coalesce(totals.n_windows, 0) AS n_windows,
    bin_times.n_mean_window_steps,
    bin_times.step_ns,
    bin_times.step_min_ns,
    bin_times.step_max_ns,
    totals.compute_ns,
    totals.exposed_comm_ns,
    totals.exposed_copy_ns,
    totals.idle_ns,
    totals.idle_input_ns,
    totals.idle_sync_ns,
    totals.idle_host_ns,
    totals.idle_launch_ns,
    totals.idle_turnaround_ns,
    totals.idle_other_ns,
    totals.compute_ns + totals.exposed_comm_ns + totals.exposed_copy_ns + totals.idle_ns AS window_ns
FROM bin_times
LEFT JOIN totals USING (bin)
ORDER BY bin_times.bin
