-- One row per scenario, node: when it happens once everything it depends on has.
--
-- scenario INTEGER  Which change; 0 is none.
-- node     BIGINT   Node of the graph.
-- at_ns    BIGINT   The latest, over its edges, of the source's time plus the edge's cost; of an edge without a source the
--     cost is the time itself.
--
-- Scope: replay
-- How: longest paths of an acyclic graph, in rounds. A round carries what has been reached but still lacks an edge, and
-- sends what is complete along its edges; so each edge is used once and a round costs what its frontier holds. A node on a
-- circle or behind one is never complete and has no row; a round that completes nothing is the last.
WITH RECURSIVE linked AS MATERIALIZED (
    SELECT
        scenario,
        source,
        node,
        cost_ns,
        count(*) OVER (PARTITION BY scenario, node) AS n_edges
    FROM replay_edges
),

reached AS (
    SELECT
        scenario,
        node,
        max(cost_ns) AS at_ns,
        count(*) AS n_seen,
        any_value(n_edges) AS n_edges
    FROM linked
    WHERE source IS NULL
    GROUP BY scenario, node
    UNION ALL
    SELECT
        scenario,
        node,
        max(at_ns) AS at_ns,
        sum(n_seen)::BIGINT AS n_seen,
        any_value(n_edges) AS n_edges
    FROM (
        SELECT
            linked.scenario,
            linked.node,
            done.at_ns + linked.cost_ns AS at_ns,
            1 AS n_seen,
            linked.n_edges
        FROM reached AS done
        JOIN linked ON done.scenario = linked.scenario AND done.node = linked.source
        WHERE done.n_seen = done.n_edges
        UNION ALL
        SELECT
            scenario,
            node,
            at_ns,
            n_seen,
            n_edges
        FROM reached
        WHERE n_seen < n_edges AND (SELECT bool_or(n_seen = n_edges) FROM reached)
    )
    GROUP BY scenario, node
)

SELECT
    scenario,
    node,
    at_ns
FROM reached
WHERE n_seen = n_edges
