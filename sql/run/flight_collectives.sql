-- One row per collective instance, rank, of a run that flight recorders alone have: who enqueued it, and what is known of when.
--
-- step        BIGINT   NULL: a recorder knows no steps.
-- rank        INTEGER  Rank.
-- group_id    VARCHAR  Process group.
-- seq         BIGINT   As in flight_records; of a transfer its place among the pair's.
-- op          VARCHAR  Operation.
-- shape       VARCHAR  NULL: it names no kernel.
-- n_bytes     BIGINT   Bytes; NULL where sizes are not recorded.
-- arrival_ns  BIGINT   When it was found started, on the rank's own clock; later than it was. NULL where it was not.
-- end_ns      BIGINT   When it was found completed, likewise.
-- wait_ns     BIGINT   NULL: clocks are not aligned.
-- transfer_ns BIGINT   NULL likewise.
-- exposed_ns  BIGINT   NULL: compute is not recorded.
-- is_last     BOOLEAN  NULL: clocks are not aligned.
-- is_complete BOOLEAN  Whether every member's recorder has it.
-- activity_no BIGINT   Number of the record.
--
-- Table: collectives
-- Scope: hang
-- Order: rank, activity_no, seq
-- How: where the run has a profiler's dumps too, the instances are those of the kernels, and collective_records sets both
-- beside each other: nothing is counted twice.
SELECT
    NULL::BIGINT AS step,
    rank,
    group_id,
    seq,
    op,
    NULL::VARCHAR AS shape,
    n_bytes,
    started_ns AS arrival_ns,
    completed_ns AS end_ns,
    NULL::BIGINT AS wait_ns,
    NULL::BIGINT AS transfer_ns,
    NULL::BIGINT AS exposed_ns,
    NULL::BOOLEAN AS is_last,
    coalesce(count(*) OVER (PARTITION BY lane, seq, place) = n_ranks, FALSE) AS is_complete,
    record_id AS activity_no
FROM _flight_enqueued
WHERE NOT EXISTS (FROM collectives)
