-- One row per run, step, part that the step had: what it took, in many ways of taking a step apart.
--
-- run       VARCHAR  Run.
-- step      BIGINT   Step.
-- dimension VARCHAR  step: the step itself. time: a rank's window by what its device did; these add up to the window. phase:
--     its busy time by who launched it. path: the critical path by kind; these add up to the step. kernel: what each name
--     alone explains. collective: what each operation alone explains; wait and transfer: its time. contention: what each
--     kernel took longer beside comm than alone. rank: a rank's window without its waits for others.
-- item      VARCHAR  Which part: a name, kind, phase, operation or rank.
-- kind      VARCHAR  Of a kernel, compute, comm or copy; else NULL.
-- value_ns  BIGINT   Time of the step; of the mean rank that recorded it, except for the step, its path and a rank.
-- n_calls   BIGINT   Of a kernel, its calls on all ranks; else NULL.
--
-- Scope: fleet
-- How: a part that a step does not have is no row: it took 0. Where clocks are not aligned the step is the mean window.
WITH windows AS (
    SELECT
        run,
        step,
        count(*) AS n_ranks,
        sum(duration_ns) AS duration_ns,
        sum(compute_ns) AS compute_ns,
        sum(exposed_comm_ns) AS exposed_comm_ns,
        sum(exposed_copy_ns) AS exposed_copy_ns,
        sum(idle_input_ns) AS idle_input_ns,
        sum(idle_sync_ns) AS idle_sync_ns,
        sum(idle_host_ns) AS idle_host_ns,
        sum(idle_launch_ns) AS idle_launch_ns,
        sum(idle_turnaround_ns) AS idle_turnaround_ns,
        sum(idle_other_ns) AS idle_other_ns
    FROM rank_steps
    GROUP BY run, step
),

members AS (
    SELECT
        run,
        group_id,
        any_value(n_ranks) AS n_ranks,
        any_value(description) AS description
    FROM groups
    GROUP BY run, group_id
),

exchanges AS (
    SELECT
        collectives.run,
        collectives.step,
        collectives.op || coalesce(' of ' || members.n_ranks || ' ranks', '')
        || coalesce(' in ' || nullif(members.description, ''), '') AS item,
        sum(collectives.exposed_ns) AS exposed_ns,
        sum(collectives.wait_ns) AS wait_ns,
        sum(collectives.transfer_ns) AS transfer_ns
    FROM collectives
    LEFT JOIN members ON collectives.run = members.run AND collectives.group_id = members.group_id
    WHERE collectives.step IS NOT NULL
    GROUP BY ALL
),

sums AS (
    SELECT
        run,
        step,
        'phase' AS dimension,
        phase AS item,
        NULL::VARCHAR AS kind,
        sum(gpu_ns) AS value_ns,
        NULL::BIGINT AS n_calls
    FROM phases
    GROUP BY run, step, phase
    UNION ALL
    SELECT
        run,
        step,
        'kernel' AS dimension,
        name AS item,
        kind,
        sum(exposed_ns) AS value_ns,
        sum(n_calls)::BIGINT AS n_calls
    FROM kernels
    WHERE step IS NOT NULL
    GROUP BY run, step, name, kind
    UNION ALL
    SELECT
        run,
        step,
        'contention' AS dimension,
        name AS item,
        NULL AS kind,
        sum(contention_ns) AS value_ns,
        NULL AS n_calls
    FROM kernel_contention
    WHERE step IS NOT NULL AND contention_ns IS NOT NULL
    GROUP BY run, step, name
    UNION ALL
    SELECT
        run,
        step,
        unnest(['collective', 'wait', 'transfer']) AS dimension,
        item,
        NULL AS kind,
        unnest([exposed_ns, wait_ns, transfer_ns]) AS value_ns,
        NULL AS n_calls
    FROM exchanges
    UNION ALL
    SELECT
        run,
        step,
        'time' AS dimension,
        unnest(
            [
                'compute', 'exposed comm', 'exposed copies', 'idle: input', 'idle: sync', 'idle: host', 'idle: launch',
                'idle: turnaround', 'idle: other'
            ]
        ) AS item,
        NULL AS kind,
        unnest(
            [
                compute_ns, exposed_comm_ns, exposed_copy_ns, idle_input_ns, idle_sync_ns, idle_host_ns, idle_launch_ns,
                idle_turnaround_ns, idle_other_ns
            ]
        ) AS value_ns,
        NULL AS n_calls
    FROM windows
)

SELECT
    windows.run,
    windows.step,
    'step' AS dimension,
    'step' AS item,
    NULL::VARCHAR AS kind,
    coalesce(steps.duration_ns, (windows.duration_ns + windows.n_ranks // 2) // windows.n_ranks)::BIGINT AS value_ns,
    NULL::BIGINT AS n_calls
FROM windows
LEFT JOIN steps ON windows.run = steps.run AND windows.step = steps.step
UNION ALL
SELECT
    sums.run,
    sums.step,
    sums.dimension,
    sums.item,
    sums.kind,
    ((sums.value_ns + windows.n_ranks // 2) // windows.n_ranks)::BIGINT AS value_ns,
    sums.n_calls
FROM sums
JOIN windows ON sums.run = windows.run AND sums.step = windows.step
WHERE sums.value_ns IS NOT NULL
UNION ALL
SELECT
    run,
    step,
    'path' AS dimension,
    kind AS item,
    NULL AS kind,
    sum(duration_ns)::BIGINT AS value_ns,
    NULL AS n_calls
FROM step_path_kinds
GROUP BY run, step, step_path_kinds.kind
UNION ALL
SELECT
    run,
    step,
    'rank' AS dimension,
    rank::VARCHAR AS item,
    NULL AS kind,
    duration_ns - coalesce(wait_ns, 0) AS value_ns,
    NULL AS n_calls
FROM rank_steps
