-- One row per view and verdict other than ok, at most $max_verdicts of them: how often and for which steps.
--
-- source       VARCHAR  View the verdict stands in: steps, rank_steps or rank_captures.
-- verdict      VARCHAR  The verdict; 'no verdict' where it is NULL.
-- n_rows       BIGINT   Rows of the view that have it.
-- n_ranks      BIGINT   Ranks of those rows; NULL for steps of the run.
-- step_ranges  VARCHAR  Their steps as ranges, the first $max_ranges of them; NULL for captures without steps.
--
-- How: neighbouring step numbers make one range (gaps and islands). Parameters: $run, $max_ranges,
-- $max_verdicts.
WITH bad AS (
    SELECT
        'steps' AS source,
        coalesce(verdict, 'no verdict') AS verdict,
        NULL AS rank,
        step AS first_step,
        step AS last_step
    FROM steps
    WHERE run = $run AND verdict IS DISTINCT FROM 'ok'
    UNION ALL
    SELECT
        'rank_steps' AS source,
        coalesce(verdict, 'no verdict') AS verdict,
        rank,
        step AS first_step,
        step AS last_step
    FROM rank_steps
    WHERE run = $run AND verdict IS DISTINCT FROM 'ok'
    UNION ALL
    SELECT
        'rank_captures' AS source,
        coalesce(verdict, 'no verdict') AS verdict,
        rank,
        first_step,
        last_step
    FROM rank_captures
    WHERE run = $run AND verdict IS DISTINCT FROM 'ok'
),

counts AS (
    SELECT
        source,
        verdict,
        count(*) AS n_rows,
        nullif(count(DISTINCT rank), 0) AS n_ranks
    FROM bad
    GROUP BY source, verdict
),

spans AS (
    SELECT DISTINCT
        source,
        verdict,
        first_step,
        last_step
    FROM bad
    WHERE first_step IS NOT NULL AND last_step IS NOT NULL
),

marked AS (
    SELECT
        *,
        first_step > max(last_step) OVER earlier + 1 AS is_new
    FROM spans
    WINDOW earlier AS (
        PARTITION BY source, verdict
        ORDER BY first_step, last_step
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

numbered AS (
    SELECT
        source,
        verdict,
        first_step,
        last_step,
        sum(CASE WHEN is_new THEN 1 ELSE 0 END) OVER (
            PARTITION BY source, verdict
            ORDER BY first_step, last_step
        )::BIGINT AS island
    FROM marked
),

islands AS (
    SELECT
        source,
        verdict,
        min(first_step) AS low,
        max(last_step) AS high,
        row_number() OVER (PARTITION BY source, verdict ORDER BY min(first_step)) AS place
    FROM numbered
    GROUP BY source, verdict, island
),

ranges AS (
    SELECT
        source,
        verdict,
        string_agg(CASE WHEN low = high THEN low::VARCHAR ELSE low || '–' || high END, ', ' ORDER BY low)
            FILTER (WHERE place <= $max_ranges)
        || CASE WHEN count(*) > $max_ranges THEN ' and ' || (count(*) - $max_ranges) || ' more' ELSE '' END
            AS step_ranges
    FROM islands
    GROUP BY source, verdict
)

SELECT
    counts.source,
    counts.verdict,
    counts.n_rows,
    counts.n_ranks,
    ranges.step_ranges
FROM counts
LEFT JOIN ranges USING (source, verdict)
ORDER BY counts.source DESC, counts.n_rows DESC, counts.verdict
LIMIT $max_verdicts
