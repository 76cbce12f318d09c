-- One row per step and kernel name, per step and class, and per step: work, and how long each of its clocks would take.
--
-- grain            VARCHAR  kernel, class or step: what the row is of.
-- step             BIGINT   Step that launched the calls; NULL where their launch is in no step or not in the dump.
-- name             VARCHAR  Of a kernel, its name; else NULL, as the next two.
-- kind             VARCHAR  Of a kernel, compute, comm or copy.
-- comm_evidence    VARCHAR  Of a kernel that is comm, why.
-- kernel_class     VARCHAR  Of a class, gemm, attention, convolution, other, comm or copy; else NULL.
-- n_calls          BIGINT   Calls.
-- n_launches       DOUBLE   Launch calls: one for all activities of a graph, in equal parts.
-- total_ns         BIGINT   Sum of the calls' durations.
-- exposed_ns       BIGINT   Sum of what each alone explains, as in _exposed.
-- compute_total_ns BIGINT   Of total_ns, compute.
-- counted_ns       BIGINT   Of that, calls whose FLOPs are known, of class other whose bytes are.
-- product_ns       BIGINT   Of that, calls with FLOPs: what the rate of FLOPs is over.
-- sized_ns         BIGINT   Of all, calls whose bytes are known: what the rate of bytes is over.
-- flops            BIGINT   FLOPs; NULL where none are known.
-- recomputed_flops BIGINT   Of them, those that backward did once more.
-- n_bytes          BIGINT   Bytes; NULL where none are known.
-- floor_ns         DOUBLE   Of the calls with FLOPs, the longer of FLOPs at peak and bytes at memory bandwidth, kernel by kernel:
--     the roofline's time. NULL where a peak or a size is missing.
-- compute_ns       BIGINT   FLOPs at the device's peak of their type; NULL without, or with reasons.
-- memory_ns        BIGINT   Bytes of compute and copies at the bandwidth of the device's memory; NULL likewise.
-- comm_ns          BIGINT   Bytes of comm at the bandwidth of the device's link; NULL likewise.
-- overhead_ns      BIGINT   Launch calls at what one costs.
-- clock            VARCHAR  The longest of the four: compute, memory, comm or overhead; NULL with reasons, unless it leads by more
--     than what is unknown took.
-- overlapped_ns    BIGINT   It: how long the work takes where the other three hide behind it. NULL with reasons.
-- serial_ns        BIGINT   Their sum: how long it takes where nothing overlaps. NULL with reasons.
-- reasons          VARCHAR[]  Why the clocks are not known; empty where they are.
--
-- Scope: rank
-- How: no clock of a call is longer than the call, so one whose shapes are not known adds at most its duration to each. A clock
-- of params.largest_work or longer is not believed.
WITH device AS (
    SELECT DISTINCT
        device,
        hbm_bytes_per_s,
        link_bytes_per_s
    FROM _hardware
),

calls AS (
    SELECT
        step,
        name,
        kind,
        comm_evidence,
        kernel_class,
        dtype,
        count(*) AS n_calls,
        sum(n_launches) AS n_launches,
        sum(duration_ns) AS total_ns,
        sum(exposed_ns) AS exposed_ns,
        sum(CASE WHEN is_counted THEN duration_ns END) AS counted_ns,
        sum(CASE WHEN is_sized THEN duration_ns END) AS sized_ns,
        sum(flops) AS flops,
        sum(recomputed_flops) AS recomputed_flops,
        sum(n_bytes) AS n_bytes,
        bool_or(flops IS NOT NULL AND n_bytes IS NULL) AS lacks_bytes
    FROM _activity_work
    GROUP BY step, name, kind, comm_evidence, kernel_class, dtype
),

priced AS (
    SELECT
        calls.*,
        peaks.peak_flops,
        calls.flops / peaks.peak_flops * 1e9 AS compute_ns,
        CASE WHEN calls.kind <> 'comm' THEN calls.n_bytes / device.hbm_bytes_per_s * 1e9 END AS memory_ns,
        CASE WHEN calls.kind = 'comm' THEN calls.n_bytes / device.link_bytes_per_s * 1e9 END AS comm_ns
    FROM calls
    LEFT JOIN _hardware AS peaks ON calls.dtype = peaks.dtype
    CROSS JOIN device
),

