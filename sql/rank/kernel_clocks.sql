-- One row per rank, step, class of kernels: its work, and which of four clocks it runs by.
--
-- rank                 INTEGER  Rank.
-- step                 BIGINT   Step that launched the calls; NULL where their launch is in no step or not in the dump.
-- kernel_class         VARCHAR  gemm, attention, convolution, other (compute), comm or copy.
-- n_calls              BIGINT   Calls.
-- total_ns             BIGINT   Measured: sum of the calls' durations.
-- flops                BIGINT   FLOPs of the calls whose shapes the dump has, a multiply and an add counting as two.
-- recomputed_flops     BIGINT   Of them, forward work that backward did once more.
-- n_bytes              BIGINT   Bytes: of compute what its operators read and wrote, each tensor once; of comm what crossed the
--     rank's link; of copies what they moved.
-- compute_ns           BIGINT   FLOPs at the device's dense peak of their type.
-- memory_ns            BIGINT   Bytes of compute and copies at the bandwidth of the device's memory.
-- comm_ns              BIGINT   Bytes of comm at the bandwidth of the device's link.
-- overhead_ns          BIGINT   Launch calls at the median of what the rank's launch calls took.
-- clock                VARCHAR  The longest of the four; NULL with a reason, unless it leads by more
--     than what is unknown took.
-- overlapped_ns        BIGINT   It: the time where the other three hide behind it. NULL with a reason.
-- serial_ns            BIGINT   Their sum: the time where nothing overlaps. NULL with a reason.
-- flops_per_s          DOUBLE   Achieved, over the calls with FLOPs.
-- bound_flops_per_s    DOUBLE   What the roofline allows them: each kernel the longer of its FLOPs at peak and its bytes at memory
--     bandwidth. NULL without peak or sizes.
-- bytes_per_s          DOUBLE   Achieved, over the calls whose bytes are known.
-- shaped_ratio         DOUBLE   Of the time of compute, calls with shapes; NULL of comm and copies.
-- reason               VARCHAR  Why clocks are not known; NULL where they are.
--
-- Scope: rank
SELECT
    context.rank,
    clocks.step,
    clocks.kernel_class,
    clocks.n_calls,
    clocks.total_ns,
    clocks.flops,
    clocks.recomputed_flops,
    clocks.n_bytes,
    clocks.compute_ns,
    clocks.memory_ns,
    clocks.comm_ns,
    clocks.overhead_ns,
    clocks.clock,
    clocks.overlapped_ns,
    clocks.serial_ns,
    clocks.flops / nullif(clocks.product_ns, 0) * 1e9 AS flops_per_s,
    clocks.flops / nullif(clocks.floor_ns, 0) * 1e9 AS bound_flops_per_s,
    CASE WHEN clocks.n_bytes IS NOT NULL THEN clocks.n_bytes / nullif(clocks.sized_ns, 0) * 1e9 END AS bytes_per_s,
    clocks.counted_ns / nullif(clocks.compute_total_ns, 0) AS shaped_ratio,
    nullif(array_to_string(clocks.reasons, '; '), '') AS reason
FROM _clocks AS clocks
CROSS JOIN context
WHERE clocks.grain = 'class'
