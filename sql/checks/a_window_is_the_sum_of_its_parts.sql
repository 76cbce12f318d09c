-- One row per rank, step whose compute, exposed comm, exposed copies and idle do not add up to its window.
--
-- run         VARCHAR  Run.
-- rank        INTEGER  Rank.
-- step        BIGINT   Step.
-- duration_ns BIGINT   The window.
-- parts_ns    BIGINT   The sum of its parts.
--
-- Scope: check
SELECT
    run,
    rank,
    step,
    duration_ns,
    compute_ns + exposed_comm_ns + exposed_copy_ns + idle_ns AS parts_ns
FROM rank_steps
WHERE duration_ns <> compute_ns + exposed_comm_ns + exposed_copy_ns + idle_ns
    OR least(compute_ns, exposed_comm_ns, overlapped_comm_ns, exposed_copy_ns, idle_ns) < 0
