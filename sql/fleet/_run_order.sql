-- One row per run: what it may be compared with, and where it stands among those.
--
-- run      VARCHAR  Run.
-- job      VARCHAR  Job: [run] job, else the workload. NULL: neither.
-- workload VARCHAR  [run] workload, else a hash of model, batch, parallelism and hardware. NULL: neither.
-- baseline VARCHAR  The run that a person named to compare with; NULL without.
-- first_ns BIGINT   When its first step began.
-- place    BIGINT   Its place among runs of the same job and workload, by time.
--
-- Scope: fleet
SELECT
    runs.run,
    told.job,
    told.workload,
    told.baseline,
    runs.first_ns,
    row_number() OVER (
        PARTITION BY told.job, told.workload ORDER BY runs.first_ns NULLS FIRST, runs.run
    ) AS place
FROM runs
JOIN told_runs AS told ON runs.run = told.run
