-- One row per rank, step: the window in which the rank completed the step, and where its time went.
--
-- rank               INTEGER  Rank.
-- capture            BIGINT   Which contiguous recording of the rank, from 0.
-- step               BIGINT   Number of the step.
-- start_ns           BIGINT   Completion of the step before (definitions: Steps), on the rank's own clock.
-- end_ns             BIGINT   Completion of the step.
-- duration_ns        BIGINT   The window: compute + exposed comm + exposed copies + idle, exactly.
-- compute_ns         BIGINT   Union of compute.
-- comm_ns            BIGINT   Union of comm.
-- exposed_comm_ns    BIGINT   Comm beside no compute.
-- overlapped_comm_ns BIGINT   Comm beside compute.
-- copy_ns            BIGINT   Union of copies.
-- exposed_copy_ns    BIGINT   Copies beside neither compute nor comm.
-- idle_ns            BIGINT   The rest: the sum of the six below.
-- idle_input_ns      BIGINT   The launching thread waited for input.
-- idle_sync_ns       BIGINT   The launching thread was in a blocking call.
-- idle_host_ns       BIGINT   The host had not launched the next activity, for another reason.
-- idle_launch_ns     BIGINT   Launched, not begun.
-- idle_turnaround_ns BIGINT   Between activities already launched, at most 5 µs: the device's own pace.
-- idle_other_ns      BIGINT   The next activity has no launch in the dump, or nothing follows.
-- n_activities       BIGINT   Activities that start in the window.
-- n_unlinked         BIGINT   Of them, those without a launch in the dump: in no step, yet busy.
-- n_launched         BIGINT   Device activities the step launched.
-- wait_ns            BIGINT   Time in which the rank waited inside collectives for a later rank; a bound where members are
--     not recorded. NULL where clocks are not aligned.
-- verdict            VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: steps
-- Order: step, rank
-- How: waits of a rank are joined to their union, for two communicators may wait at once. Most steps' waits follow each
-- other, row by row: there their sum is the union, and only the others' are put in order. The rows' order decides how fast
-- that is, never what comes of it.
WITH waits AS (
    SELECT
        rank,
        step,
        activity_no,
        arrival_ns,
        arrival_ns + wait_ns AS wait_end_ns,
        coalesce(
            lag(rank) OVER () = rank AND lag(step) OVER () = step AND lag(arrival_ns + wait_ns) OVER () <= arrival_ns,
            FALSE
        ) AS follows
    FROM collectives
    WHERE wait_ns > 0 AND step IS NOT NULL
),

summed AS (
    SELECT
        rank,
        step,
        sum(wait_end_ns - arrival_ns) AS wait_ns,
        count(*) FILTER (NOT follows) = 1 AS is_apart
    FROM waits
    GROUP BY rank, step
),

passed AS (
    SELECT
        waits.rank,
        waits.step,
        waits.arrival_ns,
        waits.wait_end_ns,
        max(waits.wait_end_ns) OVER (
            PARTITION BY waits.rank, waits.step ORDER BY waits.arrival_ns, waits.activity_no
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM waits
    JOIN summed ON waits.rank = summed.rank AND waits.step = summed.step AND NOT summed.is_apart
),

waited AS (
    SELECT
        rank AS wait_rank,
        step AS wait_step,
        wait_ns::BIGINT AS wait_ns
    FROM summed
    WHERE is_apart
    UNION ALL
    SELECT
        rank AS wait_rank,
        step AS wait_step,
        sum(greatest(0, wait_end_ns - greatest(arrival_ns, coalesce(before_ns, arrival_ns))))::BIGINT AS wait_ns
    FROM passed
    GROUP BY rank, step
),

unmatched AS (
    SELECT
        rank AS unmatched_rank,
        step AS unmatched_step,
        count(*) AS n_unmatched
    FROM collectives
    WHERE NOT is_complete AND step IS NOT NULL
    GROUP BY rank, step
),

clocked AS (
    SELECT
        windows.*,
        waited.wait_ns,
        clocks.verdict AS clock_verdict,
        unmatched.n_unmatched
    FROM rank_windows AS windows
    JOIN shard ON windows.step BETWEEN shard.first_step AND shard.last_step
    LEFT JOIN rank_clocks AS clocks ON windows.rank = clocks.rank
    LEFT JOIN waited ON windows.rank = waited.wait_rank AND windows.step = waited.wait_step
    LEFT JOIN unmatched ON windows.rank = unmatched.unmatched_rank AND windows.step = unmatched.unmatched_step
),

judged AS (
    SELECT
        *,
        list_filter(
            [
                nullif(verdict, 'ok'),
                CASE WHEN clock_verdict <> 'ok' THEN 'clock not aligned' END,
                CASE WHEN n_unmatched > 0 THEN n_unmatched || ' collectives with a peer not recorded' END
            ],
            lambda reason: reason IS NOT NULL
        ) AS reasons
    FROM clocked
)

SELECT
    rank,
    capture,
    step,
    start_ns,
    end_ns,
    duration_ns,
    compute_ns,
    comm_ns,
    exposed_comm_ns,
    overlapped_comm_ns,
    copy_ns,
    exposed_copy_ns,
    idle_ns,
    idle_input_ns,
    idle_sync_ns,
    idle_host_ns,
    idle_launch_ns,
    idle_turnaround_ns,
    idle_other_ns,
    n_activities,
    n_unlinked,
    n_launched,
    CASE WHEN clock_verdict = 'ok' THEN coalesce(wait_ns, 0) END AS wait_ns,
    CASE WHEN len(reasons) = 0 THEN 'ok' ELSE array_to_string(reasons, '; ') END AS verdict
FROM judged
