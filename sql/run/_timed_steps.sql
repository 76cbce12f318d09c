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
-- verdict       VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: steps
-- How: times are aligned by rank_clocks. One step before the shard comes along, for its end is the first step's start; nothing else crosses a shard.
WITH aligned AS (
    SELECT
        windows.rank,
        windows.capture,
        windows.step,
        windows.verdict,
        aligned_ns(windows.start_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS start_ns,
        aligned_ns(windows.end_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS end_ns
    FROM rank_windows AS windows
    JOIN rank_clocks AS clocks ON windows.rank = clocks.rank
),

by_rank AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY step ORDER BY end_ns DESC, rank) AS place
    FROM aligned
),

by_step AS (
    SELECT
        step,
        min(capture) AS capture,
        max(end_ns) AS end_ns,
        max(start_ns) AS start_ns,
        max(start_ns) - min(start_ns) AS start_skew_ns,
        any_value(rank) FILTER (place = 1) AS end_rank,
        max(end_ns) - max(end_ns) FILTER (place = 2) AS end_margin_ns,
        count(*)::INTEGER AS n_ranks,
        list(DISTINCT rank ORDER BY rank) AS present
    FROM by_rank
    GROUP BY step
),

chained AS (
    SELECT
        *,
        coalesce(lag(step) OVER in_order = step - 1 AND lag(capture) OVER in_order = capture, FALSE) AS follows,
        lag(end_ns) OVER in_order AS end_before_ns
    FROM by_step
    WINDOW in_order AS (ORDER BY step)
),

timed AS (
    SELECT
        *,
        CASE WHEN follows THEN end_before_ns ELSE start_ns END AS begin_ns
    FROM chained
),

doubts AS (
    SELECT
        step,
        list(DISTINCT reason ORDER BY reason) AS reasons
    FROM (
        SELECT
            step,
            regexp_replace(unnest(string_split(verdict, '; ')), '^\d+ ', '') AS reason
        FROM aligned
        WHERE verdict <> 'ok'
    )
    GROUP BY step
),

absent AS (
    SELECT
        by_step.step,
        count(*) AS n_absent,
        list(ranks.rank ORDER BY ranks.rank) AS names
    FROM by_step
    JOIN ranks ON NOT list_contains(by_step.present, ranks.rank)
    GROUP BY by_step.step
),

judged AS (
    SELECT
        timed.*,
        clock.is_shared,
        list_concat(
            list_filter(
                [
                    CASE WHEN NOT clock.is_shared THEN 'clock not aligned' END,
                    CASE
                        WHEN absent.n_absent > 8
                            THEN 'rank absent: ' || absent.n_absent || ' of '
                                || (absent.n_absent + timed.n_ranks) || ', the first '
                                || array_to_string(absent.names[1:8], ', ')
                        WHEN absent.n_absent > 0 THEN 'rank absent: ' || array_to_string(absent.names, ', ')
                    END,
                    CASE WHEN timed.end_ns < timed.begin_ns THEN 'ends before the step before it: ranks differ' END
                ],
                lambda reason: reason IS NOT NULL
            ),
            coalesce(doubts.reasons, [])
        ) AS reasons
    FROM timed
    CROSS JOIN _clock_basis AS clock
    LEFT JOIN doubts ON timed.step = doubts.step
    LEFT JOIN absent ON timed.step = absent.step
)

SELECT
    judged.capture,
    judged.step,
    CASE WHEN judged.is_shared THEN judged.begin_ns END AS start_ns,
    CASE WHEN judged.is_shared THEN greatest(judged.end_ns, judged.begin_ns) END AS end_ns,
    CASE WHEN judged.is_shared THEN greatest(judged.end_ns - judged.begin_ns, 0) END AS duration_ns,
    CASE WHEN judged.is_shared THEN judged.end_rank END AS end_rank,
    CASE WHEN judged.is_shared THEN judged.end_margin_ns END AS end_margin_ns,
    CASE WHEN judged.is_shared AND NOT judged.follows THEN judged.start_skew_ns END AS start_skew_ns,
    judged.n_ranks,
    CASE WHEN len(judged.reasons) = 0 THEN 'ok' ELSE array_to_string(judged.reasons, '; ') END AS verdict
FROM judged
JOIN shard ON judged.step BETWEEN shard.first_step AND shard.last_step
