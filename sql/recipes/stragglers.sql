-- Which ranks make the run slow, how often, and what do they cost?
-- $rows  BIGINT = 20  Rows at most.
-- run               VARCHAR  Run.
-- rank              INTEGER  Rank.
-- host              VARCHAR  Its host; NULL unknown.
-- n_straggler       BIGINT   Steps whose straggler it is.
-- share_last_ratio  DOUBLE   Of the steps in which lateness is known.
-- late_ns           BIGINT   How late it was in those.
-- cause             VARCHAR  What most of that is put down to.
-- pattern           VARCHAR  persistent, periodic or transient.
-- saved_ns          BIGINT   Mean step time saved with it at the median, by replay; NULL where none was asked for.
-- verdict           VARCHAR  ok, or the reasons to doubt the row.
-- Empty: where no step waited for one rank.
SELECT
    run,
    rank,
    host,
    n_straggler,
    share_last_ratio,
    late_ns,
    cause,
    pattern,
    saved_ns,
    verdict
FROM run_stragglers
ORDER BY saved_ns DESC NULLS LAST, late_ns DESC, run, rank
LIMIT $rows
