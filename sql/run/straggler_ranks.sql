-- One row per rank that a step was waiting for: over the run.
--
-- rank             INTEGER  Rank.
-- host             VARCHAR  Its host; NULL unknown.
-- n_steps          BIGINT   Steps of the run in which lateness is known.
-- n_straggler      BIGINT   Of them, those whose straggler it is.
-- share_last_ratio DOUBLE   n_straggler by n_steps.
-- late_ns          BIGINT   How late it was in those.
-- late_ratio       DOUBLE   Of the time of all those steps.
-- lost_gpu_hours   DOUBLE   late_ns times the ranks that waited: all others recorded; those of a link wait too. Those of a link or a
--     stage have equal shares of it.
-- cause            VARCHAR  What most of late_ns is put down to, as in step_stragglers; sequence where compute makes three ranks or
--     more late, in half of the steps or more, and no three quarters of that is this rank's: the load varies, not the devices.
-- cause_ns         BIGINT   What it spent on that beyond the others, over all steps.
-- cause_ratio      DOUBLE   Share of late_ns with that cause.
-- place            VARCHAR  Link or stage, as in step_stragglers, where it is late with others; NULL for other causes.
-- is_persistent    BOOLEAN  Whether it is the straggler of at least half of the steps, and of more than one.
-- pattern          VARCHAR  persistent; periodic: at even distances; transient.
-- verdict          VARCHAR  ok; or that it happened once.
--
-- Scope: run
-- Order: rank
-- How: lateness is evidence, not cost: what a step would take with the rank at the others' median is what run_stragglers
-- adds. Ranks that are no step's straggler are not here.
WITH known AS (
    SELECT
        count(*) AS n_steps,
        sum(duration_ns) AS duration_ns,
        max(n_ranks) AS n_ranks
    FROM steps
    WHERE duration_ns IS NOT NULL AND n_ranks > 1
),

placed AS (
    SELECT
        *,
        step - lag(step) OVER (PARTITION BY rank ORDER BY step) AS distance,
        CASE WHEN place IS NULL THEN 1 ELSE count(*) OVER (PARTITION BY step, cause, place) END AS n_alike
    FROM step_stragglers
    WHERE is_straggler
),

named AS (
    SELECT
        placed.*,
        placed.late_ns * CASE
            WHEN placed.cause = 'link' THEN known.n_ranks
            ELSE known.n_ranks - placed.n_alike
        END // placed.n_alike AS waited_ns
    FROM placed
    CROSS JOIN known
),

caused AS (
    SELECT
        rank,
        cause,
        sum(late_ns) AS cause_late_ns,
        sum(cause_ns)::BIGINT AS cause_ns,
        count(*) AS n_steps_of_cause,
        max_by(place, (late_ns, place)) AS place,
        row_number() OVER (PARTITION BY rank ORDER BY sum(late_ns) DESC, cause) AS cause_place
    FROM named
    GROUP BY rank, cause
),

wandering AS (
    SELECT
        count(*) AS n_compute,
        count(DISTINCT rank) >= 3 AND 2 * count(*) >= any_value(known.n_steps) AS is_wandering
    FROM named
    CROSS JOIN known
    WHERE named.cause = 'compute'
),

by_rank AS (
    SELECT
        rank,
        count(*) AS n_straggler,
        sum(late_ns)::BIGINT AS late_ns,
        sum(waited_ns)::BIGINT AS waited_ns,
        count(distance) >= 3 AND min(distance) = max(distance) AND min(distance) > 1 AS is_even
    FROM named
    GROUP BY rank
)

SELECT
    by_rank.rank,
    ranks.host,
    known.n_steps,
    by_rank.n_straggler,
    by_rank.n_straggler / nullif(known.n_steps, 0) AS share_last_ratio,
    by_rank.late_ns,
    (by_rank.late_ns / nullif(known.duration_ns, 0))::DOUBLE AS late_ratio,
    by_rank.waited_ns / 1e9 / 60 / 60 AS lost_gpu_hours,
    CASE
        WHEN caused.cause = 'compute'
            AND wandering.is_wandering
            AND 4 * caused.n_steps_of_cause < 3 * wandering.n_compute
            THEN 'sequence'
        ELSE caused.cause
    END AS cause,
    caused.cause_ns,
    (caused.cause_late_ns / by_rank.late_ns)::DOUBLE AS cause_ratio,
    caused.place,
    by_rank.n_straggler > 1 AND 2 * by_rank.n_straggler >= known.n_steps AS is_persistent,
    CASE
        WHEN by_rank.n_straggler > 1 AND 2 * by_rank.n_straggler >= known.n_steps THEN 'persistent'
        WHEN by_rank.is_even THEN 'periodic'
        ELSE 'transient'
    END AS pattern,
    CASE WHEN by_rank.n_straggler = 1 THEN 'one step: it may be chance' ELSE 'ok' END AS verdict
FROM by_rank
JOIN caused ON by_rank.rank = caused.rank AND caused.cause_place = 1
JOIN ranks ON by_rank.rank = ranks.rank
CROSS JOIN known
CROSS JOIN wandering
