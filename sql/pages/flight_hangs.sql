-- One row per call that hangs, at most $max_hangs, the first cause first.
--
-- place      BIGINT   As in hangs.
-- role       VARCHAR  As in hangs.
-- kind       VARCHAR  As in hangs.
-- verdict    VARCHAR  As in hangs.
-- frame      VARCHAR  As in hangs.
-- n_ranks    BIGINT   Members.
-- n_waiting  BIGINT   Members that wait.
-- after_ns   BIGINT   When its first member enqueued it, after that of the first of these calls.
-- n_hangs    BIGINT   Calls that hang, in all.
--
-- How: parameters: $run, $max_hangs.
SELECT
    place,
    role,
    kind,
    verdict,
    frame,
    n_ranks,
    n_waiting,
    first_ns - min(first_ns) OVER () AS after_ns,
    count(*) OVER () AS n_hangs
FROM hangs
WHERE run = $run
ORDER BY place
LIMIT $max_hangs
