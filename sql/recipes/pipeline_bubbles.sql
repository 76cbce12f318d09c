-- How large is the bubble of each pipeline stage, and how large must it be?
-- $rows  BIGINT = 20  Rows at most.
-- run             VARCHAR  Run.
-- stage           INTEGER  Pipeline stage.
-- n_ranks         BIGINT   Recorded ranks of it.
-- bubble_ratio    DOUBLE   Of its devices' time, idle or in an exposed send or receive.
-- schedule_ratio  DOUBLE   What the schedule costs; NULL where the number of microbatches is not known.
-- beyond_ratio    DOUBLE   The first less the second.
-- excess_ratio    DOUBLE   Compute of a rank in a step beyond the median stage.
-- verdict         VARCHAR  ok, or the reasons to doubt the row.
-- Empty: without pipeline stages.
SELECT
    run,
    stage,
    n_ranks,
    bubble_ratio,
    schedule_ratio,
    bubble_ratio - schedule_ratio AS beyond_ratio,
    excess_ratio,
    verdict
FROM pipeline_stages
ORDER BY run, stage
LIMIT $rows
