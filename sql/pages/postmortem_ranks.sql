-- One row per rank of a step: what it did, what it had more of than the median rank, and whether it is drawn.
--
-- rank            INTEGER  Rank.
-- host            VARCHAR  Host; NULL unknown.
-- from_ns         BIGINT   Start of the step on the rank's own clock; of its own window where clocks are not aligned.
-- to_ns           BIGINT   End, likewise.
-- window_ns       BIGINT   The rank's own window: the four parts below, exactly.
-- compute_ns      BIGINT   Union of compute.
-- exposed_comm_ns BIGINT   Comm beside no compute.
-- exposed_copy_ns BIGINT   Copies beside neither.
-- idle_ns         BIGINT   The rest: the sum of the six below.
-- idle_input_ns   BIGINT   As in rank_steps.
-- idle_sync_ns    BIGINT   As in rank_steps.
-- idle_host_ns    BIGINT   As in rank_steps.
-- idle_launch_ns  BIGINT   As in rank_steps.
-- idle_turnaround_ns BIGINT  As in rank_steps.
-- idle_other_ns   BIGINT   As in rank_steps.
-- compute_ratio   DOUBLE   Of the window.
-- exposed_comm_ratio DOUBLE  Of the window.
-- exposed_copy_ratio DOUBLE  Of the window.
-- idle_ratio      DOUBLE   Of the window.
-- wait_ns         BIGINT   Time it waited for later ranks. NULL: clocks not aligned.
-- late_ns         BIGINT   How long others waited for it alone; 0: nobody did. NULL as above.
-- is_straggler    BOOLEAN  Whether it is the step's straggler.
-- cause           VARCHAR  Of a straggler, why; NULL for others.
-- path_ns         BIGINT   Time of the critical path on it.
-- excess          VARCHAR  Part of its window that exceeds the median rank's most: compute, exposed comm, exposed copies, or a
--     cause of idle; NULL where none does, or with fewer than three ranks.
-- excess_ns       BIGINT   By how much; NULL as above.
-- is_drawn        BOOLEAN  Whether the timeline shows it.
-- n_ranks         BIGINT   Ranks of the step.
-- n_path_ranks    BIGINT   Of them, on the path.
-- verdict         VARCHAR  ok, or the reasons to doubt the row.
--
-- How: drawn are all where there are no more than $max_drawn, else those with most of the path, then those closest to one on the
-- path. Parameters: $run, $step, $max_drawn, $max_rows.
WITH chosen AS (
    SELECT
        start_ns AS step_start_ns,
        end_ns AS step_end_ns
    FROM steps
    WHERE run = $run AND step = $step::BIGINT
),

on_path AS (
    SELECT
        rank AS path_rank,
        sum(duration_ns)::BIGINT AS path_ns
    FROM step_path_kinds
    WHERE run = $run AND step = $step::BIGINT
    GROUP BY rank
),

late AS (
    SELECT
        rank AS late_rank,
        late_ns,
        is_straggler,
        cause
    FROM step_stragglers
    WHERE run = $run AND step = $step::BIGINT
),

shifts AS (
    SELECT
        rank AS clock_rank,
        offset_ns,
        drift_ppb,
        reference_ns
    FROM rank_clocks
    WHERE run = $run
),

hosts AS (
    SELECT
        rank AS host_rank,
        host
    FROM ranks
    WHERE run = $run
),

