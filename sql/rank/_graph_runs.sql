-- One row per scenario, activity of a lane: its end as one of two times, through the node of its run or its host segment.
--
-- scenario    INTEGER  Scenario.
-- activity_no BIGINT   The activity.
-- node_no     BIGINT   First activity of its run, which is a node.
-- is_exit     BOOLEAN  Whether that node counts from its end, as a collective's does; else from its start.
-- is_node     BOOLEAN  Whether it is that first activity itself.
-- segment_no  BIGINT   Host segment that launched the run.
-- run_ns      BIGINT   From the node to its end.
-- host_ns     BIGINT   From the host segment's start to its end, by the launches of the run after its first; NULL without.
--
-- Scope: graph
-- How: within a run every activity waits for the one before it and for its own launch, and all are launched by one host
-- segment, so the longest way to its end is a running maximum: max over k of (launch k + work from k on).
WITH marked AS (
    SELECT
        *,
        is_comm
        OR wait_ns IS NOT NULL
        OR is_tied
        OR stream_ns IS NULL
        OR (
            segment_no IS NOT NULL
            AND segment_no IS DISTINCT FROM last_value(segment_no IGNORE NULLS) OVER (
                PARTITION BY scenario, dump_no, lane ORDER BY activity_no
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS is_node
    FROM _graph_costs
),

placed AS (
    SELECT
        *,
        max(CASE WHEN is_node THEN activity_no END) OVER (
            PARTITION BY scenario, dump_no, lane ORDER BY activity_no ROWS UNBOUNDED PRECEDING
        ) AS node_no
    FROM marked
),

summed AS (
    SELECT
        *,
        sum(
            CASE WHEN is_node AND is_comm THEN 0 WHEN is_node THEN work_ns ELSE stream_ns + work_ns END
        ) OVER in_run AS run_ns,
        first_value(is_comm) OVER in_run AS is_exit
    FROM placed
    WINDOW in_run AS (PARTITION BY scenario, node_no ORDER BY activity_no ROWS UNBOUNDED PRECEDING)
)

SELECT
    scenario,
    activity_no,
    node_no,
    is_exit,
    is_node,
    max(segment_no) OVER in_run AS segment_no,
    run_ns::BIGINT AS run_ns,
    (
        run_ns + max(CASE WHEN NOT is_node THEN since_ns + launch_ns + work_ns - run_ns END) OVER in_run
    )::BIGINT AS host_ns
FROM summed
WINDOW in_run AS (PARTITION BY scenario, node_no ORDER BY activity_no ROWS UNBOUNDED PRECEDING)
