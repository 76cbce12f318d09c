-- One row per dump whose events found are not those stored, skipped and dropped.
--
-- run       VARCHAR  Run.
-- path      VARCHAR  Dump.
-- n_events  BIGINT   Events found.
-- n_counted BIGINT   Events stored, skipped and dropped.
--
-- Scope: check
SELECT
    run,
    path,
    n_events,
    n_stored + n_skipped + n_dropped AS n_counted
FROM dumps
WHERE error IS NULL AND n_events <> n_stored + n_skipped + n_dropped
