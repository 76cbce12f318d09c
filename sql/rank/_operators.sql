-- One row per call of an operator whose work a formula knows, short of those that only wrap others.
--
-- operator_no   BIGINT   Place among them.
-- dump_no       BIGINT   Which of the rank's dumps.
-- thread        BIGINT   Host thread.
-- start_ns      BIGINT   Start.
-- end_ns        BIGINT   End, not included.
-- kernel_class  VARCHAR  gemm, attention, convolution or other.
-- dtype         VARCHAR  Element type that it multiplies; NULL of class other, or unknown.
-- flops         BIGINT   FLOPs; NULL of class other.
-- n_bytes       BIGINT   Bytes of inputs and outputs; NULL unknown.
-- is_recomputed BOOLEAN  Whether backward does work of the forward pass once more here.
--
-- Scope: rank
-- How: an operator that counts FLOPs and holds another that does (linear holds addmm) is left to the inner one. It is
-- recomputed where it runs in a CheckpointFunctionBackward but in no other node of autograd, or in such a node under an
-- operator that autograd numbered, which it does only while a graph is recorded: backward's own products are not. Work that
-- a compiler fused into backward is not seen.
WITH names AS (
    SELECT
        name,
        contains(name, 'CheckpointFunctionBackward') AS is_checkpoint,
        NOT is_checkpoint
        AND regexp_matches(name, '^autograd::engine::evaluate_function: |^[A-Za-z_][A-Za-z0-9_]*Backward[0-9]*$') AS is_node
    FROM (SELECT DISTINCT name FROM events WHERE category = 'cpu_op')
),

worked AS (
    SELECT
        events.dump_no,
        events.thread,
        events.start_ns,
        events.start_ns + events.duration_ns AS end_ns,
        work.kernel_class,
        work.is_forward,
        work.dtype,
        work.flops,
        work.n_bytes
    FROM events
    JOIN _operator_work AS work ON events.name = work.name AND events.inputs = work.inputs
    WHERE events.category IN ('cpu_op', 'annotation')
        AND events.thread IS NOT NULL
        AND events.duration_ns BETWEEN 1 AND (SELECT longest_event_ns FROM params)
        AND (work.flops IS NOT NULL OR (work.kernel_class = 'other' AND work.n_bytes IS NOT NULL))
),

marked AS (
    SELECT
        *,
        FALSE AS is_checkpoint,
        FALSE AS is_node,
        FALSE AS is_numbered
    FROM worked
    UNION ALL BY NAME
    SELECT
        events.dump_no,
        events.thread,
        events.start_ns,
        events.start_ns + events.duration_ns AS end_ns,
        names.is_checkpoint,
        names.is_node,
        events.sequence_id IS NOT NULL AND NOT names.is_checkpoint AND NOT names.is_node AS is_numbered
    FROM events
    JOIN names ON events.name = names.name
    SEMI JOIN worked ON events.dump_no = worked.dump_no AND events.thread = worked.thread
    WHERE events.category = 'cpu_op'
        AND events.duration_ns BETWEEN 1 AND (SELECT longest_event_ns FROM params)
        AND (names.is_checkpoint OR names.is_node OR events.sequence_id IS NOT NULL)
),

within AS (
    SELECT
        *,
        coalesce(max(CASE WHEN is_checkpoint THEN end_ns END) OVER so_far > start_ns, FALSE) AS in_checkpoint,
        coalesce(max(CASE WHEN is_node THEN end_ns END) OVER so_far > start_ns, FALSE) AS in_node,
        coalesce(max(CASE WHEN is_numbered THEN end_ns END) OVER so_far > start_ns, FALSE) AS in_numbered
    FROM marked
    WINDOW so_far AS (
        PARTITION BY dump_no, thread ORDER BY start_ns, end_ns DESC, kernel_class NULLS FIRST ROWS UNBOUNDED PRECEDING
    )
),

nested AS (
    SELECT
        * EXCLUDE (is_checkpoint, is_node, is_numbered),
        lead((start_ns + end_ns) // 2) OVER (
            PARTITION BY dump_no, thread, flops IS NOT NULL ORDER BY start_ns, end_ns DESC, flops, n_bytes
        ) < end_ns AS holds_another
    FROM within
    WHERE kernel_class IS NOT NULL
)

SELECT
    row_number() OVER (ORDER BY dump_no, thread, start_ns, end_ns DESC, flops, n_bytes) - 1 AS operator_no,
    dump_no,
    thread,
    start_ns,
    end_ns,
    kernel_class,
    dtype,
    flops,
    n_bytes,
    is_forward AND ((in_checkpoint AND NOT in_node) OR (in_node AND in_numbered)) AS is_recomputed
FROM nested
WHERE kernel_class = 'other' OR NOT coalesce(holds_another, FALSE)
