-- One row per run, earlier run of the same job and workload.
--
-- run        VARCHAR  Run.
-- before_run VARCHAR  A run before it.
-- n_back     BIGINT   How many places before.
--
-- Scope: fleet
SELECT
    later.run,
    earlier.run AS before_run,
    later.place - earlier.place AS n_back
FROM _run_order AS later
JOIN _run_order AS earlier
    ON later.job = earlier.job
        AND later.workload IS NOT DISTINCT FROM earlier.workload
        AND later.place > earlier.place
