-- One row per host, rack or rail that has a rank which steps were waiting for: over the run.
--
-- level            VARCHAR  host, rack or rail.
-- place            VARCHAR  Its name.
-- n_ranks          BIGINT   Ranks of it that are recorded.
-- n_stragglers     BIGINT   Of them, those that are in straggler_ranks beyond chance.
-- late_ns          BIGINT   How late those were: in each step the latest of them.
-- late_ratio       DOUBLE   Of the time of all steps in which lateness is known.
-- lost_gpu_hours   DOUBLE   What waited for those.
-- share_lost_ratio DOUBLE   Share of what waited for any rank beyond chance.
-- cause            VARCHAR  Cause of most of lost_gpu_hours.
--
-- Scope: run
-- Order: level, place
-- How: places are those of ranks, by the topology file where there is one; of a level at which no place is known there are
-- no rows. Where all stragglers of the run are of one place of a level that has several, look there first.
WITH placed AS (
    SELECT
        rank,
        is_recorded,
        unnest(['host', 'rack', 'rail']) AS level,
        unnest([host, rack, rail]) AS place
    FROM ranks
),

late AS (
    SELECT
        placed.level,
        placed.place,
        steps.step,
        max(steps.late_ns) AS late_ns
    FROM step_stragglers AS steps
    JOIN straggler_ranks AS stragglers ON steps.rank = stragglers.rank
    JOIN placed ON steps.rank = placed.rank
    WHERE steps.is_straggler AND stragglers.verdict = 'ok' AND placed.place IS NOT NULL
    GROUP BY placed.level, placed.place, steps.step
),

by_place AS (
    SELECT
        level AS late_level,
        place AS late_place,
        sum(late_ns)::BIGINT AS late_ns
    FROM late
    GROUP BY level, place
),

lost AS (
    SELECT
        placed.level AS lost_level,
        placed.place AS lost_place,
        stragglers.cause,
        count(*) AS n_stragglers,
        sum(stragglers.lost_gpu_hours) AS lost_gpu_hours
    FROM straggler_ranks AS stragglers
    JOIN placed ON stragglers.rank = placed.rank
    WHERE stragglers.verdict = 'ok' AND placed.place IS NOT NULL
    GROUP BY placed.level, placed.place, stragglers.cause
),

by_lost AS (
    SELECT
        lost_level,
        lost_place,
        sum(n_stragglers)::BIGINT AS n_stragglers,
        sum(lost_gpu_hours) AS lost_gpu_hours,
        max_by(cause, (lost_gpu_hours, cause)) AS cause
    FROM lost
    GROUP BY lost_level, lost_place
),

sizes AS (
    SELECT
        level AS size_level,
        place AS size_place,
        count(*) FILTER (is_recorded) AS n_ranks
    FROM placed
    GROUP BY level, place
),

whole AS (
    SELECT
        (SELECT sum(duration_ns) FROM steps WHERE duration_ns IS NOT NULL AND n_ranks > 1) AS duration_ns,
        (SELECT sum(lost_gpu_hours) FROM straggler_ranks WHERE verdict = 'ok') AS lost_gpu_hours
)

SELECT
    by_place.late_level AS level,
    by_place.late_place AS place,
    sizes.n_ranks,
    by_lost.n_stragglers,
    by_place.late_ns,
    (by_place.late_ns / nullif(whole.duration_ns, 0))::DOUBLE AS late_ratio,
    by_lost.lost_gpu_hours,
    by_lost.lost_gpu_hours / nullif(whole.lost_gpu_hours, 0) AS share_lost_ratio,
    by_lost.cause
FROM by_place
JOIN by_lost ON by_place.late_level = by_lost.lost_level AND by_place.late_place = by_lost.lost_place
JOIN sizes ON by_place.late_level = sizes.size_level AND by_place.late_place = sizes.size_place
CROSS JOIN whole
