-- One row per rank that a step was waiting for, at most $max_stragglers of them, the longest first.
--
-- rank              INTEGER  Rank.
-- host              VARCHAR  Its host; NULL unknown.
-- n_steps           BIGINT   Steps of the run in which lateness is known.
-- n_straggler       BIGINT   Of them, those whose straggler it is.
-- share_last_ratio  DOUBLE   n_straggler by n_steps.
-- late_ns           BIGINT   How late it was in those.
-- late_ratio        DOUBLE   Of the time of all those steps.
-- lost_gpu_hours    DOUBLE   late_ns times the ranks that waited; those of a link or a stage have equal shares of it.
-- cause             VARCHAR  What most of late_ns is put down to.
-- cause_ns          BIGINT   What it spent on that beyond the others, over all steps.
-- cause_ratio       DOUBLE   Share of late_ns with that cause.
-- place             VARCHAR  Link or stage where it is late with others; NULL for other causes.
-- pattern           VARCHAR  persistent, periodic or transient.
-- saved_ns          BIGINT   Mean step time saved without it, by replay; NULL: see verdict.
-- slowdown_ratio    DOUBLE   What the run takes by what it would take then; NULL as above.
-- verdict           VARCHAR  ok, or the reasons to doubt the row.
--
-- How: as in run_stragglers. Parameters: $run, $max_stragglers.
SELECT
    rank,
    host,
    n_steps,
    n_straggler,
    share_last_ratio,
    late_ns,
    late_ratio,
    lost_gpu_hours,
    cause,
    cause_ns,
    cause_ratio,
    place,
    pattern,
    saved_ns,
    slowdown_ratio,
    verdict
FROM run_stragglers
WHERE run = $run
ORDER BY late_ns DESC, rank
LIMIT $max_stragglers
