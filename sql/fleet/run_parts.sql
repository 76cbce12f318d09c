-- One row per run, part of its steps, as step_parts takes them apart: what it takes in a step, and how much that varies.
--
-- run       VARCHAR  Run.
-- dimension VARCHAR  As in step_parts.
-- item      VARCHAR  As in step_parts.
-- kind      VARCHAR  As in step_parts.
-- n_steps   BIGINT   Steps that could have it: for rank those that it recorded, for path those whose path is known.
-- n_found   BIGINT   Steps that have it.
-- median_ns BIGINT   Median over n_steps, 0 where a step has not got it; the lower of two.
-- low_ns    BIGINT   First quartile.
-- high_ns   BIGINT   Third quartile.
-- sigma_ns  DOUBLE   Spread of steps: their quartiles' distance as the standard deviation of a normal distribution that has
--     it; outliers do not move it.
-- n_calls   BIGINT   Of a kernel, its calls in all steps on all ranks; else NULL.
--
-- Scope: fleet
WITH counts AS (
    SELECT
        run,
        count(DISTINCT step) FILTER (NOT is_path) AS n_run_steps,
        count(DISTINCT step) FILTER (is_path) AS n_path_steps
    FROM (
        SELECT
            run,
            step,
            FALSE AS is_path
        FROM rank_steps
        UNION ALL
        SELECT
            run,
            step,
            TRUE AS is_path
        FROM step_path_kinds
    )
    GROUP BY run
),

listed AS (
    SELECT
        run,
        dimension,
        item,
        kind,
        list_sort(list(value_ns)) AS found_ns,
        count(*) FILTER (value_ns < 0) AS n_negative,
        sum(n_calls)::BIGINT AS n_calls
    FROM step_parts
    GROUP BY ALL
),

counted AS (
    SELECT
        listed.*,
        len(listed.found_ns) AS n_found,
        CASE listed.dimension
            WHEN 'rank' THEN len(listed.found_ns)
            WHEN 'path' THEN counts.n_path_steps
            ELSE counts.n_run_steps
        END AS n_steps
    FROM listed
    JOIN counts ON listed.run = counts.run
),

-- Steps without the part are zeros that stand between the negative and the positive values of the others.
placed AS (
    SELECT
        *,
        n_steps - n_found AS n_zeros,
        (n_steps + 1) // 2 AS middle,
        (n_steps + 3) // 4 AS low,
        n_steps + 1 - (n_steps + 3) // 4 AS high
    FROM counted
),

quartiles AS (
    SELECT
        *,
        CASE
            WHEN middle <= n_negative THEN found_ns[middle]
            WHEN middle <= n_negative + n_zeros THEN 0
            ELSE found_ns[middle - n_zeros]
        END AS median_ns,
        CASE
            WHEN low <= n_negative THEN found_ns[low]
            WHEN low <= n_negative + n_zeros THEN 0
            ELSE found_ns[low - n_zeros]
        END AS low_ns,
        CASE
            WHEN high <= n_negative THEN found_ns[high]
            WHEN high <= n_negative + n_zeros THEN 0
            ELSE found_ns[high - n_zeros]
        END AS high_ns
    FROM placed
)

SELECT
    run,
    dimension,
    item,
    kind,
    n_steps,
    n_found,
    median_ns,
    low_ns,
    high_ns,
    (high_ns - low_ns) / 1.349 AS sigma_ns,
    n_calls
FROM quartiles
