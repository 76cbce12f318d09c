-- One row per rank, step whose window does not start where the step before it ended.
--
-- run           VARCHAR  Run.
-- rank          INTEGER  Rank.
-- step          BIGINT   Step.
-- start_ns      BIGINT   Start of its window.
-- end_before_ns BIGINT   End of the window before.
--
-- Scope: check
-- How: without a device the windows are the host's own ranges, which need not touch.
WITH chained AS (
    SELECT
        run,
        rank,
        step,
        start_ns,
        verdict,
        lag(end_ns) OVER (PARTITION BY run, rank, capture ORDER BY step) AS end_before_ns
    FROM rank_steps
)

SELECT
    run,
    rank,
    step,
    start_ns,
    end_before_ns
FROM chained
WHERE start_ns <> end_before_ns AND NOT contains(verdict, 'no device')
