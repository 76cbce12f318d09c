-- One row per single change that would save at least a thousandth of the run, the largest saving first.
--
-- what          VARCHAR  As in run_opportunities.
-- kind          VARCHAR  As in run_opportunities.
-- rank          INTEGER  As in run_opportunities.
-- pattern       VARCHAR  As in run_opportunities.
-- factor        DOUBLE   As in run_opportunities.
-- n_steps       BIGINT   Steps predicted.
-- saved_ns      BIGINT   What a step would take less in the mean.
-- speedup_ratio DOUBLE   Recorded over predicted.
-- verdict       VARCHAR  As in run_opportunities.
--
-- How: of changes that save nearly the same, to a twentieth, a rank's repair comes before what is asked of all ranks; of
-- others that save the same the one that is asked of less of the path. Parameters: $run, $max_opportunities.
SELECT
    what,
    kind,
    rank,
    pattern,
    factor,
    n_steps,
    round(saved_ns / nullif(n_steps, 0))::BIGINT AS saved_ns,
    speedup_ratio,
    verdict
FROM run_opportunities
WHERE run = $run AND saved_ns * 1000 >= measured_ns
ORDER BY
    20 * run_opportunities.saved_ns < 19 * max(run_opportunities.saved_ns) OVER (),
    run_opportunities.what <> 'fix' OR run_opportunities.rank IS NULL,
    run_opportunities.saved_ns DESC, path_ns, what, kind, rank, name
LIMIT $max_opportunities
