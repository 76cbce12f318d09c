-- One row per segment of the critical paths of the steps in the range, in order of time.
--
-- step        BIGINT   Step.
-- rank        INTEGER  Rank.
-- lane        VARCHAR  stream N or thread N.
-- kind        VARCHAR  As in step_critical_path.
-- name        VARCHAR  As in step_critical_path.
-- start_ns    BIGINT   Start, on the run's clock.
-- end_ns      BIGINT   End.
-- verdict     VARCHAR  ok, or why its time may be another's.
--
-- How: paths go through all ranks, whichever are exported. Parameters: $run, $first_step, $last_step.
SELECT
    step,
    rank,
    lane,
    kind,
    name,
    start_ns,
    end_ns,
    verdict
FROM step_critical_path
WHERE run = $run AND step BETWEEN $first_step AND $last_step
ORDER BY start_ns, end_ns, step, seq
