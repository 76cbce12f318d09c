-- What is missing from the recording?
-- $rows  BIGINT = 20  Rows at most.
-- run       VARCHAR  Run.
-- check     VARCHAR  What is counted.
-- expected  BIGINT   How many a whole recording has; NULL where it cannot be known.
-- found     BIGINT   How many there are.
-- verdict   VARCHAR  What is missing.
-- Empty: where nothing is.
SELECT
    run,
    "check",
    expected,
    found,
    verdict
FROM run_coverage
WHERE verdict <> 'ok'
ORDER BY run, "check"
LIMIT $rows
