-- Which rank made a step slow, and why?
-- $step  BIGINT = NULL  Step; without one the slowest.
-- $rows  BIGINT = 20    Rows at most.
-- run           VARCHAR  Run.
-- step          BIGINT   Step.
-- duration_ns   BIGINT   The step time.
-- rank          INTEGER  Rank that others waited for.
-- late_ns       BIGINT   How long they did.
-- is_straggler  BOOLEAN  Whether it is the step's straggler: beyond the noise, and twice as late as any other.
-- cause         VARCHAR  What it spent more on than the others.
-- cause_ns      BIGINT   How much more; NULL where nothing explains it.
-- verdict       VARCHAR  ok, or why it is not named.
-- Empty: where nobody waited for anybody, as with one rank or ranks that are alike.
WITH chosen AS (
    SELECT
        run,
        coalesce($step::BIGINT, arg_max(step, (duration_ns, -step)) FILTER (WHERE duration_ns IS NOT NULL)) AS step
    FROM steps
    GROUP BY run
)
SELECT
    run,
    step,
    s.duration_ns,
    l.rank,
    l.late_ns,
    l.is_straggler,
    l.cause,
    l.cause_ns,
    l.verdict
FROM chosen
JOIN steps AS s USING (run, step)
JOIN step_stragglers AS l USING (run, step)
ORDER BY run, l.late_ns DESC, l.rank
LIMIT $rows
