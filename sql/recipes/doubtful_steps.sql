-- Which steps have numbers to doubt, and why?
-- $rows  BIGINT = 20  Rows at most.
-- run      VARCHAR  Run.
-- step     BIGINT   Step.
-- n_ranks  BIGINT   Ranks whose window is in doubt.
-- verdict  VARCHAR  One of the reasons.
-- Empty: where every step of every rank is ok.
SELECT
    run,
    step,
    count(*) AS n_ranks,
    verdict
FROM rank_steps
WHERE verdict <> 'ok'
GROUP BY run, step, verdict
ORDER BY run, step, verdict
LIMIT $rows
