-- One row per op of an op timeline that the model of a step knows: when it was and when it would be in the ideal step.
--
-- step           BIGINT   Step.
-- dp_rank        INTEGER  Data-parallel rank.
-- stage          INTEGER  Pipeline stage.
-- rank           INTEGER  Rank.
-- optype         VARCHAR  Type.
-- place          BIGINT   Place among the ops of its type on its worker in its step.
-- is_transfer    BOOLEAN  Whether it needs other workers.
-- start_ns       BIGINT   Start, from the first start in the step.
-- ready_ns       BIGINT   Of a transfer, when the last of those who meet had come; else its start.
-- end_ns         BIGINT   End.
-- ideal_start_ns BIGINT   Ideal start, of a transfer when the last has come, from the ideal step's start; NULL in a circle.
-- ideal_end_ns   BIGINT   Ideal end.
--
-- Scope: replays
-- Order: step, dp_rank, stage, optype, place
WITH ideal AS (
    SELECT
        replayed.node,
        replayed.at_ns
    FROM replayed
    JOIN timeline_scenarios AS scenarios ON replayed.scenario = scenarios.scenario
    WHERE scenarios.change = 'ideal'
)

SELECT
    costs.step,
    costs.dp_rank,
    costs.stage,
    costs.rank,
    costs.optype,
    costs.place,
    costs.is_transfer,
    costs.start_ns - min(costs.start_ns) OVER (PARTITION BY costs.step) AS start_ns,
    costs.ready_ns - min(costs.start_ns) OVER (PARTITION BY costs.step) AS ready_ns,
    costs.end_ns - min(costs.start_ns) OVER (PARTITION BY costs.step) AS end_ns,
    ideal.at_ns - CASE WHEN costs.is_transfer THEN 0 ELSE ideals.ideal_ns END AS ideal_start_ns,
    ideal.at_ns + CASE WHEN costs.is_transfer THEN ideals.ideal_ns ELSE 0 END AS ideal_end_ns
FROM _timeline_costs AS costs
JOIN timeline_ideals AS ideals ON costs.optype = ideals.optype
LEFT JOIN ideal ON costs.node = ideal.node
