-- One row per activity: what the dump calls it.
--
-- activity_no BIGINT   As in _activities.
-- name        VARCHAR  Kernel, copy or fill; on the host an operator or a collective's span.
-- is_host     BOOLEAN  Whether it runs on the host.
--
-- Scope: rank
SELECT
    row_number() OVER () - 1 AS activity_no,
    name,
    category NOT IN ('kernel', 'memcpy', 'memset') AS is_host
FROM events
WHERE kind IS NOT NULL
