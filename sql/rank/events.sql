-- One row per event of a dump: as recorded, with its step, its kind and its launch beside it.
--
-- category               VARCHAR   kernel, memcpy, memset, sync, runtime, driver, cpu_op, annotation, gpu_annotation, step (a
--     step marker; named (window) where the whole dump stands in for one), trace, overhead, or the dump's own word.
-- kind                   VARCHAR   compute, comm or copy: what occupies a lane; NULL for all else.
-- name                   VARCHAR   As the dump spells it.
-- step                   BIGINT    Device work: the step that launched it. Host work: the step it starts in. Else NULL.
-- start_ns               BIGINT    On the host's own clock, unaligned.
-- duration_ns            BIGINT    NULL where the event did not finish.
-- device                 INTEGER   Device index; NULL on the host.
-- stream                 BIGINT    Device stream.
-- process                BIGINT    Process id as the dump has it.
-- thread                 BIGINT    Thread id as the dump has it.
-- label                  VARCHAR   The process or thread where the dump gives text instead of a number.
-- launch_ns              BIGINT    Device work: start of the call that launched it; NULL where the dump lacks it.
-- launch_end_ns          BIGINT    Device work: end of that call.
-- launch_thread          BIGINT    Device work: thread of that call.
-- comm_evidence          VARCHAR   comm only: metadata, operator (launched under a collective record) or name.
-- correlation_id         BIGINT    Joins a call to the device work it launched.
-- external_id            BIGINT    Joins a call or device work to its operator.
-- sequence_id            BIGINT    Autograd sequence number.
-- forward_thread         BIGINT    Autograd: the forward operator's thread, as the dump numbers it.
-- context                BIGINT    Device context.
-- n_bytes                BIGINT    Bytes of a copy or a fill.
-- grid                   INTEGER[]  Blocks by x, y, z.
-- block                  INTEGER[]  Threads of a block by x, y, z.
-- comm_op                VARCHAR   Collective name from metadata.
-- comm_dtype             VARCHAR   Element type.
-- comm_in_elements       BIGINT    Elements a rank puts in.
-- comm_out_elements      BIGINT    Elements a rank gets out.
-- comm_group             VARCHAR   Process group name.
-- comm_group_description VARCHAR   Process group description.
-- comm_group_ranks       VARCHAR   Process group members as the dump prints them; may end in "...".
-- comm_group_size        INTEGER   Process group size.
-- comm_seq               BIGINT    Sequence number in the group.
-- wait_stream            BIGINT    sync: stream whose event is waited for.
-- wait_event_id          BIGINT    sync: event waited for.
-- wait_correlation_id    BIGINT    sync: cudaEventRecord call of that event.
-- graph_node_id          BIGINT    Node of a CUDA graph.
-- comm_source_rank       INTEGER   Receive: rank that sends.
-- comm_target_rank       INTEGER   Send: rank that receives.
-- inputs                 VARCHAR   An operator's inputs: their shapes, types and, of some, values, as
--     [[8192,4096],[4096,1536]]|c10::Half;c10::Half|; NULL where the dump lacks shapes or they are too long to keep.
-- row_id                 BIGINT    Place in the dump, from 0, among the events stored; NULL for (window).
--
-- Scope: dump
-- How: device work belongs to the step that launched it, whatever its own time: correlation id, then the call, then the
-- host step that holds the call's start. Host rows belong to the step they start in. Times gain the dump's base here.
-- What is computed is narrow and kept in the order of the file, so it is laid beside the wide rows without a join; a
-- row laid beside another's is an error.
WITH linked AS (
    SELECT
        CASE WHEN links.is_marker THEN 'step' ELSE raw.category END AS category,
        links.kind,
        raw.name,
        links.step,
        CASE
            WHEN raw.row_id <> links.row_id THEN error('rows out of order while linking')
            ELSE raw.start_ns + context.base_ns
        END AS start_ns,
        raw.duration_ns,
        raw.device,
        raw.stream,
        raw.process,
        raw.thread,
        raw.label,
        links.launch_ns + context.base_ns AS launch_ns,
        links.launch_end_ns + context.base_ns AS launch_end_ns,
        links.launch_thread,
        links.comm_evidence,
        raw.correlation_id,
        raw.external_id,
        raw.sequence_id,
        raw.forward_thread,
        raw.context,
        raw.n_bytes,
        raw.grid,
        raw.block,
        raw.comm_op,
        raw.comm_dtype,
        raw.comm_in_elements,
        raw.comm_out_elements,
        raw.comm_group,
        raw.comm_group_description,
        raw.comm_group_ranks,
        raw.comm_group_size,
        raw.comm_seq,
        raw.wait_stream,
        raw.wait_event_id,
        raw.wait_correlation_id,
        raw.graph_node_id,
        raw.comm_source_rank,
        raw.comm_target_rank,
        raw.inputs,
        raw.row_id
    FROM raw
    POSITIONAL JOIN _dump_links AS links
    CROSS JOIN context
),

whole AS (
    SELECT
        'step' AS category,
        '(window)' AS name,
        _dump_steps.step,
        _dump_steps.start_ns + context.base_ns AS start_ns,
        _dump_steps.end_ns - _dump_steps.start_ns AS duration_ns
    FROM _dump_steps
    CROSS JOIN context
    WHERE _dump_steps.is_window
)

FROM linked
UNION ALL BY NAME
FROM whole
