-- One row: every threshold the relations use, with its reason.
--
-- turnaround_ns    BIGINT  Longest gap between activities already launched that is the device's own pace: 5 µs.
--     In 20,095 such gaps of an 8-GPU H100 run the mean is 1.7 µs; a launch that arrives late leaves a longer one.
-- event_wait_ns    BIGINT  Longest time that a stream takes to go on after the event it waited for: 20 µs. On MI300 streams that
--     had waited for RCCL for milliseconds went on 9 to 19 µs after its end, on A100 6 to 11 µs.
-- silent_ns        BIGINT  Shortest time without a call inside an operator that is taken for an unrecorded wait: 10 ms. The
--     host's own work between two calls takes micro- to milliseconds.
-- silent_end_ns    BIGINT  Such a wait ends within this of the work it waited for: 100 µs. PyTorch's allocator, waiting for the
--     events of a V100 before it frees memory, went on after 38 µs.
-- longest_event_ns BIGINT  An event beyond this is a wrong clock, not work: one week.
-- largest_step     BIGINT  A marker with a greater number is no step: 10^15.
-- largest_world    BIGINT  A dump that says its job has more ranks is not believed: 2^20.
-- anchors_per_shape DOUBLE Collectives of one group and shape that a clock is fitted to, at least, where there are so many:
--     128. A median of 128 ends that spread by 20 µs is known to 2 µs, well under what a kernel takes.
-- loose_end_ns      DOUBLE  Members whose ends spread by more do not leave together, so they anchor no clock: 1 ms. NCCL on
--     one host spreads by 7 to 50 µs, over four hosts by 85 µs (p99); gloo by 4 ms.
-- same_group_ns     DOUBLE  Streams without metadata are taken for one group where their ends keep together to this: 100 µs.
-- shared_clock_ns   DOUBLE  Ranks that say they share a host keep one clock where collective ends differ by less: 100 µs;
--     beyond it, and beyond 3 residuals, the dumps' word is contradicted and offsets are fitted.
-- crystal_drift     DOUBLE A clock's crystal may be off by this: 100 parts per million. Anchors that could not show that much
--     over their span show no drift at all.
-- rounded_ns        DOUBLE Ends deviate by this at least: 250 ns, what times in whole microseconds do by rounding alone.
-- slow_link_ratio   DOUBLE  A group whose transfers take this much longer than its siblings' has a slow link: 1.25, since
--     medians of sibling groups on one machine differ by up to a tenth.
-- longest_epoch_s  DOUBLE  A start of an op this far from 1970 or further is no time: 9 * 10^9 s, the year 2255, which still
--     fits in ns.
-- most_stages      BIGINT  A pipeline has no more stages than this: 256. The largest published ones have 64.
-- hop_slack_ns     BIGINT  Starts and ends of one worker's sends, receives and passes are compared to within this: 50 µs, what
--     recorders of different streams disagree by.
-- clock_slack_ns   BIGINT  A transfer that ended before the last of those who meet had come is a clock's error below this:
--     10 ms.
-- slowest_percent  BIGINT  Workers that M_W makes ideal, of a hundred: 3, its definition.
-- straggler_ratio  DOUBLE  A rank that is late by less of the step is no straggler: 0.02. Kernels of one kind differ by a few
--     per cent from run to run, and the slowest of eight ranks by as much.
-- mfu_trend_ratio  DOUBLE  MFU whose median differs by no more between a run's first and last third is steady: 0.03. Step
--     times of one job differ by a few per cent from step to step; a median of many by less.
-- baseline_runs    BIGINT  Good runs that a run is compared with, the last ones: 10. Enough for a median deviation, and few
--     enough that a lasting change is the new normal after as many nights.
-- noise_sigmas     DOUBLE  A change within this many standard deviations says nothing: 3, one false alarm in 370.
-- spread_runs      BIGINT  Runs from which on their own spread counts: 3; of two the median deviation halves the difference.
-- shaped_ratio     DOUBLE  Clocks stand for work of which less has no shapes: 0.9. What is missing could at most be a tenth of the
--     time, and the largest of four clocks leads by more in the cases that need one.
-- largest_work     DOUBLE  An operator with more FLOPs or bytes, or work of more ns, is not believed: 10^18. The fastest device takes a
--     quarter of an hour for as many FLOPs.
-- peak_slack_ratio DOUBLE  Work at more than this of a device's peak is not possible, so shapes or device are wrong: 1.05, since
--     boost clocks exceed what data sheets count with by a few per cent.
-- noise_errors     DOUBLE  A change of a median counts from this many standard errors on: 3. Of hundreds of kernels in two
--     recordings of one job one would pass by chance, so it must pass the next two as well.
-- same_job_ratio   DOUBLE  Two recordings of one job differ by this without a cause: 0.02. Clocks and placement differ, and
--     even within one recording steps on MI300 took 18.55 to 18.98 ms.
-- least_share_ratio DOUBLE A change below this share of the step is none that anybody would look for: 0.001.
-- least_steps      BIGINT  Steps from which their spread is known: 3; of two it may be nothing by chance.
-- alike_ratio      DOUBLE  Runs do not do the same work where kernels that both have are less than this of either's kernel
--     time: 0.5. A new version of a compiler renames some kernels, another model nearly all.
-- least_sparse_ratio DOUBLE A peak told that is this many times the dense one, to most_sparse_ratio, is that with sparsity:
--     data sheets state twice the dense peak, rounded.
-- most_sparse_ratio DOUBLE  As above.
-- timer_slack_ratio DOUBLE Timers without starts that add up to more than their step by this may lie behind each other: 0.01.
--     Logs round durations, a step of hundreds of milliseconds to one.
-- longest_sample_ns BIGINT A sample of telemetry speaks for no longer than this: a minute. DCGM's exporter samples every 30 s.
-- slow_clock_ratio DOUBLE  A device's clock is lower than its peers' from this share on: 0.03. Under one load boost clocks of
--     healthy devices of one kind differ by a step or two of 15 MHz, of nearly 2,000.
--
-- Scope: lib
SELECT
    5000::BIGINT AS turnaround_ns,
    20000::BIGINT AS event_wait_ns,
    10000000::BIGINT AS silent_ns,
    100000::BIGINT AS silent_end_ns,
    (7 * 24 * 3600 * 1000000000::BIGINT)::BIGINT AS longest_event_ns,
    1000000000000000::BIGINT AS largest_step,
    1048576::BIGINT AS largest_world,
    128::DOUBLE AS anchors_per_shape,
    1e6::DOUBLE AS loose_end_ns,
    1e5::DOUBLE AS same_group_ns,
    1e5::DOUBLE AS shared_clock_ns,
    1e-4::DOUBLE AS crystal_drift,
    250::DOUBLE AS rounded_ns,
    1.25::DOUBLE AS slow_link_ratio,
    9e9::DOUBLE AS longest_epoch_s,
    256::BIGINT AS most_stages,
    50000::BIGINT AS hop_slack_ns,
    10000000::BIGINT AS clock_slack_ns,
    3::BIGINT AS slowest_percent,
    0.02::DOUBLE AS straggler_ratio,
    0.03::DOUBLE AS mfu_trend_ratio,
    10::BIGINT AS baseline_runs,
    3::DOUBLE AS noise_sigmas,
    3::BIGINT AS spread_runs,
    0.9::DOUBLE AS shaped_ratio,
    1e18::DOUBLE AS largest_work,
    1.05::DOUBLE AS peak_slack_ratio,
    3::DOUBLE AS noise_errors,
    0.02::DOUBLE AS same_job_ratio,
    0.001::DOUBLE AS least_share_ratio,
    3::BIGINT AS least_steps,
    0.5::DOUBLE AS alike_ratio,
    1.95::DOUBLE AS least_sparse_ratio,
    2.05::DOUBLE AS most_sparse_ratio,
    0.01::DOUBLE AS timer_slack_ratio,
    (60 * 1000000000::BIGINT)::BIGINT AS longest_sample_ns,
    0.03::DOUBLE AS slow_clock_ratio
