-- One row per step of an op timeline: where a trace that lays steps one after the other puts it.
--
-- step        BIGINT  Step.
-- offset_ns   BIGINT  Start of the step in the trace: a twentieth after the end of the one before, recorded or ideal.
-- recorded_ns BIGINT  How long it took.
-- retimed_ns  BIGINT  How long without the gaps that no op explains; NULL where it cannot be replayed.
-- ideal_ns    BIGINT  How long in the ideal step; NULL where it cannot be replayed.
--
-- How: some dumps count time from the start of each step, so their steps would lie upon each other. Parameters: $run,
-- $first_step, $last_step.
WITH taken AS (
    SELECT
        step,
        any_value(recorded_ns) AS recorded_ns,
        max(duration_ns) FILTER (change = 'retimed') AS retimed_ns,
        max(duration_ns) FILTER (change = 'ideal') AS ideal_ns
    FROM timeline_replays
    WHERE run = $run AND step BETWEEN $first_step AND $last_step
    GROUP BY step
)

SELECT
    step,
    coalesce(sum(greatest(recorded_ns, ideal_ns) * 21 // 20) OVER earlier, 0)::BIGINT AS offset_ns,
    recorded_ns,
    retimed_ns,
    ideal_ns
FROM taken
WINDOW earlier AS (ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
ORDER BY step
