-- One row per run: what the head of the overview page says about it.
--
-- run                  VARCHAR    Name of the run.
-- world_size           INTEGER    Ranks the job says it has; NULL where no dump says.
-- n_ranks              INTEGER    Ranks that are recorded.
-- n_steps              BIGINT     Steps that any rank recorded.
-- device               VARCHAR    Device the ranks ran on; NULL where no dump says.
-- first_ns             BIGINT     Start of the first event; NULL where there is none.
-- last_ns              BIGINT     End of the last event; NULL where there is none.
-- verdict              VARCHAR    'ok', or that the run must be read with care.
-- reasons              VARCHAR[]  Why the verdict is not ok.
-- recorded_ranks       VARCHAR    Recorded ranks as ranges, the first $max_ranges of them; NULL where there is none.
-- window_source        VARCHAR    View the windows come from: rank_steps, else rank_captures; NULL without windows.
-- step_sources         VARCHAR    How steps were found (marker, inferred, window), comma-separated; NULL where unknown.
-- first_step           BIGINT     Smallest step number; NULL without steps.
-- last_step            BIGINT     Largest step number; NULL without steps.
-- n_captures           BIGINT     Contiguous captures that the steps lie in.
-- n_timed_steps        BIGINT     Steps that have a step time or, for want of aligned clocks, a mean window.
-- n_mean_window_steps  BIGINT     Steps of those whose time is the mean window of the ranks.
-- step_p05_ns          BIGINT     Step time that 5 % of the steps do not exceed; an observed value.
-- step_median_ns       BIGINT     Median step time; an observed value (the lower of the two middle ones).
-- step_p95_ns          BIGINT     Step time that 95 % of the steps do not exceed; an observed value.
-- step_min_ns          BIGINT     Shortest step time.
-- step_max_ns          BIGINT     Longest step time.
-- slowest_step         BIGINT     First step with the longest step time; NULL without step times.
-- n_windows            BIGINT     Windows (rank and step, else rank and capture) that have a duration.
-- n_all_windows        BIGINT     Windows with a duration or without.
-- n_window_ranks       BIGINT     Ranks that have such a window.
-- n_bad_windows        BIGINT     Windows of all those whose verdict is not ok.
-- window_median_ns     BIGINT     Median window; an observed value.
-- compute_ratio        DOUBLE     Share of all windows in which the device computed; NULL without windows.
-- exposed_comm_ratio   DOUBLE     Share of all windows in which only communication ran.
-- exposed_copy_ratio   DOUBLE     Share of all windows in which only copies ran.
-- idle_ratio           DOUBLE     Share of all windows in which nothing ran.
-- idle_input_ratio     DOUBLE     Part of idle_ratio spent waiting for input.
-- idle_sync_ratio      DOUBLE     Part of idle_ratio spent after a synchronising call.
-- idle_host_ratio      DOUBLE     Part of idle_ratio spent waiting for the host to launch.
-- idle_launch_ratio    DOUBLE     Part of idle_ratio spent on work launched and not begun.
-- idle_turnaround_ratio  DOUBLE   Part of idle_ratio spent on the device's own pace.
-- idle_other_ratio     DOUBLE     Part of idle_ratio without a cause.
-- hidden_comm_ratio    DOUBLE     Share of communication that compute hid; NULL without communication.
-- n_activities         BIGINT     Activities in all windows.
-- n_unlinked           BIGINT     Activities of those whose launch is not in the dump.
-- n_dumps              BIGINT     Dump files of the run.
-- n_bad_dumps          BIGINT     Dump files whose verdict is not ok.
-- n_checks             BIGINT     Coverage checks of the run.
-- n_bad_checks         BIGINT     Coverage checks whose verdict is not ok.
--
-- How: a step's time is steps.duration_ns, else the mean window of its ranks. Shares divide sums over all windows, so
-- a long window counts for as much time as it took. Parameters: $run, $max_ranges.
WITH step_windows AS (
    SELECT
        rank,
        capture,
        step,
        duration_ns,
        compute_ns,
        comm_ns,
        exposed_comm_ns,
        overlapped_comm_ns,
        exposed_copy_ns,
        idle_ns,
        idle_input_ns,
        idle_sync_ns,
        idle_host_ns,
        idle_launch_ns,
        idle_turnaround_ns,
        idle_other_ns,
        n_activities,
        n_unlinked,
        verdict
    FROM rank_steps
    WHERE run = $run
),

windows AS (
    SELECT
        'rank_steps' AS source,
        *
    FROM step_windows
    UNION ALL
    SELECT
        'rank_captures' AS source,
        rank,
        capture,
        NULL AS step,
        duration_ns,
        compute_ns,
        comm_ns,
        exposed_comm_ns,
        overlapped_comm_ns,
        exposed_copy_ns,
        idle_ns,
        idle_input_ns,
        idle_sync_ns,
        idle_host_ns,
        idle_launch_ns,
        idle_turnaround_ns,
        idle_other_ns,
        n_activities,
        n_unlinked,
        verdict
    FROM rank_captures
    WHERE run = $run AND NOT EXISTS (FROM step_windows)
),

