-- In which phase of the step did a straggler take longer than the other ranks?
-- $rows  BIGINT = 20  Rows at most.
-- run          VARCHAR  Run.
-- rank         INTEGER  Rank.
-- cause        VARCHAR  Why it was late, as in step_stragglers.
-- phase        VARCHAR  Phase of which it had more: forward, backward, optimizer, or one of run.toml.
-- n_steps      BIGINT   Steps whose straggler it was for that cause.
-- excess_ns    BIGINT   What it had of the phase beyond the median rank, over those steps.
-- excess_ratio DOUBLE   Of how late it was in them.
-- Empty: where no step waited for one rank, or no phase of it took longer.
WITH late AS (
    SELECT
        run,
        step,
        rank,
        cause,
        late_ns
    FROM step_stragglers
    WHERE is_straggler
),
typical AS (
    SELECT
        run,
        step,
        phase,
        quantile_disc(gpu_ns, 0.5) AS median_ns
    FROM phases
    WHERE phase NOT IN ('sync', 'other')
    GROUP BY run, step, phase
)
SELECT
    run,
    late.rank,
    late.cause,
    phase,
    count(*) AS n_steps,
    sum(p.gpu_ns - typical.median_ns)::BIGINT AS excess_ns,
    sum(p.gpu_ns - typical.median_ns) / nullif(sum(late.late_ns), 0) AS excess_ratio
FROM late
JOIN phases AS p USING (run, step, rank)
JOIN typical USING (run, step, phase)
GROUP BY run, late.rank, late.cause, phase
HAVING sum(p.gpu_ns - typical.median_ns) > 0
ORDER BY excess_ns DESC, run, rank, cause, phase
LIMIT $rows
