-- One row per instant at which a span starts or ends.
--
-- edge_no BIGINT  Order in time, from 0.
-- edge_ns BIGINT  The instant.
--
-- Scope: rank
SELECT
    row_number() OVER (ORDER BY edge_ns) - 1 AS edge_no,
    edge_ns
FROM (
    SELECT start_ns AS edge_ns FROM _spans
    UNION
    SELECT end_ns AS edge_ns FROM _spans
)