window_sums AS (
    SELECT
        min(source) AS window_source,
        count(duration_ns) AS n_windows,
        count(*) AS n_all_windows,
        count(DISTINCT rank) FILTER (WHERE duration_ns IS NOT NULL) AS n_window_ranks,
        count(*) FILTER (WHERE verdict IS DISTINCT FROM 'ok') AS n_bad_windows,
        quantile_disc(duration_ns, 0.5) AS window_median_ns,
        nullif(sum(duration_ns), 0) AS duration_ns,
        sum(compute_ns) AS compute_ns,
        nullif(sum(comm_ns), 0) AS comm_ns,
        sum(exposed_comm_ns) AS exposed_comm_ns,
        sum(overlapped_comm_ns) AS overlapped_comm_ns,
        sum(exposed_copy_ns) AS exposed_copy_ns,
        sum(idle_ns) AS idle_ns,
        sum(idle_input_ns) AS idle_input_ns,
        sum(idle_sync_ns) AS idle_sync_ns,
        sum(idle_host_ns) AS idle_host_ns,
        sum(idle_launch_ns) AS idle_launch_ns,
        sum(idle_turnaround_ns) AS idle_turnaround_ns,
        sum(idle_other_ns) AS idle_other_ns,
        coalesce(sum(n_activities), 0)::BIGINT AS n_activities,
        coalesce(sum(n_unlinked), 0)::BIGINT AS n_unlinked
    FROM windows
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

step_times AS (
    SELECT
        capture,
        step,
        coalesce(run_steps.duration_ns, mean_windows.window_ns) AS step_ns,
        run_steps.duration_ns IS NULL AND mean_windows.window_ns IS NOT NULL AS is_mean_window
    FROM run_steps
    FULL JOIN mean_windows USING (capture, step)
),

slowest AS (
    SELECT step
    FROM step_times
    WHERE step_ns IS NOT NULL
    ORDER BY step_ns DESC, capture, step
    LIMIT 1
),

step_sums AS (
    SELECT
        min(step) AS first_step,
        max(step) AS last_step,
        count(DISTINCT capture) AS n_captures,
        count(step_ns) AS n_timed_steps,
        count(*) FILTER (WHERE is_mean_window) AS n_mean_window_steps,
        quantile_disc(step_ns, 0.05) AS step_p05_ns,
        quantile_disc(step_ns, 0.5) AS step_median_ns,
        quantile_disc(step_ns, 0.95) AS step_p95_ns,
        min(step_ns) AS step_min_ns,
        max(step_ns) AS step_max_ns
    FROM step_times
),

sources AS (
    SELECT string_agg(DISTINCT step_source, ', ' ORDER BY step_source) AS step_sources
    FROM rank_captures
    WHERE run = $run
),

recorded AS (
    SELECT
        rank,
        rank - row_number() OVER (ORDER BY rank) AS island
    FROM ranks
    WHERE run = $run AND is_recorded
    GROUP BY rank
),

islands AS (
    SELECT
        min(rank) AS low,
        max(rank) AS high,
        row_number() OVER (ORDER BY min(rank)) AS place
    FROM recorded
    GROUP BY island
),

recorded_text AS (
    SELECT
        string_agg(CASE WHEN low = high THEN low::VARCHAR ELSE low || '–' || high END, ', ' ORDER BY low)
            FILTER (WHERE place <= $max_ranges)
        || CASE WHEN count(*) > $max_ranges THEN ' and more' ELSE '' END AS recorded_ranks
    FROM islands
),

dump_sums AS (
    SELECT
        count(*) AS n_dumps,
        count(*) FILTER (WHERE verdict IS DISTINCT FROM 'ok') AS n_bad_dumps
    FROM dumps
    WHERE run = $run
),

check_sums AS (
    SELECT
        count(*) AS n_checks,
        count(*) FILTER (WHERE verdict IS DISTINCT FROM 'ok') AS n_bad_checks
    FROM run_coverage
    WHERE run = $run
)

SELECT
    runs.run,
    runs.world_size,
    runs.n_ranks,
    runs.n_steps,
    runs.device,
    runs.first_ns,
    runs.last_ns,
    runs.verdict,
    runs.reasons,
    recorded_text.recorded_ranks,
    window_sums.window_source,
    sources.step_sources,
    step_sums.first_step,
    step_sums.last_step,
    step_sums.n_captures,
    step_sums.n_timed_steps,
    step_sums.n_mean_window_steps,
    step_sums.step_p05_ns,
    step_sums.step_median_ns,
    step_sums.step_p95_ns,
    step_sums.step_min_ns,
    step_sums.step_max_ns,
    slowest.step AS slowest_step,
    window_sums.n_windows,
    window_sums.n_all_windows,
    window_sums.n_window_ranks,
    window_sums.n_bad_windows,
    window_sums.window_median_ns,
    window_sums.compute_ns / window_sums.duration_ns AS compute_ratio,
    window_sums.exposed_comm_ns / window_sums.duration_ns AS exposed_comm_ratio,
    window_sums.exposed_copy_ns / window_sums.duration_ns AS exposed_copy_ratio,
    window_sums.idle_ns / window_sums.duration_ns AS idle_ratio,
    window_sums.idle_input_ns / window_sums.duration_ns AS idle_input_ratio,
    window_sums.idle_sync_ns / window_sums.duration_ns AS idle_sync_ratio,
    window_sums.idle_host_ns / window_sums.duration_ns AS idle_host_ratio,
    window_sums.idle_launch_ns / window_sums.duration_ns AS idle_launch_ratio,
    window_sums.idle_turnaround_ns / window_sums.duration_ns AS idle_turnaround_ratio,
    window_sums.idle_other_ns / window_sums.duration_ns AS idle_other_ratio,
    window_sums.overlapped_comm_ns / window_sums.comm_ns AS hidden_comm_ratio,
    window_sums.n_activities,
    window_sums.n_unlinked,
    dump_sums.n_dumps,
    dump_sums.n_bad_dumps,
    check_sums.n_checks,
    check_sums.n_bad_checks
FROM runs
CROSS JOIN window_sums
CROSS JOIN step_sums
CROSS JOIN sources
CROSS JOIN recorded_text
CROSS JOIN dump_sums
CROSS JOIN check_sums
LEFT JOIN slowest ON TRUE
WHERE runs.run = $run
