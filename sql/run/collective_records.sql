-- One row per collective that a rank's flight recorder has: how far it came, and beside it the profiler's times of the same one.
--
-- rank         INTEGER  Rank.
-- record_id    BIGINT   As in flight_records.
-- group_id     VARCHAR  Process group, as in collectives.
-- seq          BIGINT   As in flight_records; of a transfer its place among the pair's.
-- op           VARCHAR  Operation, as in collectives.
-- is_p2p       BOOLEAN  Whether it is a transfer between two ranks.
-- n_ranks      INTEGER  Ranks that take part; NULL where no dump says.
-- n_bytes      BIGINT   Bytes, by the recorder; NULL where sizes are not recorded.
-- state        VARCHAR  As in flight_records.
-- is_complete  BOOLEAN  Whether it ended on this rank.
-- created_ns   BIGINT   When it was enqueued, on the rank's own clock.
-- started_ns   BIGINT   When it was found started, likewise; NULL where it was not.
-- completed_ns BIGINT   When it was found completed, likewise; NULL where it was not.
-- duration_ns  BIGINT   What it took, by the recorder; NULL unless timing was switched on.
-- step         BIGINT   As in collectives, of the same call; NULL where the profiler has none.
-- activity_no  BIGINT   As in collectives, likewise.
-- arrival_ns   BIGINT   As in collectives, likewise: on the run's clock.
-- end_ns       BIGINT   As in collectives, likewise.
-- wait_ns      BIGINT   As in collectives, likewise.
-- transfer_ns  BIGINT   As in collectives, likewise.
-- match_by     VARCHAR  seq: group and number are the same. order: the profiler has no numbers, and of this operation in this
--     group both have as many. NULL: not matched.
-- verdict      VARCHAR  ok, or why it is not matched, or how the two differ.
--
-- Scope: hang
-- Order: rank, record_id, seq
-- How: calls made as one share a number, and are matched in their order. A rank's sends and receives are not matched: their
-- numbers count differently in both.
WITH profiled AS (
    SELECT
        *,
        regexp_replace(group_id, '@\d+$', '') AS name,
        coalesce(seq >= 0, FALSE) AND op <> 'send_recv' AS has_seq
    FROM collectives
),

by_seq AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY rank, name, seq ORDER BY activity_no) AS nth,
        -- Two groups of one rank under one name: their numbers say nothing.
        count(DISTINCT group_id) OVER (PARTITION BY rank, name) AS n_groups
    FROM profiled
    WHERE has_seq
),

by_order AS (
    SELECT
        *,
        row_number() OVER (alike ORDER BY activity_no) AS nth,
        count(*) OVER alike AS n_alike
    FROM profiled
    WHERE NOT has_seq AND op <> 'send_recv'
    WINDOW alike AS (PARTITION BY rank, name, op)
),

records AS (
    SELECT
        *,
        row_number() OVER (alike ORDER BY record_id, seq) AS nth,
        count(*) OVER alike AS n_alike
    FROM _flight_enqueued
    WINDOW alike AS (PARTITION BY rank, group_name, is_p2p, op)
),

recorded_ranks AS (
    SELECT DISTINCT rank FROM collectives
),

matched AS (
    SELECT
        records.*,
        recorded_ranks.rank IS NOT NULL AS has_profile,
        CASE WHEN by_seq.rank IS NOT NULL THEN 'seq' WHEN by_order.rank IS NOT NULL THEN 'order' END AS match_by,
        coalesce(by_seq.group_id, by_order.group_id) AS known_group_id,
        coalesce(by_seq.op, by_order.op) AS known_op,
        coalesce(by_seq.step, by_order.step) AS step,
        coalesce(by_seq.activity_no, by_order.activity_no) AS activity_no,
        coalesce(by_seq.arrival_ns, by_order.arrival_ns) AS arrival_ns,
        coalesce(by_seq.end_ns, by_order.end_ns) AS end_ns,
        coalesce(by_seq.wait_ns, by_order.wait_ns) AS wait_ns,
        coalesce(by_seq.transfer_ns, by_order.transfer_ns) AS transfer_ns
    FROM records
    LEFT JOIN recorded_ranks ON records.rank = recorded_ranks.rank
    LEFT JOIN by_seq
        ON records.rank = by_seq.rank AND records.group_name = by_seq.name AND records.seq = by_seq.seq
        AND records.place = by_seq.nth AND by_seq.n_groups = 1 AND NOT records.is_p2p
    LEFT JOIN by_order
        ON records.rank = by_order.rank AND records.group_name = by_order.name AND records.op = by_order.op
        AND records.nth = by_order.nth AND records.n_alike = by_order.n_alike AND NOT records.is_p2p
)

SELECT
    rank,
    record_id,
    coalesce(known_group_id, group_id) AS group_id,
    seq,
    op,
    is_p2p,
    n_ranks,
    n_bytes,
    state,
    is_complete,
    created_ns,
    started_ns,
    completed_ns,
    duration_ns,
    step,
    activity_no,
    arrival_ns,
    end_ns,
    wait_ns,
    transfer_ns,
    match_by,
    CASE
        WHEN NOT has_profile THEN 'no profiler recorded the rank'
        WHEN is_p2p THEN 'transfers between two ranks are not matched'
        WHEN match_by IS NULL THEN 'not in what the profiler recorded'
        WHEN op <> known_op THEN 'the profiler has ' || known_op || ' there'
        ELSE 'ok'
    END AS verdict
FROM matched
