-- One row per kind of process group, operation: what communication of the run is exposed, and how fast it is; the most first.
--
-- dimension         VARCHAR  What the job calls the groups, else the group's name.
-- op                VARCHAR  Operation.
-- n_groups          BIGINT   Groups of that kind.
-- n_ranks           INTEGER  Members of one, the most.
-- n_instances       BIGINT   Instances.
-- n_bytes           BIGINT   Bytes of one, the mean; NULL where sizes are not recorded.
-- exposed_ns        BIGINT   Time that they alone explain, over all ranks and steps.
-- exposed_ratio     DOUBLE   Of the ranks' windows.
-- wait_ratio        DOUBLE   Of the time in them, the share that waited for the last to come; NULL where clocks are not aligned.
-- busbw_bytes_per_s DOUBLE   Median over steps and groups of the median bus bandwidth; NULL without sizes or with members not
--     recorded.
-- n_slow_links      BIGINT   Groups whose transfers take longer than their siblings'.
-- n_incomplete      BIGINT   Instances with a member that is not recorded.
-- n_kinds           BIGINT   Rows there are in all.
--
-- How: parameters: $run, $max_exchanges.
WITH named AS (
    SELECT
        group_id AS named_group,
        coalesce(any_value(description), group_id) AS dimension
    FROM groups
    WHERE run = $run
    GROUP BY group_id
),

slow AS (
    SELECT DISTINCT
        group_id AS slow_group,
        op AS slow_op
    FROM group_transfers
    WHERE run = $run AND verdict = 'slow link'
),

total AS (
    SELECT sum(duration_ns) AS duration_ns
    FROM rank_steps
    WHERE run = $run
),

kinds AS (
    SELECT
        coalesce(named.dimension, exchanges.group_id) AS dimension,
        exchanges.op,
        count(DISTINCT exchanges.group_id) AS n_groups,
        max(exchanges.n_ranks) AS n_ranks,
        sum(exchanges.n_instances)::BIGINT AS n_instances,
        CASE
            WHEN count(exchanges.n_bytes) = count(*)
                THEN round(sum(exchanges.n_bytes) / sum(exchanges.n_instances))::BIGINT
        END AS n_bytes,
        sum(exchanges.exposed_ns)::BIGINT AS exposed_ns,
        CASE
            WHEN count(exchanges.wait_ns) = count(*)
                THEN sum(exchanges.wait_ns) / nullif(sum(exchanges.duration_ns), 0)
        END AS wait_ratio,
        median(exchanges.busbw_bytes_per_s) AS busbw_bytes_per_s,
        count(DISTINCT slow.slow_group) AS n_slow_links,
        sum(exchanges.n_incomplete)::BIGINT AS n_incomplete
    FROM step_exchanges AS exchanges
    LEFT JOIN named ON exchanges.group_id = named.named_group
    LEFT JOIN slow ON exchanges.group_id = slow.slow_group AND exchanges.op = slow.slow_op
    WHERE exchanges.run = $run
    GROUP BY coalesce(named.dimension, exchanges.group_id), exchanges.op
)

SELECT
    kinds.dimension,
    kinds.op,
    kinds.n_groups,
    kinds.n_ranks,
    kinds.n_instances,
    kinds.n_bytes,
    kinds.exposed_ns,
    kinds.exposed_ns / nullif(total.duration_ns, 0) AS exposed_ratio,
    kinds.wait_ratio,
    kinds.busbw_bytes_per_s,
    kinds.n_slow_links,
    kinds.n_incomplete,
    count(*) OVER () AS n_kinds
FROM kinds
CROSS JOIN total
ORDER BY kinds.exposed_ns DESC, kinds.dimension, kinds.op
LIMIT $max_exchanges
