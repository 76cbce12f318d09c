-- One row per collective, clock: when the ranks of the clock left it.
--
-- group_id  VARCHAR  Process group.
-- instance  UBIGINT  Instance in the group.
-- unit      INTEGER  Lowest rank of the clock.
-- x_ns      DOUBLE   Median end of its ranks, on that clock, from the reference.
-- base      INTEGER  Lowest of the clocks whose ranks took part.
-- base_x_ns DOUBLE   The same end on that one.
--
-- Scope: clock
-- How: what the ranks of one clock say together is known better than what each says, and what they say of each other
-- says nothing of clocks. Members whose ends are loose are left out.
WITH leaving AS (
    SELECT
        anchors.group_id,
        anchors.instance,
        units.unit,
        median(anchors.x_ns) AS x_ns
    FROM _anchors AS anchors
    JOIN _member_fits AS fits ON anchors.group_id = fits.group_id AND anchors.rank = fits.rank
    JOIN _units AS units ON anchors.rank = units.rank
    GROUP BY anchors.group_id, anchors.instance, units.unit
)

SELECT
    group_id,
    instance,
    unit,
    x_ns,
    min(unit) OVER (PARTITION BY group_id, instance) AS base,
    arg_min(x_ns, unit) OVER (PARTITION BY group_id, instance) AS base_x_ns
FROM leaving
QUALIFY count(*) OVER (PARTITION BY group_id, instance) > 1
