-- One row per rank, capture: the breakdown from the first to the last activity, whatever the steps say.
--
-- rank               INTEGER  Rank.
-- capture            BIGINT   Which contiguous recording of the rank, from 0.
-- start_ns           BIGINT   Start of the first activity, on the rank's own clock.
-- end_ns             BIGINT   End of the last activity.
-- duration_ns        BIGINT   compute + exposed comm + exposed copies + idle, exactly.
-- compute_ns         BIGINT   Union of compute.
-- comm_ns            BIGINT   Union of comm.
-- exposed_comm_ns    BIGINT   Comm beside no compute.
-- overlapped_comm_ns BIGINT   Comm beside compute.
-- copy_ns            BIGINT   Union of copies.
-- exposed_copy_ns    BIGINT   Copies beside neither compute nor comm.
-- idle_ns            BIGINT   The rest: the sum of the six below.
-- idle_input_ns      BIGINT   As in rank_steps.
-- idle_sync_ns       BIGINT   As in rank_steps.
-- idle_host_ns       BIGINT   As in rank_steps.
-- idle_launch_ns     BIGINT   As in rank_steps.
-- idle_turnaround_ns BIGINT   As in rank_steps.
-- idle_other_ns      BIGINT   As in rank_steps.
-- n_activities       BIGINT   Activities of the capture.
-- n_unlinked         BIGINT   Of them, those without a launch in the dump.
-- first_step         BIGINT   First step of the capture.
-- last_step          BIGINT   Last step of the capture.
-- n_steps            BIGINT   Steps of the capture.
-- step_source        VARCHAR  marker; window where the whole dump stands in for a step.
-- verdict            VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: rank
WITH judged AS (
    SELECT
        breakdown.*,
        captures.first_step,
        captures.last_step,
        captures.n_steps,
        captures.is_window,
        list_filter(
            [
                CASE WHEN captures.is_window THEN 'no step markers' END,
                CASE
                    WHEN dump_facts.format = 'timers' THEN 'timers log: no kernels, compute is time within its timers'
                    WHEN NOT captures.has_device THEN 'no device: host threads are the lanes'
                END,
                CASE WHEN dump_facts.is_truncated THEN 'dump truncated' END,
                CASE WHEN dump_facts.n_dropped > 0 THEN dump_facts.n_dropped || ' events dropped' END,
                CASE WHEN breakdown.n_unlinked > 0 THEN breakdown.n_unlinked || ' launches missing' END
            ],
            lambda reason: reason IS NOT NULL
        ) AS reasons
    FROM _breakdown AS breakdown
    JOIN _capture_bounds AS captures ON breakdown.capture = captures.capture
    JOIN dump_facts ON captures.dump_no = dump_facts.dump_no
    WHERE breakdown.step IS NULL
)

SELECT
    context.rank,
    judged.capture,
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
    judged.n_activities,
    judged.n_unlinked,
    judged.first_step,
    judged.last_step,
    judged.n_steps,
    CASE WHEN judged.is_window THEN 'window' ELSE 'marker' END AS step_source,
    CASE WHEN len(judged.reasons) = 0 THEN 'ok' ELSE array_to_string(judged.reasons, '; ') END AS verdict
FROM judged
CROSS JOIN context
