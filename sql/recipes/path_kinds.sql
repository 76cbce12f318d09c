-- What are steps waiting on: which kinds of work make their critical paths?
-- $rows  BIGINT = 20  Rows at most.
-- run          VARCHAR  Run.
-- kind         VARCHAR  compute, comm, copy, host, launch, turnaround, sync, input or unknown.
-- duration_ns  BIGINT   Time of it on the paths of all steps.
-- path_ratio   DOUBLE   Of all paths.
-- n_steps      BIGINT   Steps that have any.
-- top_rank     INTEGER  Rank on which most of it lies.
WITH of_ranks AS (
    SELECT
        run,
        kind,
        rank,
        sum(duration_ns)::BIGINT AS rank_ns
    FROM step_path_kinds
    GROUP BY run, kind, rank
),
of_kinds AS (
    SELECT
        run,
        kind,
        sum(duration_ns)::BIGINT AS duration_ns,
        count(DISTINCT step) AS n_steps
    FROM step_path_kinds
    WHERE duration_ns > 0
    GROUP BY run, kind
),
tops AS (
    SELECT
        run,
        kind,
        arg_max(rank, (rank_ns, -rank)) AS top_rank
    FROM of_ranks
    GROUP BY run, kind
)
SELECT
    run,
    kind,
    k.duration_ns,
    k.duration_ns / sum(k.duration_ns) OVER (PARTITION BY run) AS path_ratio,
    k.n_steps,
    t.top_rank
FROM of_kinds AS k
JOIN tops AS t USING (run, kind)
ORDER BY run, k.duration_ns DESC, kind
LIMIT $rows
