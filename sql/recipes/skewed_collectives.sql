-- At which collectives do ranks arrive furthest apart?
-- $rows  BIGINT = 20  Rows at most.
-- run          VARCHAR  Run.
-- step         BIGINT   Step of its launch; NULL where none launched it in a step.
-- group_id     VARCHAR  Process group.
-- seq          BIGINT   Its number there.
-- op           VARCHAR  Operation.
-- last_rank    INTEGER  Rank that came last.
-- skew_ns      BIGINT   Latest minus earliest arrival.
-- transfer_ns  BIGINT   What it took once all were there.
-- Empty: where clocks are not aligned.
SELECT
    run,
    step,
    group_id,
    seq,
    op,
    last_rank,
    skew_ns,
    transfer_ns
FROM collective_instances
WHERE skew_ns IS NOT NULL
ORDER BY skew_ns DESC, run, step, group_id, op, shape, seq
LIMIT $rows
