-- One row per rank, collective: the instance across ranks that it is a member of.
--
-- rank              INTEGER  Rank.
-- step              BIGINT   Step that launched it.
-- shard_step        BIGINT   Step with which it is matched.
-- activity_no       BIGINT   Place among the rank's activities.
-- group_id          VARCHAR  Process group.
-- match_by          VARCHAR  seq, end or step.
-- instance          VARCHAR  Equal on all members of an instance, within the group.
-- seq               BIGINT   Sequence number from metadata; else the place from the end, from -1 downwards; NULL where it is
--     matched by step.
-- op                VARCHAR  Operation.
-- shape             VARCHAR  Operation and element type by name alone.
-- dtype             VARCHAR  Element type.
-- n_bytes           BIGINT   Bytes.
-- lane              VARCHAR  Stream, or host.
-- is_anchor         BOOLEAN  Whether clocks are fitted to it.
-- arrival_ns        BIGINT   Arrival, on the rank's own clock.
-- end_ns            BIGINT   End, on the rank's own clock.
-- exposed_ns        BIGINT   Time that it alone explains.
--
-- Scope: clock
SELECT
    collectives.rank,
    collectives.step,
    collectives.shard_step,
    collectives.activity_no,
    queues.group_id,
    queues.match_by,
    CASE queues.match_by
        WHEN 'seq' THEN collectives.seq || ' ' || collectives.op || ' ' || collectives.seq_place
        WHEN 'end' THEN collectives.capture_last_step || ' ' || collectives.shape || ' ' || collectives.from_end
        ELSE collectives.shard_step || ' ' || collectives.shape || ' ' || collectives.in_step
    END AS instance,
    CASE queues.match_by
        WHEN 'seq' THEN collectives.seq
        WHEN 'end' THEN -1 - collectives.from_end
    END AS seq,
    collectives.op,
    collectives.shape,
    collectives.dtype,
    collectives.n_bytes,
    collectives.lane,
    collectives.is_anchor,
    collectives.arrival_ns,
    collectives.end_ns,
    collectives.exposed_ns
FROM rank_collectives AS collectives
JOIN group_queues AS queues ON collectives.rank = queues.rank AND collectives.queue = queues.queue
