-- One row per step, rank of a group whose transfers were slower than those of its sibling groups: what that cost.
--
-- step        BIGINT   Step.
-- rank        INTEGER  Member of the group.
-- late_ns     BIGINT   How much longer than the groups' median its transfers took beside no compute; the most of the rank's
--     groups.
-- residual_ns BIGINT   Largest residual of the members' clocks.
-- noise_ns    BIGINT   By how much the sibling groups differ from their median: the median of that.
-- place       VARCHAR  The hosts that the group spans; the group, where it spans one, or they are not known.
--
-- Scope: steps
-- How: a transfer is from the last arrival on, so nobody's lateness is in it. Siblings have the same description, size and
-- number of hosts and did the same in the step. Sends and receives are left out: how long one takes is up to the schedule.
WITH spanned AS (
    SELECT
        groups.group_id AS spanned_group,
        any_value(groups.description) AS description,
        CASE WHEN count(_hosts.host) = count(*) THEN count(DISTINCT _hosts.host)::INTEGER END AS n_hosts,
        CASE
            WHEN count(_hosts.host) = count(*) AND count(DISTINCT _hosts.host) > 1
                THEN array_to_string(list(DISTINCT _hosts.host ORDER BY _hosts.host), ', ')
            ELSE 'group ' || groups.group_id
        END AS place
    FROM groups
    LEFT JOIN _hosts ON groups.rank = _hosts.rank
    GROUP BY groups.group_id
),

transfers AS (
    SELECT
        instances.step,
        instances.group_id,
        aligned.rank,
        instances.op,
        instances.n_bytes,
        instances.n_ranks,
        count(*) AS n_instances,
        sum(greatest(0, instances.end_ns - instances.last_arrival_ns)) AS transfer_ns,
        sum(least(aligned.exposed_ns, greatest(0, aligned.end_ns - instances.last_arrival_ns))) AS exposed_ns,
        max(coalesce(aligned.residual_ns, 0)) AS residual_ns
    FROM _met_instances AS instances
    JOIN _aligned AS aligned ON instances.instance_no = aligned.instance_no
    WHERE instances.is_matched
        AND instances.n_ranks > 1
        AND instances.op <> 'send_recv'
        AND instances.n_bytes IS NOT NULL
        AND instances.step IS NOT NULL
        AND instances.shard_step >= (SELECT first_step FROM shard)
    GROUP BY
        instances.step,
        instances.group_id,
        aligned.rank,
        instances.op,
        instances.n_bytes,
        instances.n_ranks
),

by_group AS (
    SELECT
        transfers.step,
        transfers.group_id,
        any_value(spanned.place) AS place,
        [
            spanned.description,
            spanned.n_hosts::VARCHAR,
            transfers.op,
            transfers.n_bytes::VARCHAR,
            transfers.n_ranks::VARCHAR,
            transfers.n_instances::VARCHAR
        ] AS family,
        max(transfers.transfer_ns) AS transfer_ns,
        quantile_disc(transfers.exposed_ns, 0.5) AS exposed_ns,
        max(transfers.residual_ns) AS residual_ns
    FROM transfers
    JOIN spanned ON transfers.group_id = spanned.spanned_group
    GROUP BY transfers.step, transfers.group_id, family
),

medians AS (
    SELECT
        step AS median_step,
        family AS median_family,
        quantile_disc(transfer_ns, 0.5) AS median_transfer_ns,
        quantile_disc(exposed_ns, 0.5) AS median_exposed_ns
    FROM by_group
    GROUP BY step, family
    HAVING count(*) > 1
),

compared AS (
    SELECT
        by_group.*,
        medians.median_transfer_ns,
        by_group.exposed_ns - medians.median_exposed_ns AS late_ns,
        quantile_disc(abs(by_group.exposed_ns - medians.median_exposed_ns), 0.5) OVER (
            PARTITION BY by_group.step, by_group.family
        ) AS noise_ns
    FROM by_group
    JOIN medians ON by_group.step = medians.median_step AND by_group.family = medians.median_family
),

slow AS (
    SELECT
        compared.step,
        compared.group_id,
        any_value(compared.place) AS place,
        sum(least(compared.late_ns, compared.transfer_ns - compared.median_transfer_ns))::BIGINT AS late_ns,
        max(compared.residual_ns) AS residual_ns,
        max(compared.noise_ns) AS noise_ns
    FROM compared
    CROSS JOIN params
    WHERE compared.late_ns > 0
        AND compared.transfer_ns > params.slow_link_ratio * compared.median_transfer_ns
    GROUP BY compared.step, compared.group_id
)

SELECT
    slow.step,
    groups.rank,
    max(slow.late_ns) AS late_ns,
    max_by(slow.residual_ns, (slow.late_ns, slow.group_id)) AS residual_ns,
    max_by(slow.noise_ns, (slow.late_ns, slow.group_id))::BIGINT AS noise_ns,
    max_by(slow.place, (slow.late_ns, slow.group_id)) AS place
FROM slow
JOIN groups ON slow.group_id = groups.group_id
GROUP BY slow.step, groups.rank
