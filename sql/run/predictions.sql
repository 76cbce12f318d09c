-- One row per scenario: what the steps recorded take in all once the graph is timed anew.
--
-- scenario           INTEGER  Scenario; 0 changes nothing.
-- n_steps            BIGINT   Steps predicted.
-- measured_ns        BIGINT   Their time as recorded.
-- predicted_ns       BIGINT   Their time predicted.
-- saved_ns           BIGINT   What is saved; below 0 what is lost.
-- speedup_ratio      DOUBLE   measured over predicted.
-- replay_error_ratio DOUBLE   Median over the steps of how far the unchanged graph is from the step as recorded: what to allow
--     for in every prediction.
--
-- Scope: predict
-- Order: scenario
WITH errors AS (
    SELECT median(abs(predicted_ns - measured_ns) / nullif(measured_ns, 0)) AS error_ratio
    FROM predicted_steps
    WHERE scenario = 0
)

SELECT
    steps.scenario,
    count(*) AS n_steps,
    sum(steps.measured_ns)::BIGINT AS measured_ns,
    sum(steps.predicted_ns)::BIGINT AS predicted_ns,
    (sum(steps.measured_ns) - sum(steps.predicted_ns))::BIGINT AS saved_ns,
    sum(steps.measured_ns) / nullif(sum(steps.predicted_ns), 0) AS speedup_ratio,
    any_value(errors.error_ratio) AS replay_error_ratio
FROM predicted_steps AS steps
CROSS JOIN errors
WHERE steps.measured_ns IS NOT NULL AND steps.predicted_ns IS NOT NULL
GROUP BY steps.scenario
