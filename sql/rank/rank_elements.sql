-- One row per activity that a step launched: what it and the host before it took, to compare with the same on other ranks.
--
-- rank      INTEGER  Rank.
-- step      BIGINT   Step that launched it.
-- name      VARCHAR  Kernel, copy or collective.
-- place     BIGINT   Place among those of its name in the step, in order of launch, from 0.
-- device_ns BIGINT   Its duration; NULL of a collective, whose length is the group's.
-- host_ns   BIGINT   Host time before its launch since the host point before; NULL where another was launched there too,
--     or the host had waited for the device.
--
-- Scope: elements
-- Order: step, name, place
SELECT
    context.rank,
    elements.step,
    elements.name,
    elements.place,
    elements.device_ns,
    elements.host_ns
FROM _elements AS elements
CROSS JOIN context
