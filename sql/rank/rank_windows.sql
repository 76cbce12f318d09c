-- One row per rank, step: what a rank alone can say of its window; rank_steps adds what the other ranks do.
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
-- hidden_host_ns     BIGINT   Of the exposed comm, what the host is behind: the compute that comes next was not launched.
-- n_activities       BIGINT   Activities that start in the window.
-- n_unlinked         BIGINT   Of them, those without a launch in the dump: in no step, yet busy.
-- n_launched         BIGINT   Device activities the step launched.
-- verdict            VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: rank
WITH judged AS (
    SELECT
        breakdown.*,
        windows.n_launched,
        coalesce(_starved.hidden_host_ns, 0) AS hidden_host_ns,
        list_filter(
            [
                CASE WHEN windows.is_window THEN 'no step markers' END,
                CASE
                    WHEN dump_facts.format = 'timers' THEN 'timers log: no kernels, compute is time within its timers'
                    WHEN NOT windows.has_device THEN 'no device: host threads are the lanes'
                END,
                CASE WHEN dump_facts.is_truncated THEN 'dump truncated' END,
                CASE WHEN dump_facts.n_dropped > 0 THEN dump_facts.n_dropped || ' events dropped' END,
                CASE WHEN breakdown.n_unlinked > 0 THEN breakdown.n_unlinked || ' launches missing' END,
                CASE WHEN windows.has_device AND windows.n_launched = 0 THEN 'nothing launched' END,
                CASE WHEN breakdown.start_ns = breakdown.end_ns THEN 'zero-length window' END
            ],
            lambda reason: reason IS NOT NULL
        ) AS reasons
    FROM _breakdown AS breakdown
    JOIN _windows AS windows ON breakdown.capture = windows.capture AND breakdown.step = windows.step
    JOIN dump_facts ON windows.dump_no = dump_facts.dump_no
    LEFT JOIN _starved ON windows.step = _starved.step AND windows.has_device
)

SELECT
    context.rank,
    judged.capture,
    judged.step,
    judged.start_ns,
    judged.end_ns,
    judged.end_ns - judged.start_ns AS duration_ns,
    judged.compute_ns,
    judged.comm_ns,
    judged.exposed_comm_ns,
    judged.overlapped_comm_ns,
    judged.copy_ns,
    judged.exposed_copy_ns,
    judged.idle_ns,
    judged.idle_input_ns,
    judged.idle_sync_ns,
    judged.idle_host_ns,
    judged.idle_launch_ns,
    judged.idle_turnaround_ns,
    judged.idle_other_ns,
    judged.hidden_host_ns,
    judged.n_activities,
    judged.n_unlinked,
    judged.n_launched,
    CASE WHEN len(judged.reasons) = 0 THEN 'ok' ELSE array_to_string(judged.reasons, '; ') END AS verdict
FROM judged
CROSS JOIN context
