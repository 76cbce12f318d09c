-- How well are the ranks' clocks known?
-- $rows  BIGINT = 20  Rows at most.
-- run          VARCHAR  Run.
-- rank         INTEGER  Rank.
-- residual_ns  BIGINT   Median deviation of its collectives' ends; below three of it a difference means nothing.
-- offset_ns    BIGINT   How far its clock is ahead of the run's.
-- drift_ppb    DOUBLE   How much faster it runs, in parts per 10⁹.
-- n_anchors    BIGINT   Collectives that this rests on.
-- basis        VARCHAR  collectives, host or none: what the offset rests on.
-- verdict      VARCHAR  ok, or why its times cannot be compared with all others'.
SELECT
    run,
    rank,
    residual_ns,
    offset_ns,
    drift_ppb,
    n_anchors,
    basis,
    verdict
FROM rank_clocks
ORDER BY residual_ns DESC NULLS FIRST, run, rank
LIMIT $rows
