-- One row per dump file, at most $max_dumps of them: what was read of it and what was not.
--
-- dump          VARCHAR  Identity of the dump.
-- path          VARCHAR  Where it was read from.
-- rank          INTEGER  Rank it belongs to; NULL where it could not be told.
-- n_events      BIGINT   Events in the file.
-- n_skipped     BIGINT   Events left out on purpose.
-- n_dropped     BIGINT   Events that are malformed.
-- n_salvaged    BIGINT   Events read after a repair.
-- is_truncated  BOOLEAN  Whether the file lost its end.
-- verdict       VARCHAR  'ok', or what is wrong with the file.
-- error         VARCHAR  Why it could not be read; NULL where it could.
-- n_dumps       BIGINT   Files there are in all.
--
-- How: files with a verdict other than ok come first, so they are never the ones left out. Parameters: $run,
-- $max_dumps.
SELECT
    dump,
    path,
    rank,
    n_events::BIGINT AS n_events,
    n_skipped::BIGINT AS n_skipped,
    n_dropped::BIGINT AS n_dropped,
    n_salvaged::BIGINT AS n_salvaged,
    is_truncated,
    verdict,
    error,
    count(*) OVER () AS n_dumps
FROM dumps
WHERE run = $run
ORDER BY verdict IS NOT DISTINCT FROM 'ok', rank NULLS LAST, path, dump
LIMIT $max_dumps
