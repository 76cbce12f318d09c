-- Which kernels take longer than in another run?
-- $baseline  VARCHAR = NULL  Run that it is compared with; without one every other run that is open.
-- $rows      BIGINT = 20     Rows at most.
-- run          VARCHAR  Run.
-- baseline     VARCHAR  Run that it is compared with.
-- kernel       VARCHAR  Kernel.
-- baseline_ns  BIGINT   Its time in a median step of the baseline, of the mean rank.
-- value_ns     BIGINT   In a median step of the run.
-- change_ns    BIGINT   By how much it grew.
-- noise_ns     BIGINT   What a change must exceed.
-- verdict      VARCHAR  grew or appeared.
-- Empty: with one run open, and where no kernel grew by more than the noise. Name both: --run NEW --run BASE.
SELECT
    run,
    baseline,
    item AS kernel,
    baseline_ns,
    value_ns,
    change_ns,
    noise_ns,
    verdict
FROM run_changes
WHERE dimension = 'kernel' AND verdict IN ('grew', 'appeared') AND baseline = coalesce($baseline::VARCHAR, baseline)
ORDER BY change_ns DESC, run, baseline, kernel, kind
LIMIT $rows
