-- One row per activity: how much time it alone explains, in windows and outside.
--
-- activity_no BIGINT  Place of the activity in order of start.
-- exposed_ns  BIGINT  As exclusive_ns in _exclusive.
--
-- Scope: rank
SELECT
    activity_no,
    sum(exclusive_ns)::BIGINT AS exposed_ns
FROM _exclusive
GROUP BY activity_no
