-- One row per step, kernel, place: what it and the host before it take on the median rank.
--
-- step      BIGINT   Step.
-- name      VARCHAR  Kernel, copy or collective.
-- place     BIGINT   As in rank_elements.
-- n_ranks   BIGINT   Ranks that have it.
-- device_ns BIGINT   Median duration, the lower of two; NULL of a collective.
-- host_ns   BIGINT   Median host time before its launch, the lower of two.
--
-- Scope: medians
-- Order: step, name, place
-- How: what fewer than three ranks have has no median worth the name.
SELECT
    step,
    name,
    place,
    count(*) AS n_ranks,
    quantile_disc(device_ns, 0.5) AS device_ns,
    quantile_disc(host_ns, 0.5) AS host_ns
FROM rank_elements
GROUP BY step, name, place
HAVING count(*) >= 3
