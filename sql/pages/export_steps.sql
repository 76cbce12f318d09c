-- One row per step of the run in the range.
--
-- step          BIGINT   Number of the step.
-- start_ns      BIGINT   Start, on the run's clock.
-- end_ns        BIGINT   End.
-- end_rank      INTEGER  Rank that completed it last.
-- end_margin_ns BIGINT   By how much, over the next rank.
-- verdict       VARCHAR  ok, or the reasons to doubt it.
--
-- How: steps without a time, for want of aligned clocks, are left out. Parameters: $run, $first_step, $last_step.
SELECT
    step,
    start_ns,
    end_ns,
    end_rank,
    end_margin_ns,
    verdict
FROM steps
WHERE run = $run AND step BETWEEN $first_step AND $last_step AND start_ns IS NOT NULL
ORDER BY start_ns, end_ns DESC, step
