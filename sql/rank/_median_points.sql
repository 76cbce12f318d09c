-- One row per host point of a launch that has its like on other ranks: the host time before it there.
--
-- point_no BIGINT  As in _host_points.
-- host_ns  BIGINT  Median over the ranks of the group.
--
-- Scope: graph
SELECT
    elements.point_no,
    medians.host_ns
FROM _elements AS elements
JOIN element_medians AS medians
    ON elements.step = medians.step AND elements.name = medians.name AND elements.place = medians.place
WHERE elements.point_no IS NOT NULL AND medians.host_ns IS NOT NULL
