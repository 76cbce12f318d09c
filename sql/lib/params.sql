-- One row: every threshold the relations use, with its reason.
--
-- turnaround_ns    BIGINT  Longest gap between activities already launched that is the device's own pace: 5 µs.
--     In 20,095 such gaps of an 8-GPU H100 run the mean is 1.7 µs; a launch that arrives late leaves a longer one.
-- longest_event_ns BIGINT  An event beyond this is a wrong clock, not work: one week.
--
-- Scope: lib
SELECT
    5000::BIGINT AS turnaround_ns,
    (7 * 24 * 3600 * 1000000000::BIGINT)::BIGINT AS longest_event_ns
