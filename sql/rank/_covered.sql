-- One row per edge: how much of each union lies before it.
--
-- edge_ns      BIGINT  The instant.
-- compute_ns   BIGINT  Compute before it.
-- comm_ns      BIGINT  Comm before it.
-- copy_ns      BIGINT  Copies before it.
-- work_ns      BIGINT  Compute or comm before it.
-- busy_ns      BIGINT  Anything before it.
-- n_activities BIGINT  Activities that start before it.
-- n_unlinked   BIGINT  Of them, those without a launch in the dump.
--
-- Scope: rank
-- How: what starts before an instant t covers its union up to the latest end m of it; of that, [t, m) lies beyond t,
-- whole, as each interval that reaches past t covers it from t on. So a sum and a maximum per stretch between edges
-- give the union's size before every edge exactly.
WITH placed AS (
    SELECT
        _edges.edge_no,
        _coverage.*
    FROM _coverage
    ASOF LEFT JOIN _edges ON _coverage.start_ns >= _edges.edge_ns
),

stretches AS (
    SELECT
        coalesce(edge_no + 1, 0) AS next_edge_no,
        sum(compute_ns) AS compute_ns,
        sum(comm_ns) AS comm_ns,
        sum(copy_ns) AS copy_ns,
        sum(work_ns) AS work_ns,
        sum(busy_ns) AS busy_ns,
        max(end_ns) FILTER (precedence = 0) AS compute_end_ns,
        max(end_ns) FILTER (precedence = 1) AS comm_end_ns,
        max(end_ns) FILTER (precedence = 2) AS copy_end_ns,
        max(end_ns) FILTER (precedence < 2) AS work_end_ns,
        max(end_ns) AS busy_end_ns,
        count(*) AS n_activities,
        count(*) FILTER (launch_ns IS NULL) AS n_unlinked
    FROM placed
    GROUP BY next_edge_no
)

SELECT
    _edges.edge_ns,
    (
        coalesce(sum(stretches.compute_ns) OVER so_far, 0)
        - greatest(0, coalesce(max(stretches.compute_end_ns) OVER so_far - _edges.edge_ns, 0))
    )::BIGINT AS compute_ns,
    (
        coalesce(sum(stretches.comm_ns) OVER so_far, 0)
        - greatest(0, coalesce(max(stretches.comm_end_ns) OVER so_far - _edges.edge_ns, 0))
    )::BIGINT AS comm_ns,
    (
        coalesce(sum(stretches.copy_ns) OVER so_far, 0)
        - greatest(0, coalesce(max(stretches.copy_end_ns) OVER so_far - _edges.edge_ns, 0))
    )::BIGINT AS copy_ns,
    (
        coalesce(sum(stretches.work_ns) OVER so_far, 0)
        - greatest(0, coalesce(max(stretches.work_end_ns) OVER so_far - _edges.edge_ns, 0))
    )::BIGINT AS work_ns,
    (
        coalesce(sum(stretches.busy_ns) OVER so_far, 0)
        - greatest(0, coalesce(max(stretches.busy_end_ns) OVER so_far - _edges.edge_ns, 0))
    )::BIGINT AS busy_ns,
    coalesce(sum(stretches.n_activities) OVER so_far, 0)::BIGINT AS n_activities,
    coalesce(sum(stretches.n_unlinked) OVER so_far, 0)::BIGINT AS n_unlinked
FROM _edges
LEFT JOIN stretches ON _edges.edge_no = stretches.next_edge_no
WINDOW so_far AS (ORDER BY _edges.edge_no ROWS UNBOUNDED PRECEDING)
