-- Which dumps are damaged or in doubt?
-- $rows  BIGINT = 20  Rows at most.
-- run           VARCHAR  Run.
-- file_name     VARCHAR  File.
-- rank          INTEGER  Rank; NULL where it could not be read.
-- n_events      BIGINT   Events found.
-- n_dropped     BIGINT   Events lost: malformed or cut off.
-- is_truncated  BOOLEAN  Whether it lost its end.
-- verdict       VARCHAR  The reasons to doubt it.
-- error         VARCHAR  Why it could not be read; NULL where it could.
-- Empty: where every dump is whole.
SELECT
    run,
    file_name,
    rank,
    n_events,
    n_dropped,
    is_truncated,
    verdict,
    error
FROM dumps
WHERE verdict <> 'ok'
ORDER BY run, rank NULLS FIRST, file_name, dump
LIMIT $rows
