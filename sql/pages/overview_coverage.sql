-- One row per coverage check, at most $max_checks of them: what the run should contain and what was found.
--
-- check     VARCHAR  What was counted.
-- expected  BIGINT   How many there should be; NULL where nothing says.
-- found     BIGINT   How many there are.
-- verdict   VARCHAR  'ok', or what is missing.
-- n_checks  BIGINT   Checks there are in all.
--
-- How: checks that are not ok come first, so they are never the ones left out. Parameters: $run, $max_checks.
SELECT
    "check",
    expected,
    found,
    verdict,
    count(*) OVER () AS n_checks
FROM run_coverage
WHERE run = $run
ORDER BY verdict IS NOT DISTINCT FROM 'ok', "check", expected, found, verdict
LIMIT $max_checks
