-- Which process groups transfer more slowly than their like?
-- $slowdown  DOUBLE = 1.05  Show those that take this many times as long.
-- $rows      BIGINT = 20    Rows at most.
-- run                  VARCHAR  Run.
-- group_id             VARCHAR  Process group.
-- description          VARCHAR  What the job calls it; NULL without metadata.
-- op                   VARCHAR  Operation.
-- n_bytes              BIGINT   Bytes; NULL where sizes are not recorded.
-- n_hosts              INTEGER  Hosts of its members; NULL where one is not known.
-- transfer_ns          BIGINT   Median transfer.
-- sibling_transfer_ns  BIGINT   Median of the other groups that did the same.
-- slowdown_ratio       DOUBLE   The first by the second.
-- verdict              VARCHAR  ok, slow link, or the reasons to doubt the row.
-- Empty: where no group has siblings, and where all take the same.
SELECT
    run,
    group_id,
    description,
    op,
    n_bytes,
    n_hosts,
    transfer_ns,
    sibling_transfer_ns,
    slowdown_ratio,
    verdict
FROM group_transfers
WHERE slowdown_ratio >= $slowdown::DOUBLE
ORDER BY slowdown_ratio DESC, run, group_id, op, n_bytes
LIMIT $rows
