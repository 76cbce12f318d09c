-- One row per slice of the time that a range of steps takes on a rank, host and device: what is read at once.
--
-- from_ns  BIGINT  Start, on the rank's own clock.
-- to_ns    BIGINT  End, not included.
-- start_ns BIGINT  from_ns on the run's clock.
-- end_ns   BIGINT  to_ns on the run's clock.
--
-- How: cut where windows begin, whole steps together. The host runs ahead of the device, so the first begins with the
-- earliest step marker. Parameters: $run, $rank, $first_step, $last_step, $n_slices.
WITH windows AS (
    SELECT
        start_ns,
        end_ns,
        ntile($n_slices) OVER (ORDER BY start_ns, step) AS slice
    FROM rank_steps
    WHERE run = $run AND rank = $rank::INTEGER AND step BETWEEN $first_step AND $last_step
),

markers AS (
    SELECT
        min(start_ns) AS first_ns,
        max(start_ns + duration_ns) AS last_ns
    FROM events
    WHERE run = $run
        AND rank = $rank::INTEGER
        AND category = 'step'
        AND step BETWEEN $first_step AND $last_step
        AND duration_ns BETWEEN 0 AND epoch_ns(INTERVAL 7 DAY)
),

cuts AS (
    SELECT
        slice,
        min(start_ns) AS first_ns,
        max(end_ns) + 1 AS last_ns
    FROM windows
    GROUP BY slice
),

slices AS (
    SELECT
        cuts.slice,
        CASE WHEN cuts.slice = 1 THEN least(cuts.first_ns, markers.first_ns) ELSE cuts.first_ns END AS from_ns,
        coalesce(
            lead(cuts.first_ns) OVER (ORDER BY cuts.slice), greatest(cuts.last_ns, markers.last_ns + 1)
        ) AS to_ns
    FROM cuts
    CROSS JOIN markers
)

SELECT
    slices.from_ns,
    slices.to_ns,
    aligned_ns(slices.from_ns, coalesce(clocks.offset_ns, 0), clocks.drift_ppb, clocks.reference_ns) AS start_ns,
    aligned_ns(slices.to_ns, coalesce(clocks.offset_ns, 0), clocks.drift_ppb, clocks.reference_ns) AS end_ns
FROM slices
LEFT JOIN rank_clocks AS clocks ON clocks.run = $run AND clocks.rank = $rank::INTEGER
ORDER BY slices.slice