summed AS (
    SELECT
        CASE WHEN grouping(kind) = 0 THEN 'kernel' WHEN grouping(kernel_class) = 0 THEN 'class' ELSE 'step' END AS grain,
        step,
        name,
        kind,
        comm_evidence,
        kernel_class,
        sum(n_calls)::BIGINT AS n_calls,
        round(sum(n_launches), 3) AS n_launches,
        sum(total_ns)::BIGINT AS total_ns,
        sum(exposed_ns)::BIGINT AS exposed_ns,
        sum(CASE WHEN kernel_class NOT IN ('comm', 'copy') THEN total_ns ELSE 0 END)::BIGINT AS compute_total_ns,
        coalesce(sum(counted_ns), 0)::BIGINT AS counted_ns,
        coalesce(sum(CASE WHEN kernel_class <> 'other' THEN counted_ns END), 0)::BIGINT AS product_ns,
        coalesce(sum(sized_ns), 0)::BIGINT AS sized_ns,
        coalesce(sum(CASE WHEN kernel_class <> 'comm' THEN sized_ns END), 0)::BIGINT AS local_sized_ns,
        sum(CASE WHEN kernel_class = 'comm' THEN total_ns ELSE 0 END)::BIGINT AS comm_total_ns,
        TRY_CAST(sum(flops) AS BIGINT) AS flops,
        TRY_CAST(sum(recomputed_flops) AS BIGINT) AS recomputed_flops,
        TRY_CAST(sum(n_bytes) AS BIGINT) AS n_bytes,
        sum(greatest(compute_ns, memory_ns)) FILTER (flops IS NOT NULL) AS floor_ns,
        coalesce(bool_or(lacks_bytes OR (flops IS NOT NULL AND (compute_ns IS NULL OR memory_ns IS NULL))), FALSE) AS lacks_floor,
        sum(compute_ns) AS compute_ns,
        sum(memory_ns) AS memory_ns,
        sum(comm_ns) AS comm_ns,
        coalesce(bool_or(kind <> 'comm' AND n_bytes IS NOT NULL AND memory_ns IS NULL), FALSE) AS lacks_memory,
        coalesce(bool_or(kind = 'comm' AND n_bytes IS NOT NULL AND comm_ns IS NULL), FALSE) AS lacks_link,
        coalesce(bool_or(flops IS NOT NULL AND dtype IS NULL), FALSE) AS lacks_dtype,
        string_agg(DISTINCT dtype, ', ' ORDER BY dtype) FILTER (flops IS NOT NULL AND peak_flops IS NULL) AS unknown_peaks
    FROM priced
    GROUP BY GROUPING SETS ((step, name, kind, comm_evidence), (step, kernel_class), (step))
),

judged AS (
    SELECT
        summed.*,
        device.device,
        CASE
            WHEN counted_ns < params.shaped_ratio * compute_total_ns
                THEN format('{:.0f} % of compute time has shapes', 100 * counted_ns / compute_total_ns)
        END AS shapes_reason,
        CASE
            WHEN device.device IS NULL AND (flops IS NOT NULL OR lacks_memory OR lacks_link) THEN 'no dump names the device'
            WHEN unknown_peaks IS NOT NULL THEN format('no {} peak of {} is known', unknown_peaks, device.device)
            WHEN lacks_dtype THEN 'the element type of a product is unknown'
            WHEN compute_ns > params.peak_slack_ratio * product_ns
                THEN format('faster than {} can: its shapes or the device are wrong', device.device)
        END AS peak_reason,
        CASE
            WHEN local_sized_ns < params.shaped_ratio * (total_ns - comm_total_ns) AND shapes_reason IS NULL
                THEN format('{:.0f} % of the time has sizes', 100 * local_sized_ns / (total_ns - comm_total_ns))
            WHEN lacks_memory AND device.device IS NOT NULL THEN format('memory bandwidth of {} is not known', device.device)
            WHEN memory_ns >= params.largest_work THEN 'so long in memory is not believed: bandwidth or sizes are wrong'
        END AS memory_reason,
        CASE
            WHEN sized_ns - local_sized_ns < params.shaped_ratio * comm_total_ns THEN 'sizes of collectives are not recorded'
            WHEN lacks_link AND device.device IS NOT NULL THEN format('link bandwidth of {} is not known', device.device)
            WHEN comm_ns >= params.largest_work THEN 'so long on the link is not believed: bandwidth or sizes are wrong'
        END AS comm_reason,
        round(n_launches * coalesce(launch_cost.launch_ns, 0))::BIGINT AS overhead_ns
    FROM summed
    CROSS JOIN device
    CROSS JOIN _launch_cost AS launch_cost
    CROSS JOIN params
),

