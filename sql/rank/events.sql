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
--
-- Scope: dump
-- How: device work belongs to the step that launched it, whatever its own time: correlation id, then the call, then the
-- host step that holds the call's start. Host rows belong to the step they start in. Times gain the dump's base here.
WITH rows AS (
    SELECT
        raw.*,
        CASE WHEN raw.start_ns < markers.end_ns THEN markers.step END AS host_step,
        raw.category IN ('annotation', 'cpu_op') AND regexp_matches(raw.name, context.step_pattern) AS is_marker,
        context.base_ns
    FROM raw
    CROSS JOIN context
    ASOF LEFT JOIN _dump_steps AS markers ON raw.start_ns >= markers.start_ns
),

linked AS (
    SELECT
        CASE WHEN rows.is_marker THEN 'step' ELSE rows.category::VARCHAR END AS category,
        coalesce(device.kind, host.kind) AS kind,
        rows.name::VARCHAR AS name,
        CASE
            WHEN rows.category IN ('kernel', 'memcpy', 'memset') THEN device.step
            WHEN rows.category = 'sync' THEN calls.step
            WHEN rows.category IN ('gpu_annotation', 'trace') THEN NULL
            ELSE rows.host_step
        END AS step,
        rows.start_ns + rows.base_ns AS start_ns,
        rows.duration_ns,
        rows.device,
        rows.stream,
        rows.process,
        rows.thread,
        rows.label::VARCHAR AS label,
        coalesce(device.launch_ns, calls.start_ns) + rows.base_ns AS launch_ns,
        coalesce(device.launch_end_ns, calls.end_ns) + rows.base_ns AS launch_end_ns,
        coalesce(device.launch_thread, calls.thread) AS launch_thread,
        coalesce(CASE WHEN device.kind = 'comm' THEN device.comm_evidence END, host.comm_evidence) AS comm_evidence,
        rows.correlation_id,
        rows.external_id,
        rows.sequence_id,
        rows.forward_thread,
        rows.context,
        rows.n_bytes,
        rows.grid,
        rows.block,
        rows.comm_op::VARCHAR AS comm_op,
        rows.comm_dtype::VARCHAR AS comm_dtype,
        rows.comm_in_elements,
        rows.comm_out_elements,
        rows.comm_group::VARCHAR AS comm_group,
        rows.comm_group_description::VARCHAR AS comm_group_description,
        rows.comm_group_ranks::VARCHAR AS comm_group_ranks,
        rows.comm_group_size,
        rows.comm_seq,
        rows.wait_stream,
        rows.wait_event_id,
        rows.wait_correlation_id,
        rows.graph_node_id
    FROM rows
    LEFT JOIN _dump_device_rows AS device ON rows.row_id = device.row_id
    LEFT JOIN _dump_host_rows AS host ON rows.row_id = host.row_id
    LEFT JOIN _dump_calls AS calls ON rows.category = 'sync' AND rows.correlation_id = calls.correlation_id
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