told AS (
    SELECT
        windows.*,
        chosen.step_start_ns + coalesce(shifts.offset_ns, 0) AS shifted_start_ns,
        chosen.step_end_ns + coalesce(shifts.offset_ns, 0) AS shifted_end_ns,
        coalesce(shifts.drift_ppb, 0) / 1e9 AS drift,
        coalesce(shifts.reference_ns, 0) AS reference_ns,
        hosts.host,
        coalesce(on_path.path_ns, 0) AS path_ns,
        CASE WHEN chosen.step_start_ns IS NOT NULL THEN coalesce(late.late_ns, 0) END AS late_ns,
        coalesce(late.is_straggler, FALSE) AS is_straggler,
        late.cause
    FROM rank_steps AS windows
    CROSS JOIN chosen
    LEFT JOIN shifts ON windows.rank = shifts.clock_rank
    LEFT JOIN hosts ON windows.rank = hosts.host_rank
    LEFT JOIN on_path ON windows.rank = on_path.path_rank
    LEFT JOIN late ON windows.rank = late.late_rank
    WHERE windows.run = $run AND windows.step = $step::BIGINT
),

parts AS (
    UNPIVOT (
        SELECT
            rank,
            compute_ns AS "compute",
            exposed_comm_ns AS "exposed comm",
            exposed_copy_ns AS "exposed copies",
            idle_input_ns AS "input",
            idle_sync_ns AS "sync",
            idle_host_ns AS "host",
            idle_launch_ns AS "launch",
            idle_turnaround_ns AS "turnaround",
            idle_other_ns AS "other"
        FROM told
    )
    ON COLUMNS(* EXCLUDE (rank)) INTO NAME part VALUE part_ns
),

excesses AS (
    SELECT
        rank AS excess_rank,
        part,
        part_ns - (median(part_ns) OVER (PARTITION BY part))::BIGINT AS excess_ns,
        count(*) OVER (PARTITION BY part) AS n_beside
    FROM parts
),

largest AS (
    SELECT
        excess_rank,
        max(excess_ns) AS excess_ns,
        arg_max(part, (excess_ns, part)) AS excess
    FROM excesses
    WHERE excess_ns > 0 AND n_beside >= 3
    GROUP BY excess_rank
),

distances AS (
    SELECT
        told.rank AS distant_rank,
        min(abs(told.rank - on_path.path_rank)) AS distance
    FROM told
    CROSS JOIN on_path
    GROUP BY told.rank
),

placed AS (
    SELECT
        told.*,
        largest.excess,
        largest.excess_ns,
        row_number() OVER (ORDER BY told.path_ns DESC, distances.distance, told.late_ns DESC, told.rank) AS place,
        row_number() OVER (
            ORDER BY told.path_ns DESC, greatest(coalesce(told.late_ns, 0), coalesce(largest.excess_ns, 0)) DESC, told.rank
        ) AS row_place,
        count(*) OVER () AS n_ranks,
        count(*) FILTER (told.path_ns > 0) OVER () AS n_path_ranks
    FROM told
    LEFT JOIN largest ON told.rank = largest.excess_rank
    LEFT JOIN distances ON told.rank = distances.distant_rank
)

SELECT
    rank,
    host,
    coalesce(
        shifted_start_ns + round(drift * (shifted_start_ns - reference_ns))::BIGINT, start_ns
    ) AS from_ns,
    coalesce(shifted_end_ns + round(drift * (shifted_end_ns - reference_ns))::BIGINT, end_ns) AS to_ns,
    duration_ns AS window_ns,
    compute_ns,
    exposed_comm_ns,
    exposed_copy_ns,
    idle_ns,
    idle_input_ns,
    idle_sync_ns,
    idle_host_ns,
    idle_launch_ns,
    idle_turnaround_ns,
    idle_other_ns,
    compute_ns / nullif(duration_ns, 0) AS compute_ratio,
    exposed_comm_ns / nullif(duration_ns, 0) AS exposed_comm_ratio,
    exposed_copy_ns / nullif(duration_ns, 0) AS exposed_copy_ratio,
    idle_ns / nullif(duration_ns, 0) AS idle_ratio,
    wait_ns,
    late_ns,
    is_straggler,
    cause,
    path_ns,
    excess,
    excess_ns,
    place <= $max_drawn AS is_drawn,
    n_ranks,
    n_path_ranks,
    verdict
FROM placed
WHERE row_place <= $max_rows OR place <= $max_drawn
ORDER BY rank
