-- Which parts of a step changed most since another run?
-- $baseline  VARCHAR = NULL  Run that it is compared with; without one every other run that is open.
-- $rows      BIGINT = 20     Rows at most.
-- run          VARCHAR  Run.
-- baseline     VARCHAR  Run that it is compared with.
-- dimension    VARCHAR  Way of taking a step apart: time, phase, path, kernel and others; each adds up by itself.
-- item         VARCHAR  Part.
-- baseline_ns  BIGINT   Its time in a median step of the baseline.
-- value_ns     BIGINT   In a median step of the run.
-- change_ns    BIGINT   By how much it grew; negative, shrank.
-- verdict      VARCHAR  grew, shrank, appeared or vanished.
-- Empty: with one run open, and where nothing changed by more than the noise. Name both: --run NEW --run BASE.
SELECT
    run,
    baseline,
    dimension,
    item,
    baseline_ns,
    value_ns,
    change_ns,
    verdict
FROM run_changes
WHERE verdict IN ('grew', 'shrank', 'appeared', 'vanished') AND baseline = coalesce($baseline::VARCHAR, baseline)
ORDER BY abs(change_ns) DESC, run, baseline, dimension, item, kind
LIMIT $rows
