-- How does MFU go from step to step?
-- $rows  BIGINT = 20  Rows at most.
-- run            VARCHAR  Run.
-- step           BIGINT   Step.
-- duration_ns    BIGINT   The step time.
-- tokens_per_s   DOUBLE   Positions processed in a second; NULL unknown.
-- mfu_ratio      DOUBLE   Model FLOPs utilisation; NULL with reason.
-- of_best_ratio  DOUBLE   Of the best step's.
-- reason         VARCHAR  Why mfu_ratio is NULL; NULL where it is not.
SELECT
    run,
    step,
    duration_ns,
    tokens_per_s,
    mfu_ratio,
    mfu_ratio / max(mfu_ratio) OVER (PARTITION BY run) AS of_best_ratio,
    reason
FROM step_mfu
ORDER BY run, step
LIMIT $rows
