-- One row per comm activity of a rank, with what its metadata, its record or its name says of it.
--
-- activity_no       BIGINT   Place among the rank's activities, in order of start.
-- dump_no           BIGINT   Which of the rank's dumps.
-- step              BIGINT   Step that launched it; NULL where its launch is in no step or not in the dump.
-- name              VARCHAR  Kernel, or the collective's span on the host.
-- lane              VARCHAR  Stream, "device" where the dump does not say it, "timers" of a timers log, or "host": where
--     activities of one communicator queue.
-- thread            BIGINT   Thread of its launch; on the host its own.
-- start_ns          BIGINT   Start.
-- end_ns            BIGINT   End, not included.
-- sort_ns           BIGINT   Its launch, where the dump has it: to which capture it belongs.
-- is_linked         BOOLEAN  Whether its launch is in the dump.
-- op                VARCHAR  all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter,
--     barrier, send_recv, send, recv or other.
-- shape             VARCHAR  What the name alone says, alike on every rank: operation and element type.
-- dtype             VARCHAR  Element type; NULL where nothing says it.
-- group_name        VARCHAR  Process group from metadata; NULL without.
-- group_description VARCHAR  Its description.
-- group_ranks       VARCHAR  Its members as the dump prints them.
-- group_size        INTEGER  Its size.
-- seq               BIGINT   Sequence number in the group.
-- in_elements       BIGINT   Elements put in.
-- out_elements      BIGINT   Elements got out.
-- peer              INTEGER  Send, receive: the job's rank at the other end; NULL where nothing says it.
--
-- Scope: rank
-- How: a kernel that carries no arguments takes those of the record_param_comms range it was launched under. The
-- operation is the metadata's word, else the range's (nccl:all_to_all), else the kernel's. A coalesced launch has a range
-- that says no operation, nccl:coalesced, and no arguments.
WITH numbered AS (
    SELECT
        row_number() OVER () - 1 AS activity_no,
        *
    FROM events
    WHERE kind IS NOT NULL
),

comm AS (
    SELECT
        activity_no,
        dump_no,
        step,
        name,
        CASE
            WHEN category = 'kernel' THEN coalesce(stream::VARCHAR, 'device')
            WHEN dump_no IN (SELECT timed.dump_no FROM dump_facts AS timed WHERE timed.format = 'timers') THEN 'timers'
            ELSE 'host'
        END AS lane,
        start_ns,
        start_ns + duration_ns AS end_ns,
        coalesce(launch_ns, start_ns) AS launch_ns,
        CASE WHEN category = 'kernel' THEN launch_thread ELSE thread END AS thread,
        launch_ns IS NOT NULL OR category <> 'kernel' AS is_linked,
        CASE WHEN lower(comm_op) <> 'wait' THEN comm_op END AS comm_op,
        comm_dtype,
        comm_group,
        comm_group_description,
        comm_group_ranks,
        comm_group_size,
        comm_seq,
        comm_in_elements,
        comm_out_elements,
        comm_source_rank,
        comm_target_rank
    FROM numbered
    WHERE kind = 'comm'
),

records AS (
    SELECT
        dump_no,
        thread AS record_thread,
        start_ns AS record_start_ns,
        start_ns + duration_ns AS record_end_ns,
        comm_op AS record_op,
        comm_dtype AS record_dtype,
        comm_group AS record_group,
        comm_group_description AS record_description,
        comm_group_ranks AS record_ranks,
        comm_group_size AS record_size,
        comm_seq AS record_seq,
        comm_in_elements AS record_in,
        comm_out_elements AS record_out,
        comm_source_rank AS record_source,
        comm_target_rank AS record_target
    FROM events
    WHERE category = 'cpu_op' AND comm_op IS NOT NULL AND lower(comm_op) <> 'wait' AND duration_ns IS NOT NULL
),

