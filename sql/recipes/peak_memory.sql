-- Which ranks use the most memory, and in which step?
-- $rows  BIGINT = 20  Rows at most.
-- run             VARCHAR  Run.
-- rank            INTEGER  Rank.
-- device          INTEGER  Its device.
-- peak_bytes      BIGINT   Most that was allocated on it at once.
-- step            BIGINT   The first step in which it was; NULL outside of steps.
-- reserved_bytes  BIGINT   Most that the allocator held.
-- rise_bytes      BIGINT   Most by which a step's own allocations rose above what was there when it began.
-- device_bytes    BIGINT   Memory of the device; NULL where its dumps do not say.
-- free_ratio      DOUBLE   Of that, what was not allocated at the peak; NULL as above.
-- Empty: where no dump has allocations with their totals: record with profile_memory=True.
WITH
peaks AS (
    SELECT
        run,
        rank,
        device,
        max(peak_allocated_bytes) AS peak_bytes,
        arg_min(step, (-peak_allocated_bytes, step)) AS step,
        max(peak_reserved_bytes) AS reserved_bytes,
        max(rise_bytes) AS rise_bytes
    FROM rank_memory
    WHERE device IS NOT NULL AND peak_allocated_bytes IS NOT NULL
    GROUP BY run, rank, device
),
sizes AS (
    SELECT
        run,
        rank,
        device_index,
        max(device_memory_bytes) AS device_bytes
    FROM dumps
    GROUP BY run, rank, device_index
)
SELECT
    peaks.run,
    peaks.rank,
    peaks.device,
    peaks.peak_bytes,
    peaks.step,
    peaks.reserved_bytes,
    peaks.rise_bytes,
    sizes.device_bytes,
    1 - peaks.peak_bytes / sizes.device_bytes AS free_ratio
FROM peaks
LEFT JOIN sizes ON peaks.run = sizes.run AND peaks.rank = sizes.rank AND peaks.device = sizes.device_index
ORDER BY peak_bytes DESC, run, rank, device
LIMIT $rows
