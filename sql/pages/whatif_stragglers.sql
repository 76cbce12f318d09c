-- One row per measure of what the run's stragglers cost it, steps left out.
--
-- measure     VARCHAR  As in run_whatif.
-- dimension   VARCHAR  As in run_whatif.
-- group_key   VARCHAR  As in run_whatif.
-- value_ratio DOUBLE   As in run_whatif.
-- duration_ns BIGINT   As in run_whatif.
-- base_ns     BIGINT   As in run_whatif.
-- verdict     VARCHAR  As in run_whatif.
--
-- How: parameters: $run.
SELECT
    measure,
    dimension,
    group_key,
    value_ratio,
    duration_ns,
    base_ns,
    verdict
FROM run_whatif
WHERE run = $run AND dimension <> 'step'
ORDER BY measure = 'S' DESC, measure, value_ratio DESC NULLS LAST, try_cast(group_key AS BIGINT), group_key
