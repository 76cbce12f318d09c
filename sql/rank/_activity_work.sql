-- One row per activity of a lane: its class, and the work that it did of the operator that launched it.
--
-- step             BIGINT   Step that launched it; NULL where its launch is in no step or not in the dump.
-- name             VARCHAR  Name.
-- kind             VARCHAR  compute, comm or copy.
-- comm_evidence    VARCHAR  Why it is comm; NULL for other kinds.
-- duration_ns      BIGINT   Duration.
-- exposed_ns       BIGINT   As in _exposed.
-- n_launches       DOUBLE   Launch calls: 1, or an equal part of the one that launched a graph of activities; 0 without.
-- kernel_class     VARCHAR  gemm, attention, convolution, other (compute), comm or copy.
-- dtype            VARCHAR  Element type that it multiplies: as devices spell it; NULL unknown.
-- is_counted       BOOLEAN  Compute: whether its operator's FLOPs are known, of class other its bytes.
-- is_sized         BOOLEAN  Whether its bytes are known.
-- flops            BIGINT   FLOPs; NULL where nothing says them, or another activity has its operator's.
-- recomputed_flops BIGINT   Of them, those that backward did once more.
-- n_bytes          BIGINT   Compute: bytes of its operator's inputs and outputs; copies: bytes moved; comm: bytes over a
--     rank's link, by bus bandwidth's factor.
--
-- Scope: rank
-- How: an operator's work is counted once, for the longest of its activities. An activity belongs to the operator with FLOPs
-- that launched it, else to the latest with bytes that did; without a device to the outermost operator that holds it.
-- Single-precision products whose kernel's name says so run in TF32.
WITH compute AS (
    SELECT
        row_number() OVER () - 1 AS activity_no,
        dump_no,
        step,
        name,
        kind,
        comm_evidence,
        duration_ns,
        n_bytes,
        category IN ('kernel', 'memcpy', 'memset') AS is_device,
        CASE WHEN is_device THEN launch_ns ELSE start_ns END AS launch_ns,
        CASE WHEN is_device THEN launch_thread ELSE thread END AS launch_thread,
        start_ns + duration_ns AS end_ns
    FROM events
    WHERE kind IS NOT NULL
),

graphs AS (
    SELECT
        compute.dump_no,
        compute.launch_thread,
        compute.launch_ns,
        1 / count(*) AS part
    FROM compute
    SEMI JOIN events AS calls
        ON compute.dump_no = calls.dump_no
        AND compute.launch_thread = calls.thread
        AND compute.launch_ns = calls.start_ns
        AND calls.category IN ('runtime', 'driver')
        AND contains(calls.name, 'GraphLaunch')
    GROUP BY compute.dump_no, compute.launch_thread, compute.launch_ns
),

products AS (
    SELECT
        operator_no,
        dump_no AS product_dump,
        thread AS product_thread,
        start_ns AS product_start_ns,
        end_ns AS product_end_ns
    FROM _operators
    WHERE flops IS NOT NULL
),

movers AS (
    SELECT
        operator_no,
        dump_no AS mover_dump,
        thread AS mover_thread,
        start_ns AS mover_start_ns,
        end_ns AS mover_end_ns
    FROM _operators
    WHERE flops IS NULL
),

launched AS (
    SELECT
        compute.activity_no,
        compute.duration_ns,
        CASE
            WHEN compute.launch_ns < products.product_end_ns THEN products.operator_no
            WHEN compute.launch_ns < movers.mover_end_ns THEN movers.operator_no
        END AS operator_no
    FROM compute
    ASOF LEFT JOIN products
        ON compute.dump_no = products.product_dump
        AND compute.launch_thread = products.product_thread
        AND compute.launch_ns >= products.product_start_ns
    ASOF LEFT JOIN movers
        ON compute.dump_no = movers.mover_dump
        AND compute.launch_thread = movers.mover_thread
        AND compute.launch_ns >= movers.mover_start_ns
    WHERE compute.is_device AND compute.kind = 'compute'
),

hosts AS (
    SELECT
        activity_no,
        duration_ns,
        dump_no AS host_dump,
        launch_thread AS host_thread,
        launch_ns AS host_start_ns,
        end_ns AS host_end_ns
    FROM compute
    WHERE NOT is_device AND kind = 'compute'
),

