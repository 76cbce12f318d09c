-- One row per rank, collective or completion of a step: the collective on which its own chain of work hangs.
--
-- rank        INTEGER  Rank.
-- step        BIGINT   The step that is completed; NULL for a collective.
-- activity_no BIGINT   The collective's place among the rank's activities; NULL for a completion.
-- shard_step  BIGINT   Step with which it is handled.
-- root_no     BIGINT   The collective it hangs on; NULL where the chain goes back to before the rank's step.
-- root_ns     BIGINT   The chain leaves that collective then, no later than its end.
--
-- Scope: rank
-- Order: shard_step, activity_no, step
-- How: the chain is the path on one rank: from what blocked the start to what blocked that, through the host and back to
-- the device where the host had waited for it, until it meets a collective or is older than the rank's own step.
WITH RECURSIVE entries AS (
    SELECT
        comm.activity_no AS entry_no,
        NULL::BIGINT AS entry_step,
        comm.shard_step,
        comm.activity_no AS head_no,
        coalesce(windows.start_ns, comm.arrival_ns) AS stop_ns
    FROM rank_collectives AS comm
    LEFT JOIN _windows AS windows ON comm.shard_step = windows.step AND comm.capture = windows.capture
    UNION ALL
    SELECT
        NULL AS entry_no,
        completions.step AS entry_step,
        completions.step AS shard_step,
        runs.head_no,
        completions.start_ns AS stop_ns
    FROM _completions AS completions
    JOIN _runs AS runs ON completions.source_no = runs.activity_no
    WHERE NOT runs.is_comm
),

walked AS (
    SELECT
        entries.entry_no,
        entries.entry_step,
        entries.shard_step,
        entries.stop_ns,
        hops.next_no,
        hops.source_ns,
        hops.is_comm
    FROM entries
    JOIN _hops AS hops ON entries.head_no = hops.head_no
    UNION ALL
    SELECT
        walked.entry_no,
        walked.entry_step,
        walked.shard_step,
        walked.stop_ns,
        hops.next_no,
        hops.source_ns,
        hops.is_comm
    FROM walked
    JOIN _hops AS hops ON walked.next_no = hops.head_no
    WHERE NOT walked.is_comm AND walked.source_ns > walked.stop_ns
)

SELECT
    context.rank,
    walked.entry_step AS step,
    walked.entry_no AS activity_no,
    walked.shard_step,
    walked.next_no AS root_no,
    walked.source_ns AS root_ns
FROM walked
CROSS JOIN context
WHERE walked.is_comm
UNION ALL
SELECT
    context.rank,
    completions.step,
    NULL AS activity_no,
    completions.step AS shard_step,
    completions.source_no AS root_no,
    completions.source_ns AS root_ns
FROM _completions AS completions
JOIN _runs AS runs ON completions.source_no = runs.activity_no
CROSS JOIN context
WHERE runs.is_comm
