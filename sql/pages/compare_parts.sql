-- One row per part of the steps of two runs, of each way to take a step apart those that changed most.
--
-- dimension    VARCHAR  As in step_parts.
-- place        BIGINT   Place in its dimension, from 1: those beyond the noise first, then by the size of the change.
-- item         VARCHAR  As in step_parts.
-- kind         VARCHAR  As in step_parts.
-- baseline_ns  BIGINT   As in run_changes, like all that follow.
-- value_ns     BIGINT   Median of the run.
-- change_ns    BIGINT   Change.
-- change_ratio DOUBLE   Of the baseline's part.
-- step_ratio   DOUBLE   Of the baseline's step; NULL without one.
-- noise_ns     BIGINT   What a change must exceed.
-- verdict      VARCHAR  grew, shrank, within noise, appeared, vanished or n/a: why not.
-- baseline_calls_per_step DOUBLE Of a kernel, calls.
-- calls_per_step DOUBLE Likewise.
-- n_items      BIGINT   Parts of the dimension.
-- n_changed    BIGINT   Of them, those beyond the noise.
--
-- How: parameters: $run, $baseline, $max_items of a dimension.
WITH changed AS (
    SELECT
        *,
        verdict IN ('grew', 'shrank', 'appeared', 'vanished') AS is_changed
    FROM run_changes
    WHERE baseline = $baseline AND run = $run
),

placed AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY dimension ORDER BY is_changed DESC, abs(change_ns) DESC, item, kind
        ) AS place,
        count(*) OVER (PARTITION BY dimension) AS n_items,
        count(*) FILTER (is_changed) OVER (PARTITION BY dimension) AS n_changed
    FROM changed
)

SELECT
    placed.dimension,
    placed.place,
    placed.item,
    placed.kind,
    placed.baseline_ns,
    placed.value_ns,
    placed.change_ns,
    placed.change_ratio,
    placed.change_ns / nullif(whole.baseline_ns, 0) AS step_ratio,
    placed.noise_ns,
    placed.verdict,
    placed.baseline_calls_per_step,
    placed.calls_per_step,
    placed.n_items,
    placed.n_changed
FROM placed
LEFT JOIN (SELECT baseline_ns FROM changed WHERE dimension = 'step') AS whole ON TRUE
WHERE placed.place <= $max_items
ORDER BY placed.dimension, placed.place
