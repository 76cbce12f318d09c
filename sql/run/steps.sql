-- One row per step of the run: from the last rank's completion of the step before to the last rank's completion of it.
--
-- capture       BIGINT   Which contiguous recording, from 0.
-- step          BIGINT   Number of the step.
-- start_ns      BIGINT   End of the step before; for a capture's first step the last rank's start. NULL: clocks not aligned.
-- end_ns        BIGINT   Latest completion of the step on any rank. NULL: clocks not aligned.
-- duration_ns   BIGINT   The step time. NULL: clocks not aligned.
-- end_rank      INTEGER  Rank that completed last, where the critical path ends; the lowest of equals. NULL as above.
-- end_margin_ns BIGINT   By how much, over the next rank. NULL with one rank, or as above.
-- start_skew_ns BIGINT   For a capture's first step: latest minus earliest start on a rank. NULL for others, or as above.
-- n_ranks       INTEGER  Ranks that recorded the step.
-- straggler_rank INTEGER Rank that the step was waiting for, as step_stragglers names it; of a link or a stage the lowest. NULL
--     where it names none.
-- straggler_ns  BIGINT   How late that rank was; NULL as above.
-- straggler_cause VARCHAR Why; link or stage: with the others there. NULL as above.
-- verdict       VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: steps
-- How: times are aligned by rank_clocks. One step before the shard comes along, for its end is the first step's start; nothing else crosses a shard.
WITH named AS (
    SELECT
        step,
        rank,
        late_ns,
        cause,
        row_number() OVER (PARTITION BY step ORDER BY place NULLS FIRST, late_ns DESC, rank) AS name_place
    FROM step_stragglers
    WHERE is_straggler
)

SELECT
    timed.capture,
    timed.step,
    timed.start_ns,
    timed.end_ns,
    timed.duration_ns,
    timed.end_rank,
    timed.end_margin_ns,
    timed.start_skew_ns,
    timed.n_ranks,
    named.rank AS straggler_rank,
    named.late_ns AS straggler_ns,
    named.cause AS straggler_cause,
    timed.verdict
FROM _timed_steps AS timed
LEFT JOIN named ON timed.step = named.step AND named.name_place = 1
