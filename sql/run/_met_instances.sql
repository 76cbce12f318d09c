-- One row per collective instance of the shard: when its members came and left.
--
-- instance_no      UBIGINT  Instance, as in _aligned.
-- group_id         VARCHAR  Process group.
-- n_ranks          INTEGER  Members of the group.
-- n_present        BIGINT   Members recorded in it.
-- is_aligned       BOOLEAN  Whether their times can be compared.
-- is_matched       BOOLEAN  Whether every member is recorded, on one clock. A group of one, in a job of more ranks, is one
--     whose members are not known.
-- step             BIGINT   Step of its launch, the lowest of its members; NULL where none launched it in a step.
-- shard_step       BIGINT   Step with which it is matched.
-- seq              BIGINT   As in _members.
-- op               VARCHAR  Operation.
-- shape            VARCHAR  Operation and element type by name alone.
-- dtype            VARCHAR  Element type.
-- n_bytes          BIGINT   Bytes, the most of any member.
-- is_one_size      BOOLEAN  Whether members agree on the size.
-- is_one_op        BOOLEAN  Whether members agree on the operation.
-- first_arrival_ns BIGINT   Earliest arrival.
-- last_arrival_ns  BIGINT   Latest arrival.
-- last_rank        INTEGER  Rank that came last, the lowest of equals.
-- last_no          BIGINT   Its place among that rank's activities.
-- end_ns           BIGINT   Median end, the lower of two.
-- end_spread_ns    BIGINT   Latest minus earliest end.
--
-- Scope: steps
-- How: the latest arrival and the lowest rank that has it are one maximum: of arrivals, each with its rank taken off below
-- the 2^32 that an arrival counts. Looking ranks up by the latest arrival would go over all members once more.
SELECT
    instance_no,
    any_value(group_id) AS group_id,
    any_value(n_ranks) AS n_ranks,
    count(*) AS n_present,
    min(clock_no) = max(clock_no) AS is_aligned,
    min(clock_no) = max(clock_no)
    AND count(*) = any_value(n_ranks)
    AND (any_value(n_ranks) > 1 OR (SELECT count(*) FROM ranks) = 1) AS is_matched,
    min(step) AS step,
    min(shard_step) AS shard_step,
    any_value(seq) AS seq,
    min(op) AS op,
    any_value(shape) AS shape,
    min(dtype) AS dtype,
    max(n_bytes) AS n_bytes,
    min(n_bytes) IS NOT DISTINCT FROM max(n_bytes) AS is_one_size,
    min(op) = max(op) AS is_one_op,
    min(arrival_ns) AS first_arrival_ns,
    max(arrival_ns) AS last_arrival_ns,
    (
        max(arrival_ns)::HUGEINT * (1::HUGEINT << 32) - max(arrival_ns::HUGEINT * (1::HUGEINT << 32) - rank)
    )::INTEGER AS last_rank,
    arg_max(activity_no, arrival_ns::HUGEINT * (1::HUGEINT << 32) - rank) AS last_no,
    quantile_disc(end_ns, 0.5) AS end_ns,
    max(end_ns) - min(end_ns) AS end_spread_ns
FROM _aligned
GROUP BY instance_no
