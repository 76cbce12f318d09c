-- One row per rank, step, phase of training that had work in the step's window: how much, and from when to when.
--
-- rank         INTEGER  Rank.
-- step         BIGINT   Step in whose window the work ran.
-- phase        VARCHAR  forward, backward, sync (comm that backward launched: the exchange of gradients), optimizer, input, a
--     phase of the run's [phases], or other (no launch in the dump); forward is what no range names.
-- gpu_ns       BIGINT   Time that it alone explains, each moment once: compute, then comm, then copies, of one kind the earlier
--     started. Over the phases of a window it is the window without its idle time.
-- window_ns    BIGINT   From the start of its first work in the window to the end of its last.
-- n_activities BIGINT   Activities of it that run in the window.
--
-- Scope: rank
-- Order: step, phase
SELECT
    context.rank,
    alone.step,
    phases.phase,
    sum(alone.exclusive_ns)::BIGINT AS gpu_ns,
    max(alone.end_ns) - min(alone.start_ns) AS window_ns,
    count(*) AS n_activities
FROM _exclusive AS alone
JOIN _activity_phases AS phases ON alone.activity_no = phases.activity_no
CROSS JOIN context
WHERE alone.step IS NOT NULL
GROUP BY context.rank, alone.step, phases.phase
