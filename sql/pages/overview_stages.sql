-- One row per pipeline stage, in order.
--
-- stage          INTEGER  As in pipeline_stages.
-- n_ranks        BIGINT   As in pipeline_stages.
-- n_steps        BIGINT   As in pipeline_stages.
-- compute_ratio  DOUBLE   Compute of its devices' time.
-- bubble_ratio   DOUBLE   As in pipeline_stages.
-- n_microbatches BIGINT   As in pipeline_stages.
-- schedule_ratio DOUBLE   As in pipeline_stages.
-- excess_ratio   DOUBLE   As in pipeline_stages.
-- verdict        VARCHAR  As in pipeline_stages.
--
-- How: parameters: $run, $max_stages.
SELECT
    stage,
    n_ranks,
    n_steps,
    compute_ns / nullif(device_ns, 0) AS compute_ratio,
    bubble_ratio,
    n_microbatches,
    schedule_ratio,
    excess_ratio,
    verdict
FROM pipeline_stages
WHERE run = $run
ORDER BY stage
LIMIT $max_stages
