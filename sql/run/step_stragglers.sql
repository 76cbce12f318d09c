-- One row per step, rank that others waited for: how long, and what it did meanwhile that they did not.
--
-- step         BIGINT   Step.
-- rank         INTEGER  Rank.
-- late_ns      BIGINT   How long others waited for it, from when it had not to wait itself; each lateness once, and no more than
--     it spent beyond the median rank.
-- late_ratio   DOUBLE   Of the step time.
-- n_last       BIGINT   Collectives at which it came last.
-- is_straggler BOOLEAN  Whether it is the step's straggler: beyond the noise, and twice as late as any other.
-- cause        VARCHAR  compute, host, input, sync, copy, before (it was late when the recording began) or unknown: what it
--     spent at least half of late_ns more on than the median rank; NULL where it is no straggler.
-- cause_ns     BIGINT   That excess; NULL as above.
-- verdict      VARCHAR  ok, or why it is not named.
--
-- Scope: steps
-- Order: step, rank
-- How: lateness is counted by time, not by turns: who is last by microseconds at many collectives costs nothing. Behind a late exchange the next one waits too, for work that is
-- no longer than others': so no more is counted than the rank's own excess. The
-- noise of a step is 2 % of it, three residuals of the clocks, and three times what the second of a step is late in the
-- median step.
WITH spent AS (
    SELECT
        late.step,
        late.rank,
        late.n_last,
        late.residual_ns,
        causes.early_ns,
        greatest(causes.compute_ns, causes.host_ns, causes.input_ns, causes.sync_ns, causes.copy_ns) AS excess_ns,
        CASE greatest(causes.compute_ns, causes.host_ns, causes.input_ns, causes.sync_ns, causes.copy_ns)
            WHEN causes.compute_ns THEN 'compute'
            WHEN causes.host_ns THEN 'host'
            WHEN causes.input_ns THEN 'input'
            WHEN causes.sync_ns THEN 'sync'
            ELSE 'copy'
        END AS excess,
        late.late_ns AS waited_ns,
        least(
            late.late_ns,
            greatest(causes.early_ns, 0)
            + greatest(causes.compute_ns, 0)
            + greatest(causes.host_ns, 0)
            + greatest(causes.input_ns, 0)
            + greatest(causes.sync_ns, 0)
            + greatest(causes.copy_ns, 0)
        ) AS late_ns
    FROM _late_ranks AS late
    JOIN _step_causes AS causes ON late.step = causes.step AND late.rank = causes.rank
),

timed AS (
    SELECT
        spent.*,
        steps.duration_ns,
        row_number() OVER in_step AS place,
        lead(spent.waited_ns) OVER in_step AS next_ns
    FROM spent
    JOIN _timed_steps AS steps ON spent.step = steps.step
    WHERE spent.waited_ns > 0
    WINDOW in_step AS (PARTITION BY spent.step ORDER BY spent.waited_ns DESC, spent.rank)
),

noise AS (
    SELECT coalesce(quantile_disc(late_ns, 0.5) FILTER (place = 2), 0) AS second_ns
    FROM timed
),

judged AS (
    SELECT
        timed.*,
        CASE
            WHEN timed.late_ns <= 3 * timed.residual_ns THEN 'below three residuals of the clocks'
            WHEN timed.late_ns < params.straggler_ratio * timed.duration_ns THEN 'below the noise of a step'
            WHEN timed.place > 1 THEN 'another rank is later'
            WHEN timed.next_ns * 2 > timed.waited_ns THEN 'a tie: another rank is late by more than half of it'
            WHEN timed.late_ns < 3 * noise.second_ns THEN 'below the noise of the run'
        END AS doubt
    FROM timed
    CROSS JOIN params
    CROSS JOIN noise
)

SELECT
    step,
    rank,
    late_ns,
    late_ns / nullif(duration_ns, 0) AS late_ratio,
    n_last,
    doubt IS NULL AS is_straggler,
    CASE
        WHEN doubt IS NOT NULL THEN NULL
        WHEN 2 * early_ns >= late_ns THEN 'before'
        WHEN 2 * excess_ns >= late_ns THEN excess
        ELSE 'unknown'
    END AS cause,
    CASE
        WHEN doubt IS NOT NULL THEN NULL
        WHEN 2 * early_ns >= late_ns THEN early_ns
        ELSE excess_ns
    END AS cause_ns,
    coalesce(doubt, 'ok') AS verdict
FROM judged
