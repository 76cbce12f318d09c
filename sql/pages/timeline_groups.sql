-- One row per measure of what stragglers cost an op timeline, of each kind of group the $max_groups largest.
--
-- measure     VARCHAR  As in run_whatif.
-- dimension   VARCHAR  As in run_whatif.
-- group_key   VARCHAR  As in run_whatif.
-- value_ratio DOUBLE   As in run_whatif.
-- duration_ns BIGINT   As in run_whatif.
-- base_ns     BIGINT   As in run_whatif.
-- n_groups    BIGINT   Groups of that measure and kind.
-- verdict     VARCHAR  As in run_whatif.
--
-- How: steps and workers' scores have charts of their own. Parameters: $run, $max_groups.
SELECT
    measure,
    dimension,
    group_key,
    value_ratio,
    duration_ns,
    base_ns,
    count(*) OVER (PARTITION BY measure, dimension) AS n_groups,
    verdict
FROM run_whatif
WHERE run = $run AND dimension NOT IN ('step', 'rank')
QUALIFY row_number() OVER (
    PARTITION BY measure, dimension ORDER BY value_ratio DESC NULLS LAST, try_cast(group_key AS BIGINT), group_key
) <= $max_groups
ORDER BY
    CASE dimension WHEN 'run' THEN 1 WHEN 'workers' THEN 2 WHEN 'stage' THEN 3 WHEN 'dp_rank' THEN 4 ELSE 5 END,
    measure DESC, value_ratio DESC NULLS LAST, try_cast(group_key AS BIGINT), group_key
