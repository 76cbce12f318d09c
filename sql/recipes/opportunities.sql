-- What should be fixed first?
-- $rows  BIGINT = 20  Rows at most.
-- run            VARCHAR  Run.
-- what           VARCHAR  scale, fix, exposed or waits, as `longpole whatif` takes it.
-- kind           VARCHAR  Kind of the path's time; NULL for any.
-- rank           INTEGER  Rank; NULL for all.
-- name           VARCHAR  Kernel, operator, call or range; NULL for any.
-- saved_ns       BIGINT   What the recorded steps would take less, by replay.
-- speedup_ratio  DOUBLE   Recorded time over predicted.
-- verdict        VARCHAR  ok, or that it is less than the unchanged replay is off by.
-- Empty: where no replay was asked for: longpole analyze RUN --what-if.
SELECT
    run,
    what,
    kind,
    rank,
    name,
    saved_ns,
    speedup_ratio,
    verdict
FROM run_opportunities
ORDER BY saved_ns DESC, run, what, kind, rank, name, pattern, factor
LIMIT $rows
