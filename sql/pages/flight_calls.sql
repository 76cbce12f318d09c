-- One row per process group, operation that flight recorders have, at most $max_calls: calls, and how far they came.
--
-- group_id   VARCHAR  As in collective_records.
-- op         VARCHAR  As in collective_records.
-- n_ranks    INTEGER  Members, the most of any call; NULL where no dump lists them.
-- n_calls    BIGINT   Calls: numbers of the group that any member has.
-- n_records  BIGINT   Records of them, one for a member.
-- n_open     BIGINT   Records whose call did not end on that rank.
-- n_bytes    BIGINT   Bytes of the largest; NULL where sizes are not recorded.
-- n_matched  BIGINT   Records that stand beside a kernel of the profiler's.
-- kernel_ns  BIGINT   Median duration of those kernels; NULL without.
-- n_rows     BIGINT   Rows there are in all.
--
-- How: parameters: $run, $max_calls.
SELECT
    group_id,
    op,
    max(n_ranks) AS n_ranks,
    count(DISTINCT seq) AS n_calls,
    count(*) AS n_records,
    count(*) FILTER (NOT is_complete) AS n_open,
    max(n_bytes) AS n_bytes,
    count(match_by) AS n_matched,
    quantile_disc(end_ns - arrival_ns, 0.5) AS kernel_ns,
    count(*) OVER () AS n_rows
FROM collective_records
WHERE run = $run
GROUP BY group_id, op
ORDER BY n_open DESC, n_records DESC, group_id, op
LIMIT $max_calls
