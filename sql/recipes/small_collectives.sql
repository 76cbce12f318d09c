-- Which collectives are so small that latency costs more than bytes?
-- $below  BIGINT = 1048576  Bytes below which one is small.
-- $rows   BIGINT = 20       Rows at most.
-- run          VARCHAR  Run.
-- op           VARCHAR  Operation.
-- group_id     VARCHAR  Process group.
-- n_instances  BIGINT   Small ones.
-- n_bytes      BIGINT   Bytes of all of them.
-- transfer_ns  BIGINT   What they took once all were there.
-- bytes_per_s  DOUBLE   n_bytes by transfer_ns.
-- Empty: where none is small, and where sizes are not recorded.
SELECT
    run,
    op,
    group_id,
    count(*) AS n_instances,
    sum(n_bytes)::BIGINT AS n_bytes,
    sum(transfer_ns)::BIGINT AS transfer_ns,
    sum(n_bytes) * 1e9 / nullif(sum(transfer_ns), 0) AS bytes_per_s
FROM collective_instances
WHERE n_bytes < $below::BIGINT AND transfer_ns IS NOT NULL
GROUP BY run, op, group_id
ORDER BY transfer_ns DESC, run, op, group_id
LIMIT $rows
