-- One row per call that a rank's flight recorder has and that has a number among its group's or its pair's.
--
-- lane         VARCHAR  As in _flight_places.
-- group_name   VARCHAR  Name of the process group.
-- group_id     VARCHAR  The same, with @ and its lowest rank where groups share the name: as in groups.
-- is_p2p       BOOLEAN  Whether it is a transfer between two ranks.
-- seq          BIGINT   Number among the lane's calls.
-- place        BIGINT   Place among those made as one, which share the number, from 1.
-- rank         INTEGER  Rank.
-- record_id    BIGINT   As in flight_records.
-- op           VARCHAR  Operation, as in collectives.
-- dtype        VARCHAR  Element type of the inputs; NULL where they have several.
-- n_bytes      BIGINT   Bytes: of all-gather and reduce-scatter the larger side; NULL where sizes are not recorded.
-- n_ranks      INTEGER  Ranks that take part; NULL where no dump says.
-- state        VARCHAR  As in flight_records.
-- is_complete  BOOLEAN  Whether it ended on this rank.
-- created_ns   BIGINT   When it was enqueued, on the rank's own clock.
-- started_ns   BIGINT   When it was found started.
-- completed_ns BIGINT   When it was found completed.
-- duration_ns  BIGINT   What it took on the device, where timing was switched on.
--
-- Scope: hang
-- How: the record named coalesced stands behind the calls that were made as one and is none itself.
WITH texts AS (
    SELECT DISTINCT op AS text FROM _flight_places
),

ops AS (
    SELECT
        texts.text,
        coalesce(arg_min(comm_ops.op, comm_ops.place), 'other') AS op
    FROM texts
    LEFT JOIN (SELECT *, row_number() OVER () AS place FROM comm_ops) AS comm_ops
        ON regexp_matches(texts.text, comm_ops.pattern)
    GROUP BY texts.text
),

members AS (
    SELECT
        lane,
        count(*)::INTEGER AS n_ranks
    FROM _flight_members
    GROUP BY lane
),

told AS (
    SELECT
        places.*,
        CASE WHEN places.is_p2p THEN 'send_recv' ELSE ops.op END AS kind,
        CASE WHEN NOT contains(places.input_dtypes, ';') THEN places.input_dtypes END AS dtype,
        coalesce(len(places.pair), members.n_ranks)::INTEGER AS n_ranks,
        count(DISTINCT places.group_ranks) OVER (PARTITION BY places.group_id) AS n_namesakes
    FROM _flight_places AS places
    JOIN ops ON places.op = ops.text
    LEFT JOIN members ON places.lane = members.lane
    WHERE places.op <> 'coalesced'
)

SELECT
    told.lane,
    told.group_id AS group_name,
    told.group_id
    || CASE WHEN told.n_namesakes > 1 THEN coalesce('@' || regexp_extract(told.group_ranks, '^\d+'), '') ELSE '' END
        AS group_id,
    told.is_p2p,
    told.seq,
    row_number() OVER (PARTITION BY told.rank, told.lane, told.seq ORDER BY told.record_id) AS place,
    told.rank,
    told.record_id,
    told.kind AS op,
    told.dtype,
    TRY(
        CASE
            WHEN told.kind IN ('all_gather', 'reduce_scatter') THEN greatest(told.input_elements, told.output_elements)
            ELSE told.input_elements
        END * dtype_bytes.n_bytes::BIGINT
    ) AS n_bytes,
    told.n_ranks,
    told.state,
    told.is_complete,
    told.created_ns,
    told.started_ns,
    told.completed_ns,
    told.duration_ns
FROM told
LEFT JOIN dtype_bytes ON lower(told.dtype) = dtype_bytes.dtype
