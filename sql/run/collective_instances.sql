-- One row per collective instance: who came when, and how long the transfer took once all were there.
--
-- step                BIGINT   Step of its launch, the lowest of its members'; NULL where none launched it in a step.
-- shard_step          BIGINT   Step with which it is matched.
-- group_id            VARCHAR  Process group.
-- seq                 BIGINT   Sequence number in the group; without metadata its place from the capture's end among those of
--     its shape, from -1 downwards; NULL where it is matched by step.
-- op                  VARCHAR  Operation.
-- shape               VARCHAR  Operation and element type by name alone.
-- dtype               VARCHAR  Element type; NULL where nothing says it.
-- n_ranks             INTEGER  Members of the group.
-- n_present           INTEGER  Members recorded in it.
-- n_bytes             BIGINT   Bytes, the most of any member; NULL where sizes are not recorded.
-- first_arrival_ns    BIGINT   Earliest arrival, aligned. NULL where clocks are not aligned.
-- last_arrival_ns     BIGINT   Latest arrival. NULL as above.
-- end_ns              BIGINT   Median end of the members, the lower of two.
-- last_rank           INTEGER  Rank that came last, the lowest of equals. NULL as above.
-- skew_ns             BIGINT   Latest minus earliest arrival. NULL as above.
-- end_spread_ns       BIGINT   Latest minus earliest end. NULL as above.
-- transfer_ns         BIGINT   Median end minus latest arrival, at least 0. NULL as above.
-- algbw_bytes_per_s   DOUBLE   n_bytes / transfer. NULL where incomplete, or without size or time.
-- busbw_bytes_per_s   DOUBLE   algbw times 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather, reduce-scatter and
--     all-to-all, 1 for others (nccl-tests, doc/PERFORMANCE.md).
-- is_complete         BOOLEAN  Whether every member of the group is recorded; else times are bounds and bandwidth is NULL.
-- verdict             VARCHAR  ok, or the reasons to doubt it.
--
-- Scope: steps
-- Order: shard_step, group_id, op, shape, seq, first_arrival_ns, end_ns
WITH timed AS (
    SELECT
        instances.*,
        instances.n_present = instances.n_ranks AS is_complete,
        greatest(instances.end_ns - instances.last_arrival_ns, 0) AS transfer_ns,
        CASE instances.op
            WHEN 'all_reduce' THEN 2 * (instances.n_ranks - 1) / instances.n_ranks
            WHEN 'all_gather' THEN (instances.n_ranks - 1) / instances.n_ranks
            WHEN 'reduce_scatter' THEN (instances.n_ranks - 1) / instances.n_ranks
            WHEN 'all_to_all' THEN (instances.n_ranks - 1) / instances.n_ranks
            ELSE 1
        END AS bus_factor,
        concat_ws(
            '; ',
            CASE
                WHEN instances.n_present < instances.n_ranks
                    THEN 'peer not recorded: ' || instances.n_present || ' of ' || instances.n_ranks
            END,
            CASE WHEN NOT instances.is_aligned THEN 'clock not aligned' END,
            CASE WHEN NOT instances.is_one_op THEN 'members disagree on the operation' END,
            CASE
                WHEN NOT instances.is_one_size AND instances.op <> 'all_to_all' THEN 'members disagree on the size'
            END
        ) AS reasons
    FROM _met_instances AS instances
)

SELECT
    step,
    shard_step,
    group_id,
    seq,
    op,
    shape,
    dtype,
    n_ranks,
    n_present::INTEGER AS n_present,
    n_bytes,
    CASE WHEN is_aligned THEN first_arrival_ns END AS first_arrival_ns,
    CASE WHEN is_aligned THEN last_arrival_ns END AS last_arrival_ns,
    CASE WHEN is_aligned THEN end_ns END AS end_ns,
    CASE WHEN is_aligned THEN last_rank END AS last_rank,
    CASE WHEN is_aligned THEN last_arrival_ns - first_arrival_ns END AS skew_ns,
    CASE WHEN is_aligned THEN end_spread_ns END AS end_spread_ns,
    CASE WHEN is_aligned THEN transfer_ns END AS transfer_ns,
    CASE WHEN is_aligned AND is_complete THEN n_bytes / nullif(transfer_ns / 1e9, 0) END AS algbw_bytes_per_s,
    CASE WHEN is_aligned AND is_complete THEN bus_factor * n_bytes / nullif(transfer_ns / 1e9, 0) END AS busbw_bytes_per_s,
    is_complete,
    CASE WHEN reasons = '' THEN 'ok' ELSE reasons END AS verdict
FROM timed
WHERE shard_step >= (SELECT first_step FROM shard)
