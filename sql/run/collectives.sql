-- One row per collective instance, rank: when the rank came, how long it waited for others, how long it transferred.
--
-- step        BIGINT   Step that launched it; NULL where its launch is in no step or not in the dump.
-- rank        INTEGER  Rank.
-- group_id    VARCHAR  Process group.
-- seq         BIGINT   As in collective_instances.
-- op          VARCHAR  Operation.
-- shape       VARCHAR  Operation and element type by name alone.
-- n_bytes     BIGINT   Bytes; NULL where sizes are not recorded.
-- arrival_ns  BIGINT   Arrival, on the run's clock; on the rank's own where clocks are not aligned.
-- end_ns      BIGINT   End, likewise.
-- wait_ns     BIGINT   From its arrival to the last rank's, within its own duration. NULL where clocks are not aligned.
-- transfer_ns BIGINT   The rest of its duration. NULL as above.
-- exposed_ns  BIGINT   Time that it alone explains: beside no compute, beyond comm before it.
-- is_last     BOOLEAN  Whether the rank came last. NULL as above.
-- is_complete BOOLEAN  Whether every member is recorded; else wait, transfer and is_last are bounds.
-- activity_no BIGINT   Place among the rank's activities, in order of start.
--
-- Scope: steps
-- Order: rank, step, activity_no
-- As: sorted
-- How: one step before the shard comes along for the paths that reach into it; its rows are another shard's.
WITH waited AS (
    SELECT
        aligned.*,
        instances.is_aligned,
        instances.n_present,
        instances.last_rank,
        least(
            greatest(instances.last_arrival_ns - aligned.arrival_ns, 0),
            greatest(aligned.end_ns - aligned.arrival_ns, 0)
        ) AS wait_ns
    FROM _aligned AS aligned
    JOIN _met_instances AS instances ON aligned.instance_no = instances.instance_no
)

SELECT
    step,
    rank,
    group_id,
    seq,
    op,
    shape,
    n_bytes,
    arrival_ns,
    end_ns,
    CASE WHEN is_aligned THEN wait_ns END AS wait_ns,
    CASE WHEN is_aligned THEN greatest(end_ns - arrival_ns, 0) - wait_ns END AS transfer_ns,
    exposed_ns,
    CASE WHEN is_aligned THEN rank = last_rank END AS is_last,
    n_present = n_ranks AS is_complete,
    activity_no
FROM waited
WHERE shard_step >= (SELECT first_step FROM shard)
