-- One row per rank, step, device whose allocations were recorded: the most memory it held, and what it began and ended with.
--
-- rank                 INTEGER  Rank.
-- step                 BIGINT   Number of the step, by its marker on the host; NULL for what happened outside all of them.
-- device               INTEGER  Device index; NULL of the host's memory.
-- n_events             BIGINT   Allocations and releases.
-- n_allocations        BIGINT   Allocations among them.
-- start_bytes          BIGINT   Allocated before the first of them. NULL where the dump lacks totals.
-- end_bytes            BIGINT   Allocated after the last. NULL likewise.
-- peak_allocated_bytes BIGINT   Most that was allocated at once, what was there before included. NULL likewise.
-- peak_reserved_bytes  BIGINT   Most that the allocator held of the device. NULL likewise.
-- rise_bytes           BIGINT   By how much the step's own allocations came above what was there before them, at most. NULL
--     outside steps.
-- reason               VARCHAR  Why the totals are NULL; NULL where they are not.
--
-- Scope: rank
-- Order: rank, step, device
-- How: rise_bytes adds up sizes, so a dump without totals, as those of 2021, has it too.
WITH summed AS (
    SELECT
        *,
        TRY(allocated_bytes - n_bytes) AS before_bytes,
        sum(n_bytes) OVER (
            PARTITION BY step, device ORDER BY start_ns, row_id ROWS UNBOUNDED PRECEDING
        ) AS risen_bytes
    FROM memory_events
),

counted AS (
    SELECT
        step,
        device,
        count(*) AS n_events,
        count(*) FILTER (n_bytes > 0) AS n_allocations,
        arg_min(before_bytes, (start_ns, row_id)) AS start_bytes,
        arg_max(allocated_bytes, (start_ns, row_id)) AS end_bytes,
        max(allocated_bytes) AS highest_bytes,
        max(reserved_bytes) AS peak_reserved_bytes,
        TRY_CAST(greatest(max(risen_bytes), 0) AS BIGINT) AS risen_bytes
    FROM summed
    GROUP BY step, device
)

SELECT
    context.rank,
    counted.step,
    counted.device,
    counted.n_events,
    counted.n_allocations,
    counted.start_bytes,
    counted.end_bytes,
    greatest(counted.start_bytes, counted.highest_bytes) AS peak_allocated_bytes,
    counted.peak_reserved_bytes,
    CASE WHEN counted.step IS NOT NULL THEN counted.risen_bytes END AS rise_bytes,
    CASE WHEN counted.highest_bytes IS NULL THEN 'the dump has sizes of allocations, but no totals' END AS reason
FROM counted
CROSS JOIN context
