-- One row: what the critical paths of the run were made of.
--
-- n_steps         BIGINT   Steps with a path; 0: none has one.
-- path_ns         BIGINT   Time of all paths together.
-- n_ranks         BIGINT   Ranks that they go through.
-- kind            VARCHAR  The largest kind; the first of equals; NULL without a path.
-- kind_ratio      DOUBLE   Its share of path_ns.
-- rank            INTEGER  The rank with the largest share; the lowest of equals; NULL without a path.
-- rank_ratio      DOUBLE   Its share of path_ns.
-- n_names         BIGINT   Kinds, names and ranks on the paths, counted together.
-- unknown_ratio   DOUBLE   Share of path_ns that nothing in the dump explains.
-- no_event_ratio  DOUBLE   Share of path_ns that is host time in which the dump shows no event.
-- peer_ratio      DOUBLE   Share of path_ns in collectives with a member that is not recorded.
--
-- How: shares divide sums over all paths, so a long step counts for as much time as it took. Parameters: $run.
WITH segments AS (
    SELECT
        step,
        kind,
        name,
        rank,
        duration_ns,
        verdict
    FROM step_critical_path
    WHERE run = $run
),

totals AS (
    SELECT
        count(DISTINCT step) AS n_steps,
        coalesce(sum(duration_ns), 0)::BIGINT AS path_ns,
        nullif(sum(duration_ns), 0) AS whole_ns,
        count(DISTINCT rank) AS n_ranks,
        coalesce(sum(duration_ns) FILTER (kind = 'unknown'), 0) AS unknown_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'host' AND name = '(no event)'), 0) AS no_event_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'comm' AND verdict <> 'ok'), 0) AS peer_ns
    FROM segments
),

names AS (
    SELECT count(*) AS n_names
    FROM (SELECT DISTINCT kind, name, rank FROM segments)
),

largest_kind AS (
    SELECT
        kind,
        sum(duration_ns) AS kind_ns
    FROM segments
    GROUP BY kind
    ORDER BY kind_ns DESC, kind
    LIMIT 1
),

largest_rank AS (
    SELECT
        rank,
        sum(duration_ns) AS rank_ns
    FROM segments
    GROUP BY rank
    ORDER BY rank_ns DESC, rank
    LIMIT 1
)

SELECT
    totals.n_steps,
    totals.path_ns,
    totals.n_ranks,
    largest_kind.kind,
    (largest_kind.kind_ns / totals.whole_ns)::DOUBLE AS kind_ratio,
    largest_rank.rank,
    (largest_rank.rank_ns / totals.whole_ns)::DOUBLE AS rank_ratio,
    names.n_names,
    (totals.unknown_ns / totals.whole_ns)::DOUBLE AS unknown_ratio,
    (totals.no_event_ns / totals.whole_ns)::DOUBLE AS no_event_ratio,
    (totals.peer_ns / totals.whole_ns)::DOUBLE AS peer_ratio
FROM totals
CROSS JOIN names
LEFT JOIN largest_kind ON TRUE
LEFT JOIN largest_rank ON TRUE
