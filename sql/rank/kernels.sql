-- One row per rank, step, kernel name: how often it ran, how long, and how much of the time it alone explains.
--
-- rank          INTEGER  Rank.
-- step          BIGINT   Step that launched the calls; NULL where their launch is in no step or not in the dump.
-- name          VARCHAR  Name; on the host, of the outermost operator or the collective's span.
-- kind          VARCHAR  compute, comm or copy.
-- comm_evidence VARCHAR  Why it is comm: metadata, operator or name; NULL for other kinds.
-- n_calls       BIGINT   Calls.
-- total_ns      BIGINT   Sum of the calls' durations; calls that run side by side both count.
-- exposed_ns    BIGINT   Time no earlier activity of its kind and no kind before it covers (compute, then comm, then
--     copies): over all names, exposed_ns + idle is the whole time.
-- flops         BIGINT   FLOPs of the calls whose shapes the dump has; NULL where it has none.
-- n_bytes       BIGINT   Bytes: of compute what its operators read and wrote, of comm what crossed the rank's link, of copies
--     what they moved; NULL where nothing says it.
-- clock         VARCHAR  compute, memory, comm or overhead: which would take longest alone; NULL where a tenth of its time or
--     more has no shapes, the device is not known, or it ran faster than that could.
--
-- Scope: rank
SELECT
    context.rank,
    clocks.step,
    clocks.name,
    clocks.kind,
    clocks.comm_evidence,
    clocks.n_calls,
    clocks.total_ns,
    clocks.exposed_ns,
    clocks.flops,
    clocks.n_bytes,
    clocks.clock
FROM _clocks AS clocks
CROSS JOIN context
WHERE clocks.grain = 'kernel'
