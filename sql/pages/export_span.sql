-- One row: the time that a range of steps takes on a rank, host and device.
--
-- from_ns  BIGINT  Earliest start of a window or a step marker, on the rank's own clock; NULL without any.
-- to_ns    BIGINT  Latest end of one.
-- start_ns BIGINT  from_ns on the run's clock.
--
-- How: the host runs ahead of the device, so a marker starts before its window. Parameters: $run, $rank, $first_step,
-- $last_step.
WITH times AS (
    SELECT
        start_ns,
        end_ns
    FROM rank_steps
    WHERE run = $run AND rank = $rank::INTEGER AND step BETWEEN $first_step AND $last_step
    UNION ALL
    SELECT
        start_ns,
        start_ns + duration_ns AS end_ns
    FROM events
    WHERE run = $run
        AND rank = $rank::INTEGER
        AND category = 'step'
        AND step BETWEEN $first_step AND $last_step
        AND duration_ns BETWEEN 0 AND epoch_ns(INTERVAL 7 DAY)
),

span AS (
    SELECT
        min(start_ns) AS from_ns,
        max(end_ns) AS to_ns
    FROM times
)

SELECT
    span.from_ns,
    span.to_ns,
    span.from_ns - coalesce(clocks.offset_ns, 0)
    - coalesce(round(clocks.drift_ppb * (span.from_ns - clocks.reference_ns) / 1e9), 0)::BIGINT AS start_ns
FROM span
LEFT JOIN rank_clocks AS clocks ON clocks.run = $run AND clocks.rank = $rank::INTEGER
