-- One row per rank, step: what the exposed comm of its window was.
--
-- rank                INTEGER  Rank.
-- step                BIGINT   Number of the step.
-- bubble_ns           BIGINT   Waiting for a send or a receive between pipeline stages, at least.
-- wait_ns             BIGINT   Waiting in other collectives for a later rank, at least.
-- transfer_ns         BIGINT   Transferring, once all had come.
-- unsplit_ns          BIGINT   Neither can be said: members not recorded, clocks not aligned, or launched by another step.
--
-- Scope: steps
-- Order: step, rank
-- How: compute hides the beginning of a collective more often than its end, so the exposed time of each is taken for its
-- transfer first, and only what is beyond that for waiting. The four add up to the window's exposed comm: first match wins.
WITH within_stage AS (
    SELECT aligned.instance_no
    FROM _aligned AS aligned
    JOIN ranks ON aligned.rank = ranks.rank
    WHERE aligned.op = 'send_recv'
    GROUP BY aligned.instance_no
    HAVING count(ranks.pp) = 2 AND min(ranks.pp) = max(ranks.pp)
),

exchanged AS (
    SELECT
        collectives.rank,
        collectives.step,
        collectives.op = 'send_recv' AND within_stage.instance_no IS NULL AS is_bubble,
        greatest(0, collectives.exposed_ns - collectives.transfer_ns) AS wait_ns,
        least(collectives.exposed_ns, collectives.transfer_ns) AS transfer_ns
    FROM collectives
    LEFT JOIN _aligned AS aligned
        ON collectives.op = 'send_recv'
        AND collectives.rank = aligned.rank
        AND collectives.activity_no = aligned.activity_no
    LEFT JOIN within_stage ON aligned.instance_no = within_stage.instance_no
    WHERE collectives.is_complete AND collectives.wait_ns IS NOT NULL AND collectives.step IS NOT NULL
),

summed AS (
    SELECT
        rank,
        step,
        coalesce(sum(wait_ns) FILTER (is_bubble), 0) AS bubble_ns,
        coalesce(sum(wait_ns) FILTER (NOT is_bubble), 0) AS wait_ns,
        sum(transfer_ns) AS transfer_ns
    FROM exchanged
    GROUP BY rank, step
),

bubbles AS (
    SELECT
        windows.rank,
        windows.step,
        windows.exposed_comm_ns,
        least(windows.exposed_comm_ns, coalesce(summed.bubble_ns, 0)) AS bubble_ns,
        coalesce(summed.wait_ns, 0) AS waited_ns,
        coalesce(summed.transfer_ns, 0) AS transferred_ns
    FROM rank_windows AS windows
    JOIN shard ON windows.step BETWEEN shard.first_step AND shard.last_step
    LEFT JOIN summed ON windows.rank = summed.rank AND windows.step = summed.step
),

waits AS (
    SELECT
        *,
        least(exposed_comm_ns - bubble_ns, waited_ns) AS wait_ns
    FROM bubbles
),

transfers AS (
    SELECT
        *,
        least(exposed_comm_ns - bubble_ns - wait_ns, transferred_ns) AS transfer_ns
    FROM waits
)

SELECT
    rank,
    step,
    bubble_ns::BIGINT AS bubble_ns,
    wait_ns::BIGINT AS wait_ns,
    transfer_ns::BIGINT AS transfer_ns,
    (exposed_comm_ns - bubble_ns - wait_ns - transfer_ns)::BIGINT AS unsplit_ns
FROM transfers
