-- Is a run faster or slower than another?
-- $baseline  VARCHAR = NULL  Run that it is compared with; without one every other run that is open.
-- $rows      BIGINT = 20     Rows at most.
-- run           VARCHAR  Run.
-- baseline      VARCHAR  Run that it is compared with.
-- baseline_ns   BIGINT   Median step time of the baseline.
-- value_ns      BIGINT   Of the run.
-- change_ns     BIGINT   By how much it grew; negative, shrank.
-- change_ratio  DOUBLE   Of the baseline's.
-- noise_ns      BIGINT   What a change must exceed.
-- verdict       VARCHAR  grew, shrank, within noise, or why it is not known.
-- Empty: with one run open. Name both: --run NEW --run BASE.
SELECT
    run,
    baseline,
    baseline_ns,
    value_ns,
    change_ns,
    change_ratio,
    noise_ns,
    verdict
FROM run_changes
WHERE dimension = 'step' AND baseline = coalesce($baseline::VARCHAR, baseline)
ORDER BY run, baseline
LIMIT $rows
