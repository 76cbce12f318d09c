-- One row per step, rank of the pipeline stage that computed longest: how much longer than the stages' median.
--
-- step    BIGINT   Step.
-- rank    INTEGER  Rank of the stage.
-- late_ns BIGINT   Compute of the stage's median rank beyond the median of the stages.
-- next_ns BIGINT   The same of the stage that comes next; at least 0.
-- least_ns BIGINT  The same of the rank of the stage that computed least.
-- place   VARCHAR  The stage.
--
-- Scope: steps
-- How: what a stage computes more, every micro-batch waits for, so all other stages have it as bubble. Stages of which not
-- all ranks are recorded are compared by those that are.
WITH by_stage AS (
    SELECT
        windows.step,
        ranks.pp AS stage,
        quantile_disc(windows.compute_ns, 0.5) AS compute_ns,
        min(windows.compute_ns) AS least_ns
    FROM rank_windows AS windows
    JOIN ranks ON windows.rank = ranks.rank
    WHERE ranks.pp IS NOT NULL
    GROUP BY windows.step, ranks.pp
),

ordered AS (
    SELECT
        *,
        quantile_disc(compute_ns, 0.5) OVER (PARTITION BY step) AS median_ns,
        row_number() OVER in_step AS stage_place,
        lead(compute_ns) OVER in_step AS next_ns
    FROM by_stage
    WINDOW in_step AS (PARTITION BY step ORDER BY compute_ns DESC, stage)
)

SELECT
    ordered.step,
    windows.rank,
    ordered.compute_ns - ordered.median_ns AS late_ns,
    greatest(0, ordered.next_ns - ordered.median_ns) AS next_ns,
    ordered.least_ns - ordered.median_ns AS least_ns,
    'stage ' || ordered.stage AS place
FROM ordered
JOIN rank_windows AS windows ON ordered.step = windows.step
JOIN ranks ON windows.rank = ranks.rank AND ordered.stage = ranks.pp
WHERE ordered.stage_place = 1 AND ordered.next_ns IS NOT NULL AND ordered.compute_ns > ordered.median_ns
