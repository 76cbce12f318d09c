-- One row per rank, comm activity: what it is, in which group, and where it stands among its like.
--
-- rank              INTEGER  Rank.
-- capture           BIGINT   Which contiguous recording of the rank.
-- capture_last_step BIGINT   Last step of that capture: captures that stop together are the same on every rank.
-- step              BIGINT   Step that launched it; NULL where its launch is in no step or not in the dump.
-- shard_step        BIGINT   Step with which it is matched across ranks: its own, else the one in whose host range or
--     after which it was launched, else the capture's first.
-- activity_no       BIGINT   Place among the rank's activities, in order of start.
-- name              VARCHAR  Kernel, or the collective's span on the host.
-- lane              VARCHAR  Stream, or host.
-- queue             VARCHAR  The group's name, description and members where they are known, else the lane: what keeps
--     its order.
-- op                VARCHAR  Operation, as in _comm_activities.
-- shape             VARCHAR  Operation and element type by name alone, alike on every rank.
-- dtype             VARCHAR  Element type; NULL where nothing says it.
-- group_name        VARCHAR  Process group from metadata, or of all else on its stream; NULL without.
-- group_description VARCHAR  Its description.
-- group_ranks       VARCHAR  Its members as the dump prints them.
-- group_size        INTEGER  Its size.
-- seq               BIGINT   Sequence number in the group, from metadata. A send's or a receive's counts on its rank alone.
-- seq_place         BIGINT   Place among the group's activities of that sequence number, from 0: coalesced ones share it.
-- from_end          BIGINT   Place from the end of the capture among the group's activities of this shape, from 0; of sends
--     and of receives among those to or from the same peer.
-- in_step           BIGINT   Place in its shard_step among the same, from 0.
-- peer              INTEGER  Send, receive: the rank at the other end; NULL where nothing says it.
-- has_end           BOOLEAN  Whether the dump has its end, so that from_end holds.
-- is_anchor         BOOLEAN  Whether it is in the sample that clocks are fitted to: every 2^k-th from the end, at least 128
--     of a shape where there are so many.
-- n_bytes           BIGINT   Bytes: of all-gather and reduce-scatter the larger side; NULL where sizes are not recorded.
-- arrival_ns        BIGINT   Start; on the host no earlier than the end of the span before it on its thread.
-- end_ns            BIGINT   End, not included.
-- exposed_ns        BIGINT   Time that it alone explains: beyond comm before it, and beside no compute.
--
-- Scope: rank
-- How: kernels launched before the recording lack metadata; they take the group that all others on their stream have.
-- Ranks start recording at different collectives but stop together, so places are counted from the end.
WITH captured AS (
    SELECT
        comm.*,
        bounds.capture,
        bounds.first_step,
        bounds.last_step
    FROM _comm_activities AS comm
    JOIN _capture_bounds AS bounds
        ON comm.dump_no = bounds.dump_no
        AND (bounds.from_ns IS NULL OR comm.sort_ns >= bounds.from_ns)
        AND (bounds.to_ns IS NULL OR comm.sort_ns < bounds.to_ns)
),

lane_groups AS (
    SELECT
        lane AS group_lane,
        any_value(group_name) AS lane_name,
        any_value(group_description) AS lane_description,
        any_value(group_ranks) AS lane_ranks,
        any_value(group_size) AS lane_size
    FROM _comm_activities
    WHERE group_name IS NOT NULL
    GROUP BY lane
    HAVING count(DISTINCT (group_name, group_description, group_ranks)) = 1
),

grouped AS (
    SELECT
        captured.* EXCLUDE (group_name, group_description, group_ranks, group_size),
        coalesce(captured.group_name, lane_groups.lane_name) AS group_name,
        coalesce(captured.group_description, lane_groups.lane_description) AS group_description,
        coalesce(captured.group_ranks, lane_groups.lane_ranks) AS group_ranks,
        coalesce(captured.group_size, lane_groups.lane_size) AS group_size
    FROM captured
    LEFT JOIN lane_groups ON captured.lane = lane_groups.group_lane
),

stepped AS (
    SELECT
        grouped.*,
        CASE WHEN steps.capture = grouped.capture THEN steps.step END AS step_before
    FROM grouped
    ASOF LEFT JOIN (SELECT capture, step, start_ns AS step_start_ns FROM _host_steps) AS steps
        ON grouped.sort_ns >= steps.step_start_ns
),

sharded AS (
    SELECT
        *,
        coalesce(step, CASE WHEN is_linked THEN step_before END, first_step) AS shard_step,
        CASE WHEN op IN ('send', 'recv') THEN op END AS side,
        coalesce(
            group_name || '|' || coalesce(group_description, '') || '|' || coalesce(group_ranks, ''), 'lane ' || lane
        ) AS queue
    FROM stepped
),

placed AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY queue, seq, side ORDER BY start_ns, activity_no) - 1 AS seq_place,
        row_number() OVER (alike ORDER BY start_ns DESC, activity_no DESC) - 1 AS from_end,
        row_number() OVER (
            PARTITION BY capture, queue, shape, side, peer, shard_step ORDER BY start_ns, activity_no
        ) - 1 AS in_step,
        count(*) OVER alike AS n_alike
    FROM sharded
    WINDOW alike AS (PARTITION BY capture, queue, shape, side, peer)
)

SELECT
    context.rank,
    placed.capture,
    placed.last_step AS capture_last_step,
    placed.step,
    placed.shard_step,
    placed.activity_no,
    placed.name,
    placed.lane,
    placed.queue,
    placed.op,
    placed.shape,
    placed.dtype,
    placed.group_name,
    placed.group_description,
    placed.group_ranks,
    placed.group_size,
    placed.seq,
    CASE WHEN placed.seq IS NOT NULL THEN placed.seq_place END AS seq_place,
    placed.from_end,
    placed.in_step,
    placed.peer,
    NOT dump_facts.is_truncated AS has_end,
    placed.from_end % (1::BIGINT << greatest(0, floor(log2(placed.n_alike / anchors_per_shape))::INTEGER)) = 0 AS is_anchor,
    CASE
        WHEN placed.op IN ('all_gather', 'reduce_scatter') THEN greatest(placed.in_elements, placed.out_elements)
        ELSE coalesce(placed.in_elements, placed.out_elements)
    END * dtype_bytes.n_bytes::BIGINT AS n_bytes,
    CASE
        WHEN placed.lane = 'host' THEN
            greatest(
                placed.start_ns,
                coalesce(
                    lag(placed.end_ns) OVER (
                        PARTITION BY placed.lane, placed.thread ORDER BY placed.start_ns, placed.activity_no
                    ),
                    placed.start_ns
                )
            )
        ELSE placed.start_ns
    END AS arrival_ns,
    placed.end_ns,
    exposed.exposed_ns
FROM placed
JOIN _exposed AS exposed ON placed.activity_no = exposed.activity_no
JOIN dump_facts ON placed.dump_no = dump_facts.dump_no
LEFT JOIN dtype_bytes ON lower(placed.dtype) = dtype_bytes.dtype
CROSS JOIN context
CROSS JOIN params
