-- One row per run: how long its steps are and what they are made of, to follow from run to run.
--
-- run                VARCHAR  Run.
-- first_ns           BIGINT   Earliest start of a rank's first step.
-- n_ranks            INTEGER  Ranks recorded.
-- n_steps            BIGINT   Steps recorded.
-- step_time_ns       BIGINT   Median step time; where clocks are not aligned, the median window of a rank.
-- compute_ratio      DOUBLE   Share of the ranks' windows that is compute.
-- exposed_comm_ratio DOUBLE   Share that is comm beside no compute.
-- exposed_copy_ratio DOUBLE   Share that is copies beside neither.
-- idle_ratio         DOUBLE   Share that is idle.
-- verdict            VARCHAR  As in runs.
-- job                VARCHAR  Job: [run] job, else the workload. NULL: neither.
-- workload           VARCHAR  [run] workload, else a hash of model, batch, parallelism and hardware. NULL: neither.
-- mfu_ratio          DOUBLE   As in run_mfu.
-- straggler_ratio    DOUBLE   As in run_measures, with the two below.
-- coverage_ratio     DOUBLE   Least share of what run_coverage expected.
-- goodput_ratio      DOUBLE   Train time by wall time.
--
-- Scope: fleet
WITH step_times AS (
    SELECT
        run,
        quantile_disc(duration_ns, 0.5) AS duration_ns
    FROM steps
    WHERE duration_ns IS NOT NULL
    GROUP BY run
),

windows AS (
    SELECT
        run,
        quantile_disc(duration_ns, 0.5) AS duration_ns,
        sum(compute_ns) / nullif(sum(duration_ns), 0) AS compute_ratio,
        sum(exposed_comm_ns) / nullif(sum(duration_ns), 0) AS exposed_comm_ratio,
        sum(exposed_copy_ns) / nullif(sum(duration_ns), 0) AS exposed_copy_ratio,
        sum(idle_ns) / nullif(sum(duration_ns), 0) AS idle_ratio
    FROM rank_steps
    GROUP BY run
),

measured AS (
    SELECT
        run,
        any_value(value) FILTER (measure = 'mfu_ratio') AS mfu_ratio,
        any_value(value) FILTER (measure = 'straggler_ratio') AS straggler_ratio,
        any_value(value) FILTER (measure = 'coverage_ratio') AS coverage_ratio,
        any_value(value) FILTER (measure = 'goodput_ratio') AS goodput_ratio
    FROM run_measures
    GROUP BY run
)

SELECT
    runs.run,
    runs.first_ns,
    runs.n_ranks,
    runs.n_steps,
    coalesce(step_times.duration_ns, windows.duration_ns) AS step_time_ns,
    windows.compute_ratio,
    windows.exposed_comm_ratio,
    windows.exposed_copy_ratio,
    windows.idle_ratio,
    runs.verdict,
    told.job,
    told.workload,
    measured.mfu_ratio,
    measured.straggler_ratio,
    measured.coverage_ratio,
    measured.goodput_ratio
FROM runs
LEFT JOIN windows ON runs.run = windows.run
LEFT JOIN step_times ON runs.run = step_times.run
LEFT JOIN measured ON runs.run = measured.run
LEFT JOIN told_runs AS told ON runs.run = told.run
