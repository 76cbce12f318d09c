-- One row per run that fails a gate of its own, set against the runs just before it, good or not.
--
-- run VARCHAR  Run.
--
-- Scope: fleet
-- How: which runs are good must not hang on which before them are, or one doubt would decide for ever. So each is held to the
-- median of the last few before it, which one bad run among them does not move.
WITH before AS (
    SELECT
        befores.run,
        measures.measure,
        median(measures.value) AS median,
        count(*) AS n_runs,
        mad(measures.value) AS deviation,
        median(measures.noise) AS noise
    FROM _runs_before AS befores
    JOIN run_measures AS measures ON befores.before_run = measures.run
    WHERE befores.n_back <= (SELECT baseline_runs FROM params) AND measures.value IS NOT NULL
    GROUP BY befores.run, measures.measure
)

SELECT DISTINCT measures.run
FROM run_measures AS measures
JOIN measure_kinds AS kinds ON measures.measure = kinds.measure
JOIN gate_rules AS rules ON measures.measure = rules.measure
JOIN told_gates AS gates ON measures.run = gates.run AND rules.gate = gates.gate
LEFT JOIN before ON measures.run = before.run AND measures.measure = before.measure
CROSS JOIN params
WHERE CASE
    WHEN rules.compares = 'value' AND kinds.worse = 'up' THEN measures.value > gates.threshold
    WHEN rules.compares = 'value' THEN measures.value < gates.threshold
    ELSE
        (CASE WHEN kinds.worse = 'up' THEN 1 ELSE -1 END) * (measures.value - before.median)
        / (CASE WHEN kinds.change = 'relative' THEN nullif(before.median, 0) ELSE 1 END) > gates.threshold
        AND abs(measures.value - before.median) > params.noise_sigmas * greatest(
            CASE WHEN before.n_runs >= params.spread_runs THEN 1.4826 * before.deviation ELSE 0 END,
            sqrt(coalesce(measures.noise, 0) ** 2 + coalesce(before.noise, 0) ** 2)
        )
END
