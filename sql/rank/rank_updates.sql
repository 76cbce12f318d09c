-- One row per rank, step in which an optimizer ran: how often.
--
-- rank      INTEGER  Rank.
-- step      BIGINT   Number of the step.
-- n_updates BIGINT   Ranges named Optimizer.step#NAME that start in it, of the NAME with most: each optimizer of a model runs
--     once in an update.
--
-- Scope: rank
WITH named AS (
    SELECT
        step,
        name,
        count(*) AS n_calls
    FROM events
    WHERE category = 'annotation' AND starts_with(name, 'Optimizer.step#') AND step IS NOT NULL
    GROUP BY step, name
)

SELECT
    context.rank,
    named.step,
    max(named.n_calls) AS n_updates
FROM named
CROSS JOIN context
GROUP BY context.rank, named.step
