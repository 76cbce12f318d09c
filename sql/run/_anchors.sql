-- One row per rank, collective that a clock may be fitted to: when it left, from a common reference.
--
-- group_id     VARCHAR  Process group.
-- instance     UBIGINT  Instance in the group.
-- rank         INTEGER  Member.
-- x_ns         DOUBLE   Its end on its own clock, minus reference_ns: epoch nanoseconds do not fit a DOUBLE.
-- reference_ns BIGINT   The earliest end of all.
--
-- Scope: clock
-- How: members of a synchronising collective leave together. Sends, receives, broadcasts and reductions to one rank do
-- not hold every member to the end; spans on host threads end when a thread is scheduled.
WITH leaving AS (
    SELECT
        *,
        count(*) OVER (PARTITION BY group_id, instance) AS n_present
    FROM _members
    WHERE op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
        AND is_anchor
        AND lane <> 'host'
)

SELECT
    group_id,
    instance,
    rank,
    (end_ns - min(end_ns) OVER ())::DOUBLE AS x_ns,
    min(end_ns) OVER () AS reference_ns
FROM leaving
WHERE n_present > 1
