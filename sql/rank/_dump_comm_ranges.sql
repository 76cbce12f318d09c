-- One row per stretch of a host thread spent in collective records of a dump.
--
-- thread   BIGINT  Host thread.
-- start_ns BIGINT  Start of the stretch, without base_ns.
-- end_ns   BIGINT  End of the stretch, without base_ns.
--
-- Scope: dump
-- How: the union per thread of record_param_comms, c10d::* and nccl:* ranges. `wait` is a pseudo-collective: a range
-- that only waits is left out, for what it launches moves no data between ranks.
WITH names AS (
    SELECT name
    FROM (SELECT DISTINCT name FROM raw WHERE category IN ('cpu_op', 'annotation'))
    WHERE (name = 'record_param_comms' OR starts_with(name, 'c10d::') OR starts_with(name, 'nccl:'))
        AND name NOT IN ('c10d::wait', 'c10d::wait_tensor', 'nccl:wait')
),

ranges AS (
    SELECT
        raw.thread,
        raw.start_ns,
        raw.start_ns + raw.duration_ns AS end_ns
    FROM raw
    JOIN names ON raw.name = names.name
    WHERE raw.category IN ('cpu_op', 'annotation')
        AND (raw.comm_op IS NULL OR lower(raw.comm_op) <> 'wait')
        AND raw.start_ns >= 0
        AND raw.duration_ns BETWEEN 0 AND (SELECT longest_event_ns FROM params)
),

marked AS (
    SELECT
        *,
        coalesce(
            start_ns > max(end_ns) OVER (
                PARTITION BY thread ORDER BY start_ns, end_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            TRUE
        ) AS is_first
    FROM ranges
),

numbered AS (
    SELECT
        *,
        sum(CASE WHEN is_first THEN 1 ELSE 0 END) OVER (
            PARTITION BY thread ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING
        )::BIGINT AS stretch
    FROM marked
)

SELECT
    thread,
    min(start_ns)::BIGINT AS start_ns,
    max(end_ns)::BIGINT AS end_ns
FROM numbered
GROUP BY thread, stretch
