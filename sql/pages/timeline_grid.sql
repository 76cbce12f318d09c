-- One row per worker of an op timeline, at most $max_workers, the slowest first.
--
-- dp_rank       INTEGER  Data-parallel rank.
-- stage         INTEGER  Pipeline stage.
-- rank          INTEGER  Rank.
-- score_ratio   DOUBLE   As in timeline_workers.
-- dp_rank_ratio DOUBLE   As in timeline_workers.
-- stage_ratio   DOUBLE   As in timeline_workers.
-- n_workers     BIGINT   Workers there are in all.
--
-- How: parameters: $run, $max_workers.
SELECT
    dp_rank,
    stage,
    rank,
    score_ratio,
    dp_rank_ratio,
    stage_ratio,
    count(*) OVER () AS n_workers
FROM timeline_workers
WHERE run = $run AND score_ratio IS NOT NULL
ORDER BY score_ratio DESC, rank
LIMIT $max_workers
