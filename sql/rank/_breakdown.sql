-- One row per span: where its time went.
--
-- capture            BIGINT  Which contiguous recording of the rank.
-- step               BIGINT  Number of the step; NULL for the whole capture.
-- start_ns           BIGINT  Start of the span.
-- end_ns             BIGINT  End of the span, not included.
-- compute_ns         BIGINT  Union of compute.
-- comm_ns            BIGINT  Union of comm.
-- exposed_comm_ns    BIGINT  Comm beside no compute.
-- overlapped_comm_ns BIGINT  Comm beside compute.
-- copy_ns            BIGINT  Union of copies.
-- exposed_copy_ns    BIGINT  Copies beside neither compute nor comm.
-- idle_ns            BIGINT  The rest of the span.
-- idle_input_ns      BIGINT  Idle: waiting for input.
-- idle_sync_ns       BIGINT  Idle: in a blocking call.
-- idle_host_ns       BIGINT  Idle: the host had not launched.
-- idle_launch_ns     BIGINT  Idle: launched, not begun.
-- idle_turnaround_ns BIGINT  Idle: the device's own pace.
-- idle_other_ns      BIGINT  Idle: no launch in the dump, or nothing follows.
-- n_activities       BIGINT  Activities that start in the span.
-- n_unlinked         BIGINT  Of them, those without a launch in the dump.
--
-- Scope: rank
SELECT
    spans.capture,
    spans.step,
    spans.start_ns,
    spans.end_ns,
    c1.compute_ns - c0.compute_ns AS compute_ns,
    c1.comm_ns - c0.comm_ns AS comm_ns,
    (c1.work_ns - c0.work_ns) - (c1.compute_ns - c0.compute_ns) AS exposed_comm_ns,
    (c1.comm_ns - c0.comm_ns) - (c1.work_ns - c0.work_ns) + (c1.compute_ns - c0.compute_ns) AS overlapped_comm_ns,
    c1.copy_ns - c0.copy_ns AS copy_ns,
    (c1.busy_ns - c0.busy_ns) - (c1.work_ns - c0.work_ns) AS exposed_copy_ns,
    (spans.end_ns - spans.start_ns) - (c1.busy_ns - c0.busy_ns) AS idle_ns,
    i1.input_ns - i0.input_ns AS idle_input_ns,
    i1.sync_ns - i0.sync_ns AS idle_sync_ns,
    i1.host_ns - i0.host_ns AS idle_host_ns,
    i1.launch_ns - i0.launch_ns AS idle_launch_ns,
    i1.turnaround_ns - i0.turnaround_ns AS idle_turnaround_ns,
    i1.other_ns - i0.other_ns AS idle_other_ns,
    c1.n_activities - c0.n_activities AS n_activities,
    c1.n_unlinked - c0.n_unlinked AS n_unlinked
FROM _spans AS spans
JOIN _covered AS c0 ON spans.start_ns = c0.edge_ns
JOIN _covered AS c1 ON spans.end_ns = c1.edge_ns
JOIN _idle AS i0 ON spans.start_ns = i0.edge_ns
JOIN _idle AS i1 ON spans.end_ns = i1.edge_ns
