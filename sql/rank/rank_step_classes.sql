-- One row per rank, step, class of what is not training: how long its annotations say that it took.
--
-- rank        INTEGER  Rank.
-- step        BIGINT   Number of the step.
-- class       VARCHAR  checkpoint, evaluation or warm-up, by the patterns of sql/data/step_classes.csv.
-- name        VARCHAR  The annotation that covers most of it; of equals the first in the alphabet.
-- duration_ns BIGINT   Union of such annotations within the step's window.
--
-- Scope: rank
-- How: annotations of the host's threads are laid over the rank's windows by time, for a checkpoint may be written between
-- two markers. A name that several patterns match has the first class.
WITH named AS (
    SELECT
        names.name,
        arg_min(classes.class, (classes.place, classes.class)) AS class
    FROM (SELECT DISTINCT name FROM events WHERE category = 'annotation') AS names
    JOIN step_classes AS classes ON regexp_matches(names.name, classes.pattern)
    GROUP BY names.name
),

ranges AS (
    SELECT
        windows.step,
        named.class,
        named.name,
        greatest(events.start_ns, windows.start_ns) AS start_ns,
        least(events.start_ns + events.duration_ns, windows.end_ns) AS end_ns
    FROM events
    JOIN named ON events.name = named.name
    JOIN rank_windows AS windows
        ON events.start_ns < windows.end_ns AND events.start_ns + events.duration_ns > windows.start_ns
    WHERE events.category = 'annotation'
        AND events.duration_ns BETWEEN 0 AND (SELECT longest_event_ns FROM params)
),

reached AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY step, class ORDER BY start_ns, end_ns, name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_ns
    FROM ranges
),

by_name AS (
    SELECT
        step,
        class,
        name,
        sum(greatest(end_ns - greatest(start_ns, coalesce(reach_ns, start_ns)), 0))::BIGINT AS duration_ns
    FROM reached
    GROUP BY step, class, name
)

SELECT
    context.rank,
    by_name.step,
    by_name.class,
    arg_min(by_name.name, (-by_name.duration_ns, by_name.name)) AS name,
    sum(by_name.duration_ns)::BIGINT AS duration_ns
FROM by_name
CROSS JOIN context
GROUP BY context.rank, by_name.step, by_name.class
