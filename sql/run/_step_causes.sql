-- One row per step, rank: what it spent more time on than the other ranks did.
--
-- step       BIGINT   Step.
-- rank       INTEGER  Rank.
-- compute_ns BIGINT   Compute beyond the median of the ranks that do the same work: of its pipeline stage, where stages are
--     known.
-- clock_ns   BIGINT   Of its compute, what a clock lower than the median of those ranks would explain; 0 where it is not lower by
--     3 %, or no telemetry says.
-- input_ns   BIGINT   Idle for want of input, likewise.
-- host_ns    BIGINT   Compute kept waiting behind the host or its launches, likewise: idle time, and comm that hides it.
-- sync_ns    BIGINT   Idle behind a synchronising call, likewise.
-- copy_ns    BIGINT   Exposed copies, likewise.
-- early_ns   BIGINT   How much later than their median it was at the start of the step; 0 but for a capture's first step.
--
-- Scope: steps
WITH windows AS (
    SELECT
        windows.rank,
        windows.step,
        windows.capture,
        coalesce(ranks.pp, 0) AS stage,
        windows.compute_ns,
        telemetry.sm_clock_hz,
        windows.idle_input_ns,
        windows.idle_host_ns + windows.idle_launch_ns + windows.idle_other_ns + windows.hidden_host_ns AS host_ns,
        windows.idle_sync_ns,
        windows.exposed_copy_ns,
        aligned_ns(windows.start_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS start_ns,
        coalesce(
            lag(windows.step) OVER (PARTITION BY windows.rank, windows.capture ORDER BY windows.step) IS NULL, TRUE
        ) AS is_first
    FROM rank_windows AS windows
    JOIN rank_clocks AS clocks ON windows.rank = clocks.rank
    JOIN ranks ON windows.rank = ranks.rank
    LEFT JOIN rank_telemetry AS telemetry ON windows.rank = telemetry.rank AND windows.step = telemetry.step
),

medians AS (
    SELECT
        step,
        stage,
        quantile_disc(compute_ns, 0.5) AS compute_ns,
        quantile_disc(sm_clock_hz, 0.5) AS sm_clock_hz,
        quantile_disc(idle_input_ns, 0.5) AS input_ns,
        quantile_disc(host_ns, 0.5) AS host_ns,
        quantile_disc(idle_sync_ns, 0.5) AS sync_ns,
        quantile_disc(exposed_copy_ns, 0.5) AS copy_ns,
        quantile_disc(start_ns, 0.5) AS start_ns
    FROM windows
    GROUP BY step, stage
)

SELECT
    windows.step,
    windows.rank,
    windows.compute_ns - medians.compute_ns AS compute_ns,
    CASE
        WHEN windows.sm_clock_hz <= medians.sm_clock_hz * (1 - params.slow_clock_ratio)
            THEN round(windows.compute_ns * (1 - windows.sm_clock_hz / medians.sm_clock_hz))::BIGINT
        ELSE 0
    END AS clock_ns,
    windows.idle_input_ns - medians.input_ns AS input_ns,
    windows.host_ns - medians.host_ns AS host_ns,
    windows.idle_sync_ns - medians.sync_ns AS sync_ns,
    windows.exposed_copy_ns - medians.copy_ns AS copy_ns,
    CASE WHEN windows.is_first THEN windows.start_ns - medians.start_ns ELSE 0 END AS early_ns
FROM windows
JOIN medians ON windows.step = medians.step AND windows.stage = medians.stage
CROSS JOIN params
