-- One row per type of op: what one takes where no worker, stage or step is slower than another.
--
-- optype     VARCHAR  Type.
-- op_type    VARCHAR  Type that run_whatif answers by: sends and receives of a direction are one.
-- typical    VARCHAR  mean, for compute; median, for what ranks do together.
-- ideal_ns   BIGINT   That, over all dp ranks, stages and steps; of a transfer without the wait for the others.
-- n_ops      BIGINT   Ops of the type in the model.
-- n_unpaired BIGINT   Of them, sends and receives whose other end is not recorded.
--
-- Scope: timeline
SELECT
    optype,
    any_value(op_type) AS op_type,
    any_value(typical) AS typical,
    round(CASE WHEN any_value(typical) = 'mean' THEN avg(own_ns) ELSE median(own_ns) END)::BIGINT AS ideal_ns,
    count(*) AS n_ops,
    count(*) FILTER (is_unpaired) AS n_unpaired
FROM _timeline_costs
GROUP BY optype
