-- One row per kind, name and rank on the critical paths, the $n_names with most time over all steps.
--
-- kind         VARCHAR  As in step_critical_path.
-- name         VARCHAR  Kernel, or the innermost operator, call or annotation; NULL as there.
-- rank         INTEGER  Rank.
-- duration_ns  BIGINT   Time on the paths of all steps.
-- share_ratio  DOUBLE   Its share of all paths.
-- n_steps      BIGINT   Steps on whose path it is.
-- n_segments   BIGINT   Segments.
--
-- How: equals are in the order of rank, kind and name. Parameters: $run, $n_names.
WITH sums AS (
    SELECT
        kind,
        name,
        rank,
        sum(duration_ns) AS duration_ns,
        count(DISTINCT step) AS n_steps,
        count(*) AS n_segments
    FROM step_critical_path
    WHERE run = $run
    GROUP BY kind, name, rank
),

shares AS (
    SELECT
        *,
        (duration_ns / nullif(sum(duration_ns) OVER (), 0))::DOUBLE AS share_ratio
    FROM sums
)

SELECT
    kind,
    name,
    rank,
    duration_ns::BIGINT AS duration_ns,
    share_ratio,
    n_steps,
    n_segments
FROM shares
ORDER BY shares.duration_ns DESC, rank, kind, name NULLS LAST
LIMIT $n_names