shown AS (
    SELECT
        * EXCLUDE (compute_ns, memory_ns, comm_ns, floor_ns),
        CASE WHEN NOT lacks_floor THEN floor_ns END AS floor_ns,
        CASE WHEN shapes_reason IS NULL AND peak_reason IS NULL THEN round(compute_ns)::BIGINT END AS compute_ns,
        CASE WHEN shapes_reason IS NULL AND memory_reason IS NULL THEN round(memory_ns)::BIGINT END AS memory_ns,
        CASE WHEN comm_reason IS NULL THEN round(comm_ns)::BIGINT END AS comm_ns,
        list_filter([shapes_reason, peak_reason, memory_reason, comm_reason], lambda reason: reason IS NOT NULL) AS reasons,
        peak_reason IS NULL
            AND NOT lacks_memory
            AND NOT lacks_link
            AND coalesce(greatest(memory_ns, comm_ns) < (SELECT largest_work FROM params), TRUE) AS is_priced,
        coalesce(compute_ns, 0) AS least_compute_ns,
        coalesce(memory_ns, 0) AS least_memory_ns,
        coalesce(comm_ns, 0) AS least_comm_ns,
        least_compute_ns + compute_total_ns - counted_ns AS most_compute_ns,
        least_memory_ns + total_ns - comm_total_ns - local_sized_ns AS most_memory_ns,
        least_comm_ns + comm_total_ns - (sized_ns - local_sized_ns) AS most_comm_ns
    FROM judged
),

longest AS (
    SELECT
        *,
        greatest(compute_ns, memory_ns, comm_ns, overhead_ns) AS overlapped_ns,
        coalesce(compute_ns, 0) + coalesce(memory_ns, 0) + coalesce(comm_ns, 0) + overhead_ns AS serial_ns
    FROM shown
)

SELECT
    grain,
    step,
    name,
    kind,
    comm_evidence,
    kernel_class,
    n_calls,
    n_launches,
    total_ns,
    exposed_ns,
    compute_total_ns,
    counted_ns,
    product_ns,
    sized_ns,
    flops,
    recomputed_flops,
    n_bytes,
    floor_ns,
    compute_ns,
    memory_ns,
    comm_ns,
    overhead_ns,
    CASE
        WHEN len(reasons) = 0 AND overlapped_ns > 0
            THEN
                CASE overlapped_ns
                    WHEN compute_ns THEN 'compute'
                    WHEN memory_ns THEN 'memory'
                    WHEN comm_ns THEN 'comm'
                    ELSE 'overhead'
                END
        WHEN NOT is_priced THEN NULL
        WHEN least_compute_ns > greatest(most_memory_ns, most_comm_ns, overhead_ns) THEN 'compute'
        WHEN least_memory_ns > greatest(most_compute_ns, most_comm_ns, overhead_ns) THEN 'memory'
        WHEN least_comm_ns > greatest(most_compute_ns, most_memory_ns, overhead_ns) THEN 'comm'
        WHEN overhead_ns > greatest(most_compute_ns, most_memory_ns, most_comm_ns) THEN 'overhead'
    END AS clock,
    CASE WHEN len(reasons) = 0 THEN overlapped_ns END AS overlapped_ns,
    CASE WHEN len(reasons) = 0 THEN serial_ns END AS serial_ns,
    reasons
FROM longest
