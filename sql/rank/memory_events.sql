-- One row per allocation or release of memory that a dump has: how much, where, and in which step.
--
-- step            BIGINT   Step in whose marker it happened; NULL outside all of them.
-- start_ns        BIGINT   On the host's own clock, unaligned.
-- device          INTEGER  Device index; NULL of the host's memory.
-- n_bytes         BIGINT   Bytes; of a release negative.
-- allocated_bytes BIGINT   What was allocated there after it; NULL where the dump does not say.
-- reserved_bytes  BIGINT   What the allocator held of the device after it; NULL likewise.
-- process         BIGINT   Process id as the dump has it.
-- thread          BIGINT   Thread id as the dump has it.
-- row_id          BIGINT   Place in the dump, from 0, among the events stored.
--
-- Scope: dump
-- Order: start_ns, row_id
-- How: the allocator runs on the host, so a step's allocations are those between its marker's start and end.
SELECT
    CASE WHEN raw.start_ns < steps.end_ns THEN steps.step END AS step,
    raw.start_ns + context.base_ns AS start_ns,
    raw.device,
    raw.n_bytes,
    raw.allocated_bytes,
    raw.reserved_bytes,
    raw.process,
    raw.thread,
    raw.row_id
FROM raw_memory AS raw
ASOF LEFT JOIN _dump_steps AS steps ON raw.start_ns >= steps.start_ns
CROSS JOIN context
