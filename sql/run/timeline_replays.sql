-- One row per scenario, step of an op timeline: how long the step would take.
--
-- scenario    INTEGER  As in timeline_scenarios.
-- change      VARCHAR  As in timeline_scenarios.
-- dimension   VARCHAR  As in timeline_scenarios.
-- group_key   VARCHAR  As in timeline_scenarios.
-- step        BIGINT   Step.
-- duration_ns BIGINT   From the first start to the last end; NULL where the ops wait for each other in a circle.
-- recorded_ns BIGINT   The same as it was recorded, with the gaps that no op explains.
--
-- Scope: replays
WITH recorded AS (
    SELECT
        step,
        -dense_rank() OVER (ORDER BY step) AS node,
        max(end_ns) - min(start_ns) AS recorded_ns
    FROM _timeline_costs
    GROUP BY step
)

SELECT
    scenarios.scenario,
    scenarios.change,
    scenarios.dimension,
    scenarios.group_key,
    recorded.step,
    ends.at_ns AS duration_ns,
    recorded.recorded_ns
FROM timeline_scenarios AS scenarios
CROSS JOIN recorded
LEFT JOIN replayed AS ends ON scenarios.scenario = ends.scenario AND recorded.node = ends.node
