-- One row per change worth asking about: what the critical paths of a run spend their time on.
--
-- scenario INTEGER  Number, from 101 in order of path_ns.
-- what     VARCHAR  scale, fix, exposed or waits, as whatif takes it.
-- kind     VARCHAR  Kind of the path's time; NULL for any.
-- rank     INTEGER  Rank; NULL for all.
-- name     VARCHAR  Kernel, operator, call or annotation; NULL for any.
-- pattern  VARCHAR  A pattern that matches the name alone; NULL for any.
-- factor   DOUBLE   By what it is multiplied: 0 is gone, 0.5 twice as fast; NULL where nothing is scaled.
-- path_ns  BIGINT   Time of the paths that it could save, at most.
--
-- Scope: run
-- Order: scenario
-- How: no change saves more than the time of it on the path, so what is small there is not asked. A host's name is asked of
-- one rank where that rank has nine tenths of it. A median
-- needs three ranks.
WITH segments AS (
    SELECT
        rank,
        kind,
        name,
        sum(duration_ns)::BIGINT AS duration_ns
    FROM step_critical_path
    GROUP BY rank, kind, name
),

total AS (
    SELECT sum(duration_ns) AS all_ns
    FROM segments
),

ranks_on_path AS (
    SELECT
        rank,
        sum(duration_ns)::BIGINT AS path_ns
    FROM segments
    GROUP BY rank
    ORDER BY path_ns DESC, rank
    LIMIT 4
),

names AS (
    SELECT
        kind,
        name,
        sum(duration_ns)::BIGINT AS path_ns,
        max(duration_ns) AS most_ns,
        min_by(rank, (-duration_ns, rank)) AS most_rank
    FROM segments
    WHERE kind IN ('compute', 'copy', 'host', 'sync', 'input')
    GROUP BY kind, name
    ORDER BY path_ns DESC, kind, name
    LIMIT 8
),

candidates AS (
    SELECT
        'fix' AS what,
        NULL::VARCHAR AS kind,
        rank,
        NULL::VARCHAR AS name,
        NULL::DOUBLE AS factor,
        path_ns
    FROM ranks_on_path
    UNION ALL
    SELECT
        'fix' AS what,
        'host' AS kind,
        NULL AS rank,
        NULL AS name,
        NULL AS factor,
        sum(duration_ns)::BIGINT AS path_ns
    FROM segments
    WHERE kind IN ('host', 'launch', 'input', 'sync')
    UNION ALL
    SELECT
        'fix' AS what,
        'compute' AS kind,
        NULL AS rank,
        NULL AS name,
        NULL AS factor,
        sum(duration_ns)::BIGINT AS path_ns
    FROM segments
    WHERE kind = 'compute'
    UNION ALL
    SELECT
        CASE kind WHEN 'comm' THEN 'exposed' ELSE 'scale' END AS what,
        nullif(kind, 'comm') AS kind,
        NULL AS rank,
        NULL AS name,
        CASE kind WHEN 'comm' THEN NULL ELSE 0 END AS factor,
        sum(duration_ns)::BIGINT AS path_ns
    FROM segments
    WHERE kind IN ('comm', 'launch', 'input', 'copy')
    GROUP BY kind
    UNION ALL
    SELECT
        'waits' AS what,
        NULL AS kind,
        NULL AS rank,
        NULL AS name,
        NULL AS factor,
        all_ns::BIGINT AS path_ns
    FROM total
    UNION ALL
    SELECT
        'scale' AS what,
        kind,
        CASE WHEN kind <> 'compute' AND 10 * most_ns >= 9 * path_ns THEN most_rank END AS rank,
        name,
        CASE kind WHEN 'compute' THEN 0.5 ELSE 0 END AS factor,
        path_ns
    FROM names
)

SELECT
    (100 + row_number() OVER (
        ORDER BY candidates.path_ns DESC, candidates.what, candidates.kind, candidates.rank, candidates.name
    ))::INTEGER AS scenario,
    candidates.what,
    candidates.kind,
    candidates.rank,
    candidates.name,
    '^' || regexp_escape(candidates.name) || '$' AS pattern,
    candidates.factor,
    candidates.path_ns
FROM candidates
CROSS JOIN total
WHERE candidates.path_ns > 0 AND candidates.path_ns >= total.all_ns / 200
    AND (candidates.what <> 'fix' OR (SELECT count(*) FROM ranks WHERE is_recorded) >= 3)
