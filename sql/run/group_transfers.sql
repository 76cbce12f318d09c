-- One row per process group, operation, size: how long its transfers take beside those of its sibling groups.
--
-- group_id            VARCHAR  Process group.
-- description         VARCHAR  What the job calls it; NULL without metadata.
-- op                  VARCHAR  Operation.
-- n_bytes             BIGINT   Bytes; NULL where sizes are not recorded.
-- n_ranks             INTEGER  Members.
-- n_hosts             INTEGER  Hosts of its members; NULL where one is not known.
-- n_instances         BIGINT   Complete instances on one clock.
-- transfer_ns         BIGINT   Median transfer, the lower of two.
-- busbw_bytes_per_s   DOUBLE   Median bus bandwidth; NULL without sizes.
-- n_siblings          BIGINT   Other groups of the same description, size and number of hosts that did the same.
-- sibling_transfer_ns BIGINT   Median of their medians; NULL without siblings.
-- slowdown_ratio      DOUBLE   transfer_ns by sibling_transfer_ns; NULL without siblings.
-- verdict             VARCHAR  ok; slow link: a quarter slower than its siblings and by more than the clock's residual;
--     n/a: why it cannot be said.
--
-- Scope: run
WITH hosts AS (
    SELECT
        groups.group_id AS host_group,
        any_value(groups.description) AS description,
        CASE WHEN count(_hosts.host) = count(*) THEN count(DISTINCT _hosts.host)::INTEGER END AS n_hosts,
        max(rank_clocks.residual_ns) AS residual_ns
    FROM groups
    LEFT JOIN _hosts ON groups.rank = _hosts.rank
    LEFT JOIN rank_clocks ON groups.rank = rank_clocks.rank
    GROUP BY groups.group_id
),

transfers AS (
    SELECT
        group_id,
        op,
        n_bytes,
        any_value(n_ranks) AS n_ranks,
        count(*) AS n_instances,
        quantile_disc(transfer_ns, 0.5) AS transfer_ns,
        median(busbw_bytes_per_s) AS busbw_bytes_per_s
    FROM collective_instances
    WHERE is_complete AND transfer_ns IS NOT NULL
    GROUP BY group_id, op, n_bytes
),

placed AS (
    SELECT
        transfers.*,
        hosts.description,
        hosts.n_hosts,
        hosts.residual_ns
    FROM transfers
    JOIN hosts ON transfers.group_id = hosts.host_group
),

siblings AS (
    SELECT
        mine.group_id AS sibling_of,
        mine.op AS sibling_op,
        mine.n_bytes AS sibling_bytes,
        count(*) AS n_siblings,
        quantile_disc(theirs.transfer_ns, 0.5) AS sibling_transfer_ns
    FROM placed AS mine
    JOIN placed AS theirs
        ON mine.group_id <> theirs.group_id
        AND mine.op = theirs.op
        AND mine.n_bytes = theirs.n_bytes
        AND mine.n_ranks = theirs.n_ranks
        AND mine.description IS NOT DISTINCT FROM theirs.description
        AND mine.n_hosts IS NOT DISTINCT FROM theirs.n_hosts
    GROUP BY mine.group_id, mine.op, mine.n_bytes
)

SELECT
    placed.group_id,
    placed.description,
    placed.op,
    placed.n_bytes,
    placed.n_ranks,
    placed.n_hosts,
    placed.n_instances,
    placed.transfer_ns,
    placed.busbw_bytes_per_s,
    coalesce(siblings.n_siblings, 0) AS n_siblings,
    siblings.sibling_transfer_ns,
    placed.transfer_ns / nullif(siblings.sibling_transfer_ns, 0) AS slowdown_ratio,
    CASE
        WHEN placed.n_bytes IS NULL THEN 'n/a: sizes are not recorded'
        WHEN siblings.n_siblings IS NULL THEN 'n/a: no sibling group did the same'
        WHEN placed.transfer_ns > params.slow_link_ratio * siblings.sibling_transfer_ns
            AND placed.transfer_ns - siblings.sibling_transfer_ns > 3 * coalesce(placed.residual_ns, 0)
            THEN 'slow link'
        ELSE 'ok'
    END AS verdict
FROM placed
CROSS JOIN params
LEFT JOIN siblings
    ON placed.group_id = siblings.sibling_of
    AND placed.op = siblings.sibling_op
    AND placed.n_bytes = siblings.sibling_bytes
