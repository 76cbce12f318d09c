-- One row per fact of a terminal's summary of an op timeline's what-if: the run, and the three slowest of each kind of group.
--
-- measure     VARCHAR  As in run_whatif.
-- dimension   VARCHAR  As in run_whatif.
-- group_key   VARCHAR  As in run_whatif; of the slowest workers their ranks.
-- value_ratio DOUBLE   As in run_whatif.
-- duration_ns BIGINT   As in run_whatif.
-- base_ns     BIGINT   As in run_whatif.
-- verdict     VARCHAR  As in run_whatif.
--
-- How: parameters: $run.
WITH slow AS (
    SELECT string_agg(rank::VARCHAR, ', ' ORDER BY rank) AS ranks
    FROM timeline_workers
    WHERE run = $run AND is_slowest
)

SELECT
    measure,
    dimension,
    CASE WHEN dimension = 'workers' THEN (SELECT ranks FROM slow) ELSE group_key END AS group_key,
    value_ratio,
    duration_ns,
    base_ns,
    verdict
FROM run_whatif
WHERE run = $run AND (dimension IN ('run', 'workers') OR measure IN ('M_S', 'S') AND dimension IN ('dp_rank', 'stage', 'op_type'))
QUALIFY row_number() OVER (
    PARTITION BY measure, dimension ORDER BY value_ratio DESC NULLS LAST, try_cast(group_key AS BIGINT), group_key
) <= 3
ORDER BY measure, dimension, value_ratio DESC NULLS LAST, try_cast(group_key AS BIGINT), group_key
