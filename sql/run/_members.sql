-- One row per rank, collective: the instance across ranks that it is a member of.
--
-- rank              INTEGER  Rank.
-- step              BIGINT   Step that launched it.
-- shard_step        BIGINT   Step with which it is matched.
-- activity_no       BIGINT   Place among the rank's activities.
-- group_id          VARCHAR  Process group.
-- n_members         INTEGER  Ranks that take part: the group's, of a send or a receive two.
-- match_by          VARCHAR  seq, end or step.
-- instance          UBIGINT  Equal on all members of an instance, and of no other: a 64-bit hash of the group and of what they
--     are matched by; the few thousand instances of a shard share one with a chance of 10^-12.
-- seq               BIGINT   Sequence number from metadata; else the place from the end, from -1 downwards; NULL where it is
--     matched by step.
-- op                VARCHAR  Operation; send_recv for both ends of a pair.
-- shape             VARCHAR  Operation and element type by name alone; of a pair also who sends to whom.
-- dtype             VARCHAR  Element type.
-- n_bytes           BIGINT   Bytes.
-- lane              VARCHAR  Stream, or host.
-- is_anchor         BOOLEAN  Whether clocks are fitted to it.
-- arrival_ns        BIGINT   Arrival, on the rank's own clock.
-- end_ns            BIGINT   End, on the rank's own clock.
-- exposed_ns        BIGINT   Time that it alone explains.
--
-- Scope: clock
-- As: view
-- How: what one rank sends another arrives in that order, so the sends from one rank to another are paired with its
-- receives by their places among themselves. In a group of two the peer needs no metadata; where it is not known the
-- activity is alone.
WITH queues AS (
    SELECT
        rank AS queue_rank,
        queue AS queue_name,
        group_id,
        len(members)::INTEGER AS n_group,
        match_by,
        pair_by,
        CASE
            WHEN len(members) = 2 THEN list_filter(members, lambda member: member <> group_queues.rank)[1]
        END AS only_other
    FROM group_queues
),

placed AS (
    SELECT
        collectives.*,
        queues.group_id,
        queues.n_group,
        CASE WHEN collectives.op IN ('send', 'recv', 'send_recv') THEN queues.pair_by ELSE queues.match_by END AS match_by,
        collectives.op IN ('send', 'recv') AS is_pair,
        coalesce(queues.only_other, collectives.peer) AS other
    FROM rank_collectives AS collectives
    JOIN queues ON collectives.rank = queues.queue_rank AND collectives.queue = queues.queue_name
),

directed AS (
    SELECT
        *,
        CASE
            WHEN NOT is_pair THEN shape
            WHEN other IS NULL THEN shape || ' ' || op || ' ' || rank || ' ' || activity_no
            WHEN op = 'send' THEN shape || ' ' || rank || '>' || other
            ELSE shape || ' ' || other || '>' || rank
        END AS likeness
    FROM placed
)

SELECT
    rank,
    step,
    shard_step,
    activity_no,
    group_id,
    CASE WHEN is_pair THEN 2 ELSE n_group END AS n_members,
    match_by,
    CASE match_by
        WHEN 'seq' THEN hash(group_id, seq, op, seq_place)
        WHEN 'end' THEN hash(group_id, capture_last_step, likeness, from_end)
        ELSE hash(group_id, shard_step, likeness, in_step)
    END AS instance,
    CASE match_by
        WHEN 'seq' THEN seq
        WHEN 'end' THEN -1 - from_end
    END AS seq,
    CASE WHEN is_pair THEN 'send_recv' ELSE op END AS op,
    likeness AS shape,
    dtype,
    n_bytes,
    lane,
    is_anchor,
    arrival_ns,
    end_ns,
    exposed_ns
FROM directed
