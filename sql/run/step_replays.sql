-- One row per step: how well the dependency graph, with nothing changed, replays it.
--
-- step        BIGINT   Step.
-- measured_ns BIGINT   The step time as recorded.
-- replayed_ns BIGINT   The step time replayed; NULL where the graph does not lead to the step's end.
-- error_ratio DOUBLE   How far the two are apart, of the recorded: what to allow for in every prediction.
--
-- Scope: predict
-- Order: step
SELECT
    step,
    measured_ns,
    predicted_ns AS replayed_ns,
    abs(predicted_ns - measured_ns) / nullif(measured_ns, 0) AS error_ratio
FROM predicted_steps
WHERE scenario = 0
