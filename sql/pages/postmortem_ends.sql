-- One row per recorded rank: when and how its recording ended, the first to stop first.
--
-- rank         INTEGER  Rank.
-- host         VARCHAR  Host; NULL unknown.
-- last_step    BIGINT   Last step that it recorded; NULL without any.
-- last_own_ns  BIGINT   End of its last work (on its device; without one, on its host), on its own clock; NULL without any.
-- last_ns      BIGINT   The same on the run's clock; NULL where clocks are not aligned.
-- before_ns    BIGINT   How long before the last rank's; NULL as above.
-- seen_own_ns  BIGINT   End of its last activity or marker of any sort, on its own clock.
-- is_truncated BOOLEAN  Whether its last dump lost its end.
-- n_lost_bytes BIGINT   Bytes of text lost there.
-- is_early     BOOLEAN  Whether it stopped before others: truncated, or with fewer steps.
-- n_ranks      BIGINT   Ranks recorded.
-- n_early      BIGINT   Of them, those that stopped early.
-- final_step   BIGINT   Last step of any rank.
-- verdict      VARCHAR  Its last dump's.
--
-- How: the last dump of each rank. Ranks whose recordings go equally far stop milliseconds apart: that is none stopping early. A
-- dump is not in order of time, so one that lost its end may have lost the device and kept the host to its last step: the last work
-- counts. Parameters: $run, $max_rows.
WITH last_dumps AS (
    SELECT
        rank,
        host,
        last_ns AS seen_own_ns,
        is_truncated,
        n_lost_bytes,
        verdict
    FROM dumps
    WHERE run = $run AND rank IS NOT NULL AND last_ns IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY last_ns DESC, dump) = 1
),

worked AS (
    SELECT
        rank AS work_rank,
        max(end_ns) AS last_own_ns
    FROM rank_captures
    WHERE run = $run AND n_activities > 0
    GROUP BY rank
),

stepped AS (
    SELECT
        rank AS step_rank,
        max(step) AS last_step
    FROM rank_steps
    WHERE run = $run
    GROUP BY rank
),

clocked AS (
    SELECT
        rank AS clock_rank,
        offset_ns,
        drift_ppb,
        reference_ns,
        count(DISTINCT clock_no) OVER () AS n_clocks
    FROM rank_clocks
    WHERE run = $run
),

ended AS (
    SELECT
        last_dumps.*,
        worked.last_own_ns,
        stepped.last_step,
        max(stepped.last_step) OVER () AS final_step,
        CASE
            WHEN clocked.n_clocks = 1
                THEN aligned_ns(worked.last_own_ns, coalesce(clocked.offset_ns, 0), clocked.drift_ppb, clocked.reference_ns)
        END AS last_ns
    FROM last_dumps
    LEFT JOIN worked ON last_dumps.rank = worked.work_rank
    LEFT JOIN stepped ON last_dumps.rank = stepped.step_rank
    LEFT JOIN clocked ON last_dumps.rank = clocked.clock_rank
),

judged AS (
    SELECT
        *,
        is_truncated OR coalesce(last_step < final_step, last_step IS NULL AND final_step IS NOT NULL) AS is_early
    FROM ended
)

SELECT
    rank,
    host,
    last_step,
    last_own_ns,
    last_ns,
    max(last_ns) OVER () - last_ns AS before_ns,
    seen_own_ns,
    is_truncated,
    n_lost_bytes,
    is_early,
    count(*) OVER () AS n_ranks,
    count(*) FILTER (is_early) OVER () AS n_early,
    final_step,
    verdict
FROM judged
ORDER BY is_early DESC, last_ns NULLS FIRST, last_step NULLS FIRST, rank
LIMIT $max_rows
