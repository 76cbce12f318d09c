-- One row per collective instance of the shard: who came last.
--
-- instance_no UBIGINT  Instance, as in _aligned.
-- last_rank   INTEGER  Rank that came last, the lowest of equals.
--
-- Scope: steps
SELECT
    aligned.instance_no,
    min(aligned.rank) AS last_rank
FROM _aligned AS aligned
JOIN _met_instances AS instances
    ON aligned.instance_no = instances.instance_no AND aligned.arrival_ns = instances.last_arrival_ns
GROUP BY aligned.instance_no
