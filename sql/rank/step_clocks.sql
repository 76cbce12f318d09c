-- One row per rank, step: how long each of four clocks would take for what it launched, beside the time that it took.
--
-- rank          INTEGER  Rank.
-- step          BIGINT   Step.
-- duration_ns   BIGINT   Measured: the step's window on this rank.
-- compute_ns    BIGINT   FLOPs at the device's dense peak of their type; NULL with a reason.
-- memory_ns     BIGINT   Bytes of compute and copies at the bandwidth of the device's memory; NULL with a reason.
-- comm_ns       BIGINT   Bytes of comm at the bandwidth of the device's link; NULL with a reason, or without comm.
-- overhead_ns   BIGINT   Launch calls at the median of what the rank's launch calls took.
-- clock         VARCHAR  The longest of the four: compute, memory, comm or overhead; NULL with a reason, unless it leads by more
--     than what is unknown took.
-- overlapped_ns BIGINT   It: the step's time where the other three hide behind it. NULL with a reason.
-- serial_ns     BIGINT   Their sum: the step's time where nothing overlaps. NULL with a reason.
-- reason        VARCHAR  Why clocks are not known; NULL where they are.
--
-- Scope: rank
SELECT
    windows.rank,
    windows.step,
    windows.duration_ns,
    clocks.compute_ns,
    clocks.memory_ns,
    clocks.comm_ns,
    clocks.overhead_ns,
    clocks.clock,
    clocks.overlapped_ns,
    clocks.serial_ns,
    CASE
        WHEN clocks.step IS NULL THEN 'nothing launched'
        ELSE nullif(array_to_string(clocks.reasons, '; '), '')
    END AS reason
FROM rank_windows AS windows
LEFT JOIN _clocks AS clocks ON windows.step = clocks.step AND clocks.grain = 'step'
