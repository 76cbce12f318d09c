-- One row: whether anybody was waited for, and why nobody is named where nobody is.
--
-- n_steps            BIGINT   Steps of the run.
-- n_known            BIGINT   Of them, those in which lateness is known: timed, and recorded by two ranks or more.
-- n_step_ranks       INTEGER  Most ranks that recorded a step; NULL without steps.
-- has_collectives    BOOLEAN  Whether any rank took part in a collective.
-- n_stragglers       BIGINT   Ranks that are the straggler of a step.
-- n_straggler_steps  BIGINT   Steps that have a straggler.
-- n_place_steps      BIGINT   Of them, those in which it is a link or a stage.
-- n_tie_steps        BIGINT   Steps in which ranks tie for the lateness.
-- tie_ranks          VARCHAR  Those ranks, the first $max_ranges of them; NULL without a tie.
-- peak_rank          INTEGER  Rank that was latest in a single step; the first of equals; NULL where none was late.
-- peak_step          BIGINT   That step.
-- peak_ns            BIGINT   How late it was there.
-- peak_ratio         DOUBLE   Share of that step.
-- peak_place         VARCHAR  The link or stage that it shares that with; NULL where it is alone, or none was late.
-- peak_doubt         VARCHAR  ok, or why it is not that step's straggler.
--
-- How: ranks tie where the latest of a step is a tie by its verdict and they are late by more than half of it.
-- Parameters: $run, $max_ranges.
WITH step_sums AS (
    SELECT
        count(*) AS n_steps,
        count(*) FILTER (WHERE duration_ns IS NOT NULL AND n_ranks > 1) AS n_known,
        max(n_ranks) AS n_step_ranks
    FROM steps
    WHERE run = $run
),

late AS (
    SELECT
        step,
        rank,
        late_ns,
        late_ratio,
        is_straggler,
        place,
        verdict,
        max(late_ns) OVER (PARTITION BY step) AS latest_ns,
        bool_or(verdict LIKE 'a tie:%') OVER (PARTITION BY step) AS is_tie
    FROM step_stragglers
    WHERE run = $run
),

late_sums AS (
    SELECT
        count(DISTINCT rank) FILTER (WHERE is_straggler) AS n_stragglers,
        count(DISTINCT step) FILTER (WHERE is_straggler) AS n_straggler_steps,
        count(DISTINCT step) FILTER (WHERE place IS NOT NULL) AS n_place_steps,
        count(DISTINCT step) FILTER (WHERE is_tie) AS n_tie_steps
    FROM late
),

tied AS (
    SELECT
        rank,
        row_number() OVER (ORDER BY rank) AS place
    FROM late
    WHERE is_tie AND late_ns * 2 > latest_ns
    GROUP BY rank
),

tie_text AS (
    SELECT
        string_agg(rank::VARCHAR, ', ' ORDER BY rank) FILTER (WHERE place <= $max_ranges)
        || CASE WHEN count(*) > $max_ranges THEN ' and ' || (count(*) - $max_ranges) || ' more' ELSE '' END
            AS tie_ranks
    FROM tied
),

peak AS (
    SELECT
        rank,
        step,
        late_ns,
        late_ratio,
        place,
        verdict
    FROM late
    ORDER BY late_ns DESC, rank, step
    LIMIT 1
)

SELECT
    step_sums.n_steps,
    step_sums.n_known,
    step_sums.n_step_ranks,
    EXISTS (FROM collectives WHERE run = $run) AS has_collectives,
    late_sums.n_stragglers,
    late_sums.n_straggler_steps,
    late_sums.n_place_steps,
    late_sums.n_tie_steps,
    tie_text.tie_ranks,
    peak.rank AS peak_rank,
    peak.step AS peak_step,
    peak.late_ns AS peak_ns,
    peak.late_ratio AS peak_ratio,
    peak.place AS peak_place,
    peak.verdict AS peak_doubt
FROM step_sums
CROSS JOIN late_sums
CROSS JOIN tie_text
LEFT JOIN peak ON TRUE
