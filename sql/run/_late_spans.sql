-- One row per collective instance of the shard, while one rank alone was waited for.
--
-- step        BIGINT   Step of its launch.
-- rank        INTEGER  Rank that came last.
-- start_ns    BIGINT   Median arrival of the others, the lower of two, aligned.
-- end_ns      BIGINT   Its arrival, aligned.
-- residual_ns BIGINT   The larger of its clock's and the median of the others'.
--
-- Scope: steps
-- How: where members are not recorded, or clocks differ, nobody is said to be late.
WITH others AS (
    SELECT
        instances.instance_no,
        instances.step,
        instances.last_rank,
        instances.last_arrival_ns,
        quantile_disc(aligned.arrival_ns, 0.5) FILTER (aligned.rank <> instances.last_rank) AS median_arrival_ns,
        max(aligned.residual_ns) AS residual_ns
    FROM _met_instances AS instances
    JOIN _aligned AS aligned ON instances.instance_no = aligned.instance_no
    WHERE instances.is_aligned
        AND instances.n_present = instances.n_ranks
        AND instances.n_ranks > 1
        AND instances.step IS NOT NULL
        AND instances.shard_step >= (SELECT first_step FROM shard)
    GROUP BY instances.instance_no, instances.step, instances.last_rank, instances.last_arrival_ns
)

SELECT
    step,
    last_rank AS rank,
    median_arrival_ns AS start_ns,
    last_arrival_ns AS end_ns,
    coalesce(residual_ns, 0) AS residual_ns
FROM others
WHERE last_arrival_ns > median_arrival_ns
