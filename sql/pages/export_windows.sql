-- One row per window of a rank in the range of steps.
--
-- step            BIGINT   Number of the step.
-- start_ns        BIGINT   Start, on the run's clock.
-- end_ns          BIGINT   End.
-- compute_ns      BIGINT   Union of compute.
-- exposed_comm_ns BIGINT   Comm beside no compute.
-- exposed_copy_ns BIGINT   Copies beside neither compute nor comm.
-- idle_ns         BIGINT   The rest.
-- wait_ns         BIGINT   Time it waited inside collectives; NULL where clocks are not aligned.
-- verdict         VARCHAR  ok, or the reasons to doubt it.
--
-- How: Parameters: $run, $rank, $first_step, $last_step.
SELECT
    windows.step,
    aligned_ns(windows.start_ns, coalesce(clocks.offset_ns, 0), clocks.drift_ppb, clocks.reference_ns) AS start_ns,
    aligned_ns(windows.end_ns, coalesce(clocks.offset_ns, 0), clocks.drift_ppb, clocks.reference_ns) AS end_ns,
    windows.compute_ns,
    windows.exposed_comm_ns,
    windows.exposed_copy_ns,
    windows.idle_ns,
    windows.wait_ns,
    windows.verdict
FROM rank_steps AS windows
LEFT JOIN rank_clocks AS clocks ON clocks.run = $run AND clocks.rank = $rank::INTEGER
WHERE windows.run = $run AND windows.rank = $rank::INTEGER AND windows.step BETWEEN $first_step AND $last_step
ORDER BY windows.start_ns, windows.end_ns DESC, windows.step
