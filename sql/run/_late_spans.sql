-- One row per collective instance of the shard at which one rank was waited for.
--
-- step           BIGINT   Step of its launch.
-- rank           INTEGER  Rank that came last.
-- start_ns       BIGINT   From here it was waited for: median arrival of the others, the lower of two, aligned; no earlier than
--     it left the collective its own chain of work hangs on.
-- end_ns         BIGINT   Its arrival, aligned.
-- since_instance UBIGINT  Collective on which the others' chain hangs: what is late at two with the same is the same lateness.
--     NULL where that goes back to before the step.
-- residual_ns    BIGINT   Largest residual of the members' clocks.
--
-- Scope: steps
-- How: a receive waits for its send by the schedule of the pipeline: that is its bubble, nobody's lateness. Where members are not recorded, or clocks differ, nobody is said to be late. The others' chain is that of the one
-- who came in their middle.
WITH others AS (
    SELECT
        instances.instance_no,
        instances.step,
        instances.last_rank,
        instances.last_no,
        instances.last_arrival_ns,
        quantile_disc(aligned.arrival_ns, 0.5) FILTER (aligned.rank <> instances.last_rank) AS median_arrival_ns,
        max(aligned.residual_ns) AS residual_ns
    FROM _met_instances AS instances
    JOIN _aligned AS aligned ON instances.instance_no = aligned.instance_no
    WHERE instances.is_matched
        AND instances.n_ranks > 1
        AND instances.op <> 'send_recv'
        AND instances.step IS NOT NULL
        AND instances.shard_step >= (SELECT first_step FROM shard)
    GROUP BY
        instances.instance_no,
        instances.step,
        instances.last_rank,
        instances.last_no,
        instances.last_arrival_ns
),

middles AS (
    SELECT
        others.instance_no,
        min(aligned.rank) AS middle_rank,
        min_by(aligned.activity_no, aligned.rank) AS middle_no
    FROM others
    JOIN _aligned AS aligned
        ON others.instance_no = aligned.instance_no
        AND others.median_arrival_ns = aligned.arrival_ns
        AND others.last_rank <> aligned.rank
    WHERE others.last_arrival_ns > others.median_arrival_ns
    GROUP BY others.instance_no
),

roots AS (
    SELECT
        middles.instance_no,
        met.instance_no AS since_instance
    FROM middles
    JOIN rank_chains AS chains
        ON middles.middle_rank = chains.rank AND middles.middle_no = chains.activity_no
    JOIN _aligned AS met ON chains.rank = met.rank AND chains.root_no = met.activity_no
),

own AS (
    SELECT
        others.instance_no,
        aligned_ns(chains.root_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS left_ns
    FROM others
    JOIN rank_chains AS chains ON others.last_rank = chains.rank AND others.last_no = chains.activity_no
    JOIN rank_clocks AS clocks ON chains.rank = clocks.rank
)

SELECT
    others.step,
    others.last_rank AS rank,
    greatest(others.median_arrival_ns, coalesce(own.left_ns, others.median_arrival_ns)) AS start_ns,
    others.last_arrival_ns AS end_ns,
    roots.since_instance,
    coalesce(others.residual_ns, 0) AS residual_ns
FROM others
LEFT JOIN roots ON others.instance_no = roots.instance_no
LEFT JOIN own ON others.instance_no = own.instance_no
WHERE others.last_arrival_ns > greatest(others.median_arrival_ns, coalesce(own.left_ns, others.median_arrival_ns))
