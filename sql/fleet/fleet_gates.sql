-- One row per run, gate of its run.toml: whether it holds.
--
-- run          VARCHAR  Run.
-- gate         VARCHAR  Name of the gate.
-- measure      VARCHAR  What it is about, as in run_measures.
-- value        DOUBLE   What is held against the threshold: the measure, or by how much it is worse than the baseline. NULL: see
--     verdict.
-- threshold    DOUBLE   As told: the most, of what is worse when less the least.
-- is_most      BOOLEAN  Whether the threshold is the most that the value may be.
-- measured     DOUBLE   The measure.
-- baseline_run VARCHAR  As in fleet_regressions; NULL for a gate that compares with nothing.
-- baseline     DOUBLE   Likewise.
-- noise_floor  DOUBLE   Likewise; a difference up to it fails no gate.
-- verdict      VARCHAR  passed, failed, or n/a and why.
--
-- Scope: fleet
WITH judged AS (
    SELECT
        gates.run,
        gates.gate,
        gates.threshold,
        rules.measure,
        rules.compares = 'change' AS is_change,
        rules.compares = 'change' OR kinds.worse = 'up' AS is_most,
        found.value AS measured,
        found.baseline_run,
        found.baseline,
        found.noise_floor,
        found.verdict AS state,
        CASE WHEN rules.compares = 'value' THEN found.value WHEN kinds.worse = 'up' THEN found.change ELSE -found.change END
            AS value
    FROM told_gates AS gates
    JOIN gate_rules AS rules ON gates.gate = rules.gate
    JOIN measure_kinds AS kinds ON rules.measure = kinds.measure
    LEFT JOIN fleet_regressions AS found ON gates.run = found.run AND rules.measure = found.measure
)

SELECT
    run,
    gate,
    measure,
    value,
    threshold,
    is_most,
    measured,
    CASE WHEN is_change THEN baseline_run END AS baseline_run,
    CASE WHEN is_change THEN baseline END AS baseline,
    CASE WHEN is_change THEN noise_floor END AS noise_floor,
    CASE
        WHEN value IS NULL AND starts_with(state, 'n/a') THEN state
        WHEN value IS NULL AND state IS NOT NULL THEN 'n/a: no share of a baseline of 0'
        WHEN value IS NULL THEN 'n/a: the run is not analyzed'
        WHEN is_change AND abs(measured - baseline) <= noise_floor THEN 'passed'
        WHEN CASE WHEN is_most THEN value > threshold ELSE value < threshold END THEN 'failed'
        ELSE 'passed'
    END AS verdict
FROM judged
