-- One row per step, rank that others waited for, alone or with those of its link or stage: how long, and why.
--
-- step         BIGINT   Step.
-- rank         INTEGER  Rank.
-- late_ns      BIGINT   How long others waited for it, from when it had not to wait itself; each lateness once, and no more than
--     it spent beyond the median rank. Of a link: how much longer than its siblings' its transfers took beside no compute; of a
--     stage: compute of its median rank beyond the median stage.
-- late_ratio   DOUBLE   Of the step time.
-- n_last       BIGINT   Collectives at which it came last.
-- is_straggler BOOLEAN  Whether it is the step's straggler, alone or with those of its place: beyond the noise, and twice as late
--     as any other.
-- cause        VARCHAR  compute, clock (compute, and at least half of it for a device's clock lower than its peers'), host, input, sync, copy, before (it was late when the recording began) or unknown: what it
--     spent at least half of late_ns more on than the median rank; link or stage: those of its place alike. NULL where it is no
--     straggler.
-- cause_ns     BIGINT   That excess; NULL as above.
-- place        VARCHAR  What those of one link or stage share: the hosts or the group, or the stage; NULL for other causes.
-- verdict      VARCHAR  ok, or why it is not named.
--
-- Scope: steps
-- Order: step, rank
-- How: lateness is counted by time, not by turns: who is last by microseconds at many collectives costs nothing. Behind a late exchange the next one waits too, for work that is
-- no longer than others': so no more is counted than the rank's own excess. The
-- noise of a step is 2 % of it, three residuals of the clocks, and three times what the second of a step is late in the
-- median step. To a slow link nobody is late, and in a pipeline all wait in turns: what link and stage cost is compared
-- with their siblings instead, of which a link has to be beyond three times the usual difference, and a stage beyond twice
-- the next.
WITH spent AS (
    SELECT
        late.step,
        late.rank,
        late.n_last,
        late.residual_ns,
        causes.early_ns,
        causes.clock_ns,
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
),

own AS (
    SELECT
        step,
        rank,
        late_ns,
        duration_ns,
        n_last,
        doubt IS NULL AS is_straggler,
        CASE
            WHEN doubt IS NOT NULL THEN NULL
            WHEN 2 * early_ns >= late_ns THEN 'before'
            WHEN 2 * excess_ns >= late_ns AND excess = 'compute' AND 2 * clock_ns >= excess_ns THEN 'clock'
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
),

places AS (
    SELECT
        step,
        rank,
        late_ns,
        'link' AS cause,
        place,
        greatest(3 * residual_ns, 3 * noise_ns) AS least_ns
    FROM _slow_links
    UNION ALL
    SELECT
        step,
        rank,
        late_ns,
        'stage' AS cause,
        place,
        CASE WHEN least_ns > next_ns THEN 2 * next_ns END AS least_ns
    FROM _slow_stages
),

shared AS (
    SELECT
        places.step AS shared_step,
        places.rank AS shared_rank,
        max(steps.duration_ns) AS shared_duration_ns,
        max(places.late_ns) AS shared_ns,
        max_by(places.cause, (places.late_ns, places.cause)) AS shared_cause,
        max_by(places.place, (places.late_ns, places.cause)) AS shared_place
    FROM places
    JOIN _timed_steps AS steps ON places.step = steps.step
    CROSS JOIN params
    WHERE places.late_ns > places.least_ns AND places.late_ns >= params.straggler_ratio * steps.duration_ns
    GROUP BY places.step, places.rank
),

paired AS (
    SELECT
        *,
        shared_step IS NOT NULL AND NOT coalesce(is_straggler, FALSE) AS is_shared
    FROM own
    FULL JOIN shared ON own.step = shared.shared_step AND own.rank = shared.shared_rank
)

SELECT
    coalesce(step, shared_step) AS step,
    coalesce(rank, shared_rank) AS rank,
    CASE WHEN is_shared THEN shared_ns ELSE late_ns END AS late_ns,
    CASE
        WHEN is_shared THEN shared_ns / nullif(shared_duration_ns, 0)
        ELSE late_ns / nullif(duration_ns, 0)
    END AS late_ratio,
    coalesce(n_last, 0) AS n_last,
    is_shared OR is_straggler AS is_straggler,
    CASE WHEN is_shared THEN shared_cause ELSE cause END AS cause,
    CASE WHEN is_shared THEN shared_ns ELSE cause_ns END AS cause_ns,
    CASE WHEN is_shared THEN shared_place END AS place,
    CASE WHEN is_shared THEN 'ok' ELSE verdict END AS verdict
FROM paired
