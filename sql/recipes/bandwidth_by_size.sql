-- Which bus bandwidth do exchanges reach, by operation and size?
-- $rows  BIGINT = 20  Rows at most.
-- run                  VARCHAR  Run.
-- op                   VARCHAR  Operation.
-- n_ranks              INTEGER  Members of the group.
-- n_bytes              BIGINT   Bytes; NULL where sizes are not recorded.
-- n_instances          BIGINT   Whole collectives on one clock.
-- transfer_ns          BIGINT   Median transfer, the lower of two.
-- busbw_bytes_per_s    DOUBLE   Median bus bandwidth; NULL without sizes.
-- slowest_bytes_per_s  DOUBLE   The lowest of any; NULL likewise.
SELECT
    run,
    op,
    n_ranks,
    n_bytes,
    count(*) AS n_instances,
    quantile_disc(transfer_ns, 0.5) AS transfer_ns,
    quantile_disc(busbw_bytes_per_s, 0.5) AS busbw_bytes_per_s,
    min(busbw_bytes_per_s) AS slowest_bytes_per_s
FROM collective_instances
WHERE is_complete AND transfer_ns IS NOT NULL
GROUP BY run, op, n_ranks, n_bytes
ORDER BY run, op, n_ranks, n_bytes
LIMIT $rows
