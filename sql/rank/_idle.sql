-- One row per edge: how much idle time of each cause lies before it, counted from the first edge.
--
-- edge_ns       BIGINT  The instant.
-- input_ns      BIGINT  The launching thread waited for input.
-- sync_ns       BIGINT  The launching thread was in a blocking call.
-- host_ns       BIGINT  The host had not launched the next activity, for another reason.
-- launch_ns     BIGINT  Launched, not begun.
-- turnaround_ns BIGINT  Between activities already launched: the device's own pace.
-- other_ns      BIGINT  The next activity has no launch in the dump, or there is none.
--
-- Scope: rank
WITH host_gaps AS (
    SELECT
        row_number() OVER () AS gap_no,
        *
    FROM _gaps
    WHERE host_end_ns > start_ns
),

at_start AS (
    SELECT
        gaps.*,
        coalesce(waits.input_sum_ns - greatest(0, coalesce(waits.input_end_ns - gaps.start_ns, 0)), 0) AS input_start_ns,
        coalesce(waits.waits_sum_ns - greatest(0, waits.waits_end_ns - gaps.start_ns), 0) AS waits_start_ns
    FROM host_gaps AS gaps
    ASOF LEFT JOIN _host_waits AS waits
        ON gaps.launch_thread = waits.thread AND gaps.start_ns >= waits.start_ns
),

at_end AS (
    SELECT
        gaps.edge_no,
        gaps.host_end_ns - gaps.start_ns AS host_ns,
        coalesce(waits.input_sum_ns - greatest(0, coalesce(waits.input_end_ns - gaps.host_end_ns, 0)), 0)
        - gaps.input_start_ns AS input_ns,
        coalesce(waits.waits_sum_ns - greatest(0, waits.waits_end_ns - gaps.host_end_ns), 0)
        - gaps.waits_start_ns AS waits_ns
    FROM at_start AS gaps
    ASOF LEFT JOIN _host_waits AS waits
        ON gaps.launch_thread = waits.thread AND gaps.host_end_ns >= waits.start_ns
),

parts AS (
    SELECT
        edge_no,
        input_ns,
        waits_ns - input_ns AS sync_ns,
        host_ns - waits_ns AS host_ns,
        0 AS launch_ns,
        0 AS turnaround_ns,
        0 AS other_ns
    FROM at_end
    UNION ALL
    SELECT
        edge_no,
        0 AS input_ns,
        0 AS sync_ns,
        0 AS host_ns,
        CASE WHEN device_cause = 'launch' THEN end_ns - host_end_ns ELSE 0 END AS launch_ns,
        CASE WHEN device_cause = 'turnaround' THEN end_ns - host_end_ns ELSE 0 END AS turnaround_ns,
        CASE WHEN device_cause = 'other' THEN end_ns - host_end_ns ELSE 0 END AS other_ns
    FROM _gaps
    WHERE end_ns > host_end_ns
),

stretches AS (
    SELECT
        edge_no + 1 AS next_edge_no,
        sum(input_ns) AS input_ns,
        sum(sync_ns) AS sync_ns,
        sum(host_ns) AS host_ns,
        sum(launch_ns) AS launch_ns,
        sum(turnaround_ns) AS turnaround_ns,
        sum(other_ns) AS other_ns
    FROM parts
    GROUP BY next_edge_no
)

SELECT
    _edges.edge_ns,
    coalesce(sum(stretches.input_ns) OVER so_far, 0)::BIGINT AS input_ns,
    coalesce(sum(stretches.sync_ns) OVER so_far, 0)::BIGINT AS sync_ns,
    coalesce(sum(stretches.host_ns) OVER so_far, 0)::BIGINT AS host_ns,
    coalesce(sum(stretches.launch_ns) OVER so_far, 0)::BIGINT AS launch_ns,
    coalesce(sum(stretches.turnaround_ns) OVER so_far, 0)::BIGINT AS turnaround_ns,
    coalesce(sum(stretches.other_ns) OVER so_far, 0)::BIGINT AS other_ns
FROM _edges
LEFT JOIN stretches ON _edges.edge_no = stretches.next_edge_no
WINDOW so_far AS (ORDER BY _edges.edge_no ROWS UNBOUNDED PRECEDING)
