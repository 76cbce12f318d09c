-- One row per step, part of its devices' time: where the time went that was not model FLOPs at peak.
--
-- step        BIGINT   Number of the step.
-- place       INTEGER  Order of the parts, from 1.
-- part        VARCHAR  model, recompute and kernel_inefficiency (together compute); compute where run.toml does not give the
--     model; bubble, wait, transfer and unsplit_comm (together exposed comm); copies; idle_input, idle_sync, idle_host,
--     idle_launch, idle_turnaround; unknown; skew.
-- device_ns   BIGINT   Device time. The parts of a step add up to recorded ranks x step time.
-- share_ratio DOUBLE   Of that product; NULL where the step has no length.
-- reason      VARCHAR  What the part cannot say; NULL where there is nothing.
--
-- Scope: mfu
-- Order: step, place
-- How: first match wins in each rank's window, as in its breakdown. Skew is what the windows lack to the step time, and
-- negative where they exceed it. The model's part is MFU x devices x step time, of the ranks recorded.
WITH waits AS (
    SELECT
        step,
        sum(bubble_ns)::BIGINT AS bubble_ns,
        sum(wait_ns)::BIGINT AS wait_ns,
        sum(transfer_ns)::BIGINT AS transfer_ns,
        sum(unsplit_ns)::BIGINT AS unsplit_ns
    FROM rank_step_waits
    GROUP BY step
),

windows AS (
    SELECT
        step,
        count(*) AS n_ranks,
        sum(duration_ns)::BIGINT AS duration_ns,
        sum(compute_ns)::BIGINT AS compute_ns,
        sum(exposed_copy_ns)::BIGINT AS copies_ns,
        sum(idle_input_ns)::BIGINT AS idle_input_ns,
        sum(idle_sync_ns)::BIGINT AS idle_sync_ns,
        sum(idle_host_ns)::BIGINT AS idle_host_ns,
        sum(idle_launch_ns)::BIGINT AS idle_launch_ns,
        sum(idle_turnaround_ns)::BIGINT AS idle_turnaround_ns,
        sum(idle_other_ns)::BIGINT AS idle_other_ns
    FROM rank_steps
    GROUP BY step
),

terms AS (
    SELECT
        windows.*,
        waits.bubble_ns,
        waits.wait_ns,
        waits.transfer_ns,
        waits.unsplit_ns,
        windows.n_ranks * steps.duration_ns AS whole_ns,
        mfu.reason,
        round(mfu.model_flops / mfu.n_devices * windows.n_ranks / mfu.peak_flops * 1e9) AS model_ns,
        round(recomputed.recomputed_flops / mfu.peak_flops * 1e9) AS recompute_ns
    FROM windows
    JOIN steps ON windows.step = steps.step
    JOIN waits ON windows.step = waits.step
    JOIN step_mfu AS mfu ON windows.step = mfu.step
    LEFT JOIN _recomputed AS recomputed ON windows.step = recomputed.step
    WHERE steps.duration_ns IS NOT NULL
),

judged AS (
    SELECT
        *,
        reason IS NULL AND model_ns + coalesce(recompute_ns, 0) <= compute_ns AS is_split,
        CASE
            WHEN reason IS NULL
                THEN
                    'the FLOPs counted would take longer at peak than the devices computed: attention that a mask skips is'
                    || ' counted in full, or run.toml is wrong'
            ELSE 'no MFU: ' || reason
        END AS whole_reason
    FROM terms
),

listed AS (
    SELECT
        step,
        whole_ns,
        unnest(
            [
                {
                    'place': 1,
                    'part': CASE WHEN is_split THEN 'model' END,
                    'device_ns': CASE WHEN is_split THEN model_ns::BIGINT END,
                    'reason': NULL
                },
                {
                    'place': 2,
                    'part': CASE WHEN is_split THEN 'recompute' END,
                    'device_ns': CASE WHEN is_split THEN coalesce(recompute_ns, 0)::BIGINT END,
                    'reason':
                    CASE
                        WHEN recompute_ns IS NULL
                            THEN 'recomputed FLOPs are not known: what there is lies in kernel_inefficiency'
                    END
                },
                {
                    'place': 3,
                    'part': CASE WHEN is_split THEN 'kernel_inefficiency' ELSE 'compute' END,
                    'device_ns':
                    CASE
                        WHEN is_split THEN compute_ns - model_ns::BIGINT - coalesce(recompute_ns, 0)::BIGINT
                        ELSE compute_ns
                    END,
                    'reason': CASE WHEN NOT is_split THEN whole_reason END
                },
                {'place': 4, 'part': 'bubble', 'device_ns': bubble_ns, 'reason': NULL},
                {'place': 5, 'part': 'wait', 'device_ns': wait_ns, 'reason': NULL},
                {'place': 6, 'part': 'transfer', 'device_ns': transfer_ns, 'reason': NULL},
                {
                    'place': 7,
                    'part': 'unsplit_comm',
                    'device_ns': unsplit_ns,
                    'reason':
                    CASE
                        WHEN unsplit_ns > 0
                            THEN 'waits cannot be told from transfers: members not recorded, or launched in another step'
                    END
                },
                {'place': 8, 'part': 'copies', 'device_ns': copies_ns, 'reason': NULL},
                {'place': 9, 'part': 'idle_input', 'device_ns': idle_input_ns, 'reason': NULL},
                {'place': 10, 'part': 'idle_sync', 'device_ns': idle_sync_ns, 'reason': NULL},
                {'place': 11, 'part': 'idle_host', 'device_ns': idle_host_ns, 'reason': NULL},
                {'place': 12, 'part': 'idle_launch', 'device_ns': idle_launch_ns, 'reason': NULL},
                {'place': 13, 'part': 'idle_turnaround', 'device_ns': idle_turnaround_ns, 'reason': NULL},
                {
                    'place': 14,
                    'part': 'unknown',
                    'device_ns': idle_other_ns,
                    'reason': CASE WHEN idle_other_ns > 0 THEN 'idle before work whose launch is not in the dump' END
                },
                {'place': 15, 'part': 'skew', 'device_ns': whole_ns - duration_ns, 'reason': NULL}
            ],
            recursive := TRUE
        )
    FROM judged
)

SELECT
    step,
    place,
    part,
    device_ns,
    CASE WHEN whole_ns > 0 THEN device_ns / whole_ns END AS share_ratio,
    reason
FROM listed
WHERE part IS NOT NULL
