-- One row per scenario, step: what the step takes once the graph is timed anew.
--
-- scenario     INTEGER  Scenario; 0 changes nothing.
-- capture      BIGINT   Which contiguous recording.
-- step         BIGINT   Step.
-- measured_ns  BIGINT   The step time as recorded.
-- predicted_ns BIGINT   The step time predicted; NULL where the graph does not lead to the step's end.
--
-- Scope: predict
-- Order: scenario, step
-- How: a step starts when the one before it ends, in the prediction too, so what is saved in one may be paid in the next.
WITH placed AS (
    SELECT
        *,
        row_number() OVER (ORDER BY step) AS place,
        coalesce(
            lag(step) OVER (ORDER BY step) = step - 1 AND lag(capture) OVER (ORDER BY step) = capture, FALSE
        ) AS follows
    FROM steps
),

ended AS (
    SELECT
        scenarios.scenario,
        placed.capture,
        placed.step,
        placed.follows,
        placed.start_ns,
        placed.duration_ns,
        replayed.at_ns,
        lag(replayed.at_ns) OVER (PARTITION BY scenarios.scenario ORDER BY placed.step) AS before_ns
    FROM placed
    CROSS JOIN scenarios
    LEFT JOIN replayed ON scenarios.scenario = replayed.scenario AND -placed.place = replayed.node
)

SELECT
    scenario,
    capture,
    step,
    duration_ns AS measured_ns,
    CASE
        WHEN CASE WHEN follows THEN before_ns ELSE start_ns END > at_ns THEN 0
        ELSE at_ns - CASE WHEN follows THEN before_ns ELSE start_ns END
    END AS predicted_ns
FROM ended