held AS (
    SELECT
        hosts.activity_no,
        hosts.duration_ns,
        operators.operator_no
    FROM _operators AS operators
    ASOF JOIN hosts
        ON operators.dump_no = hosts.host_dump
        AND operators.thread = hosts.host_thread
        AND operators.start_ns >= hosts.host_start_ns
    WHERE operators.start_ns < hosts.host_end_ns AND (operators.flops IS NOT NULL OR operators.end_ns = hosts.host_end_ns)
),

ranked AS (
    SELECT
        activity_no,
        operator_no,
        row_number() OVER (PARTITION BY operator_no ORDER BY duration_ns DESC, activity_no) = 1 AS is_longest
    FROM (
        FROM launched
        WHERE operator_no IS NOT NULL
        UNION ALL BY NAME
        FROM held
    )
),

done AS (
    SELECT
        ranked.activity_no,
        arg_min(operators.kernel_class, (operators.flops IS NULL, operators.operator_no)) AS kernel_class,
        arg_min(operators.dtype, (operators.flops IS NULL, operators.operator_no)) AS dtype,
        sum(operators.flops) FILTER (ranked.is_longest) AS flops,
        sum(operators.flops) FILTER (ranked.is_longest AND operators.is_recomputed) AS recomputed_flops,
        sum(operators.n_bytes) FILTER (ranked.is_longest) AS n_bytes,
        bool_and(operators.n_bytes IS NOT NULL) AS is_sized
    FROM ranked
    JOIN _operators AS operators ON ranked.operator_no = operators.operator_no
    GROUP BY ranked.activity_no
),

classes AS (
    SELECT
        names.name,
        arg_min(kernel_classes.class, kernel_classes.place) AS kernel_class
    FROM (SELECT DISTINCT name FROM compute WHERE kind = 'compute' AND is_device) AS names
    JOIN (SELECT *, row_number() OVER () AS place FROM kernel_classes) AS kernel_classes
        ON regexp_matches(names.name, kernel_classes.pattern)
    GROUP BY names.name
),

sent AS (
    SELECT
        activity_no,
        round(
            n_bytes * CASE op
                WHEN 'all_reduce' THEN 2 * (group_size - 1) / group_size
                WHEN 'all_gather' THEN (group_size - 1) / group_size
                WHEN 'reduce_scatter' THEN (group_size - 1) / group_size
                WHEN 'all_to_all' THEN (group_size - 1) / group_size
                WHEN 'broadcast' THEN 1
                WHEN 'reduce' THEN 1
                WHEN 'send_recv' THEN 1
                WHEN 'send' THEN 1
                WHEN 'recv' THEN 1
            END
        )::BIGINT AS n_bytes
    FROM rank_collectives
)

SELECT
    compute.step,
    compute.name,
    compute.kind,
    compute.comm_evidence,
    compute.duration_ns,
    exposed.exposed_ns,
    CASE WHEN compute.is_device AND compute.launch_ns IS NOT NULL THEN coalesce(graphs.part, 1) ELSE 0 END AS n_launches,
    CASE
        WHEN compute.kind <> 'compute' THEN compute.kind
        ELSE coalesce(done.kernel_class, classes.kernel_class, 'other')
    END AS kernel_class,
    CASE
        WHEN done.dtype = 'fp32' AND regexp_matches(compute.name, '(?i)tf32|s1688|s884tf') THEN 'tf32'
        ELSE done.dtype
    END AS dtype,
    done.kernel_class IS NOT NULL AS is_counted,
    CASE compute.kind
        WHEN 'compute' THEN coalesce(done.is_sized, FALSE)
        WHEN 'comm' THEN sent.n_bytes IS NOT NULL
        ELSE compute.n_bytes IS NOT NULL
    END AS is_sized,
    TRY_CAST(done.flops AS BIGINT) AS flops,
    TRY_CAST(done.recomputed_flops AS BIGINT) AS recomputed_flops,
    TRY_CAST(CASE compute.kind WHEN 'compute' THEN done.n_bytes WHEN 'comm' THEN sent.n_bytes ELSE compute.n_bytes END AS BIGINT)
        AS n_bytes
FROM compute
JOIN _exposed AS exposed ON compute.activity_no = exposed.activity_no
LEFT JOIN done ON compute.activity_no = done.activity_no
LEFT JOIN classes ON compute.name = classes.name
LEFT JOIN sent ON compute.activity_no = sent.activity_no
LEFT JOIN graphs
    ON compute.dump_no = graphs.dump_no
    AND compute.launch_thread = graphs.launch_thread
    AND compute.launch_ns = graphs.launch_ns
