-- One row per lane that hangs: the first number that is open, or that a member with a dump did not come to.
--
-- lane VARCHAR  As in _flight_places.
-- seq  BIGINT   The number.
--
-- Scope: hang
SELECT
    lane,
    least(
        min(open_seq),
        greatest(
            min(CASE WHEN has_dump AND (last_seq IS NOT NULL OR oldest_ns IS NULL) THEN coalesce(last_seq, 0) + 1 END),
            min(first_seq)
        )
    ) AS seq
FROM _flight_members
GROUP BY lane
HAVING min(open_seq) IS NOT NULL
