-- One row per collective instance of a run that flight recorders alone have: which members have it.
--
-- step                BIGINT   NULL: a recorder knows no steps.
-- shard_step          BIGINT   NULL likewise.
-- group_id            VARCHAR  Process group.
-- seq                 BIGINT   As in flight_records; of a transfer its place among the pair's.
-- op                  VARCHAR  Operation, what most members enqueued.
-- shape               VARCHAR  NULL: a recorder names no kernel.
-- dtype               VARCHAR  Element type; NULL where it is not recorded.
-- n_ranks             INTEGER  Members of the group; NULL where no dump lists them.
-- n_present           INTEGER  Members whose recorders have it.
-- n_bytes             BIGINT   Bytes, the most of any member; NULL where sizes are not recorded.
-- first_arrival_ns    BIGINT   NULL: clocks are not aligned.
-- last_arrival_ns     BIGINT   NULL likewise.
-- end_ns              BIGINT   NULL likewise.
-- last_rank           INTEGER  NULL likewise.
-- skew_ns             BIGINT   NULL likewise.
-- end_spread_ns       BIGINT   NULL likewise.
-- transfer_ns         BIGINT   NULL likewise.
-- algbw_bytes_per_s   DOUBLE   NULL likewise.
-- busbw_bytes_per_s   DOUBLE   NULL likewise.
-- is_complete         BOOLEAN  Whether every member's recorder has it.
-- verdict             VARCHAR  Why times are NULL, and what else is in doubt.
--
-- Table: collective_instances
-- Scope: hang
-- Order: group_id, seq, op, n_bytes, verdict
WITH grouped AS (
    SELECT
        lane,
        seq,
        place,
        any_value(group_id) AS group_id,
        mode(op ORDER BY op) AS op,
        min(dtype) AS dtype,
        any_value(n_ranks) AS n_ranks,
        count(*)::INTEGER AS n_present,
        max(n_bytes) AS n_bytes,
        count(*) FILTER (is_complete) AS n_ended,
        min(op) = max(op) AS is_one_op
    FROM _flight_enqueued
    WHERE NOT EXISTS (FROM collectives)
    GROUP BY lane, seq, place
)

SELECT
    NULL::BIGINT AS step,
    NULL::BIGINT AS shard_step,
    group_id,
    seq,
    op,
    NULL::VARCHAR AS shape,
    dtype,
    n_ranks,
    n_present,
    n_bytes,
    NULL::BIGINT AS first_arrival_ns,
    NULL::BIGINT AS last_arrival_ns,
    NULL::BIGINT AS end_ns,
    NULL::INTEGER AS last_rank,
    NULL::BIGINT AS skew_ns,
    NULL::BIGINT AS end_spread_ns,
    NULL::BIGINT AS transfer_ns,
    NULL::DOUBLE AS algbw_bytes_per_s,
    NULL::DOUBLE AS busbw_bytes_per_s,
    coalesce(n_present = n_ranks, FALSE) AS is_complete,
    concat_ws(
        '; ',
        CASE WHEN n_present < n_ranks THEN 'peer not recorded: ' || n_present || ' of ' || n_ranks END,
        CASE WHEN n_ended < n_present THEN 'ended on ' || n_ended || ' of ' || n_present || ' ranks' END,
        'clock not aligned',
        CASE WHEN NOT is_one_op THEN 'members disagree on the operation' END
    ) AS verdict
FROM grouped
