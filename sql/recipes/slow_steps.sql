-- Which steps are beyond the 95th percentile, and why?
-- $quantile  DOUBLE = 0.95  Share of the steps that are shorter.
-- $rows      BIGINT = 20    Rows at most.
-- run              VARCHAR  Run.
-- step             BIGINT   Step.
-- duration_ns      BIGINT   The step time.
-- over_ns          BIGINT   Beyond the median step.
-- straggler_rank   INTEGER  Rank that it was waiting for; NULL where nobody is named.
-- straggler_cause  VARCHAR  Why; NULL as above.
-- path_kind        VARCHAR  Kind of work that its critical path has more of than the median step; NULL without paths.
-- path_over_ns     BIGINT   How much more.
-- Empty: where all steps take the same.
WITH
measured AS (
    SELECT
        run,
        step,
        duration_ns,
        median(duration_ns) OVER (PARTITION BY run) AS median_ns,
        quantile_cont(duration_ns, $quantile::DOUBLE) OVER (PARTITION BY run) AS bound_ns,
        straggler_rank,
        straggler_cause
    FROM steps
    WHERE duration_ns IS NOT NULL
),
kinds AS (
    SELECT DISTINCT run, kind
    FROM step_path_kinds
),
parts AS (
    SELECT
        m.run,
        m.step,
        k.kind,
        coalesce(sum(p.duration_ns), 0)::BIGINT AS part_ns
    FROM measured AS m
    JOIN kinds AS k USING (run)
    LEFT JOIN step_path_kinds AS p ON p.run = m.run AND p.step = m.step AND p.kind = k.kind
    GROUP BY m.run, m.step, k.kind
),
over_median AS (
    SELECT
        run,
        step,
        kind,
        part_ns - round(median(part_ns) OVER (PARTITION BY run, kind))::BIGINT AS path_over_ns
    FROM parts
),
grown AS (
    SELECT *
    FROM over_median
    WHERE path_over_ns > 0
    QUALIFY row_number() OVER (PARTITION BY run, step ORDER BY path_over_ns DESC, kind) = 1
)
SELECT
    run,
    step,
    m.duration_ns,
    m.duration_ns - round(m.median_ns)::BIGINT AS over_ns,
    m.straggler_rank,
    m.straggler_cause,
    g.kind AS path_kind,
    g.path_over_ns
FROM measured AS m
LEFT JOIN grown AS g USING (run, step)
WHERE m.duration_ns > m.bound_ns
ORDER BY m.duration_ns DESC, run, step
LIMIT $rows
