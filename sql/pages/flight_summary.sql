-- One row per run that has flight recorders' dumps: how much was read, and how much hangs.
--
-- n_ranks    BIGINT  Ranks with a dump.
-- n_records  BIGINT  Their records.
-- n_hangs    BIGINT  Calls that hang.
-- n_follow   BIGINT  Of these, consequences of others.
-- n_unread   BIGINT  Dumps that could not be read.
-- n_profiles BIGINT  Dumps of a profiler in the same run.
--
-- How: parameters: $run.
SELECT
    count(*) FILTER (format = 'flight-recorder') AS n_ranks,
    (coalesce(sum(n_stored) FILTER (format = 'flight-recorder'), 0))::BIGINT AS n_records,
    (SELECT count(*) FROM hangs WHERE run = $run) AS n_hangs,
    (SELECT count(*) FROM hangs WHERE run = $run AND role = 'consequence') AS n_follow,
    count(*) FILTER (error IS NOT NULL) AS n_unread,
    count(*) FILTER (error IS NULL AND format <> 'flight-recorder') AS n_profiles
FROM dumps
WHERE run = $run
HAVING count(*) FILTER (format = 'flight-recorder' AND error IS NULL) > 0