ranges AS (
    SELECT
        dump_no,
        thread AS range_thread,
        start_ns AS range_start_ns,
        start_ns + duration_ns AS range_end_ns,
        name AS range_name
    FROM events
    WHERE category IN ('annotation', 'cpu_op')
        AND (starts_with(name, 'nccl:') OR starts_with(name, 'c10d::'))
        AND duration_ns IS NOT NULL
),

recorded AS (
    SELECT
        comm.*,
        records.*,
        comm.launch_ns < records.record_end_ns AS is_recorded
    FROM comm
    ASOF LEFT JOIN records
        ON comm.dump_no = records.dump_no
        AND comm.thread = records.record_thread
        AND comm.launch_ns >= records.record_start_ns
),

ranged AS (
    SELECT
        recorded.*,
        CASE WHEN recorded.launch_ns < ranges.range_end_ns THEN ranges.range_name END AS range_name
    FROM recorded
    ASOF LEFT JOIN ranges
        ON recorded.dump_no = ranges.dump_no
        AND recorded.thread = ranges.range_thread
        AND recorded.launch_ns >= ranges.range_start_ns
),

told AS (
    SELECT
        *,
        coalesce(
            comm_op, CASE WHEN is_recorded THEN record_op END, nullif(range_name, 'nccl:coalesced'), name
        ) AS op_text
    FROM ranged
),

texts AS (
    SELECT op_text AS text FROM told
    UNION
    SELECT name AS text FROM told
),

ops AS (
    SELECT
        texts.text,
        coalesce(arg_min(comm_ops.op, comm_ops.place), 'other') AS op
    FROM texts
    LEFT JOIN (SELECT *, row_number() OVER () AS place FROM comm_ops) AS comm_ops
        ON regexp_matches(texts.text, comm_ops.pattern)
    GROUP BY texts.text
)

SELECT
    told.activity_no,
    told.dump_no,
    told.step,
    told.name,
    told.lane,
    told.thread,
    told.start_ns,
    told.end_ns,
    told.launch_ns AS sort_ns,
    told.is_linked,
    ops.op,
    names.op || coalesce(' ' || nullif(regexp_extract(told.name, '_(bf16|f8e4m3|f8e5m2|f16|f32|f64|[iu](?:8|32|64)|u?int(?:8|32|64)_t|half|float|double|bfloat16)(?:_|\(|$)', 1), ''), '') AS shape,
    coalesce(
        told.comm_dtype,
        CASE WHEN told.is_recorded THEN told.record_dtype END,
        nullif(regexp_extract(told.name, '_(bf16|f8e4m3|f8e5m2|f16|f32|f64|[iu](?:8|32|64)|u?int(?:8|32|64)_t|half|float|double|bfloat16)(?:_|\(|$)', 1), '')
    ) AS dtype,
    coalesce(told.comm_group, CASE WHEN told.is_recorded THEN told.record_group END) AS group_name,
    coalesce(
        told.comm_group_description, CASE WHEN told.is_recorded THEN told.record_description END
    ) AS group_description,
    coalesce(told.comm_group_ranks, CASE WHEN told.is_recorded THEN told.record_ranks END) AS group_ranks,
    coalesce(told.comm_group_size, CASE WHEN told.is_recorded THEN told.record_size END) AS group_size,
    coalesce(told.comm_seq, CASE WHEN told.is_recorded THEN told.record_seq END) AS seq,
    coalesce(told.comm_in_elements, CASE WHEN told.is_recorded THEN told.record_in END) AS in_elements,
    coalesce(told.comm_out_elements, CASE WHEN told.is_recorded THEN told.record_out END) AS out_elements,
    CASE ops.op
        WHEN 'send' THEN coalesce(told.comm_target_rank, CASE WHEN told.is_recorded THEN told.record_target END)
        WHEN 'recv' THEN coalesce(told.comm_source_rank, CASE WHEN told.is_recorded THEN told.record_source END)
    END AS peer
FROM told
JOIN ops ON told.op_text = ops.text
JOIN ops AS names ON told.name = names.text
