-- One row per kernel name and kind, the $n_kernels that alone explain most time, and one row for all the others.
--
-- place            BIGINT   Rank in the order of exposed_ns, from 1; the row of the others comes last.
-- name             VARCHAR  Name of the kernel; NULL in the row of the others.
-- kind             VARCHAR  compute, comm or copy; NULL in the row of the others.
-- comm_evidence    VARCHAR  Why it counts as comm, comma-separated; NULL for other kinds.
-- n_names          BIGINT   Names in the row: 1, or how many the others are.
-- n_calls          BIGINT   Calls over all ranks and steps.
-- total_ns         BIGINT   Sum of the calls' durations; overlapping calls count each.
-- exposed_ns       BIGINT   Part of the windows that only this kernel explains.
-- share_ratio      DOUBLE   exposed_ns as a share of all windows; NULL without windows.
-- mean_total_ns    BIGINT   total_ns of a mean window; NULL without windows.
-- mean_exposed_ns  BIGINT   exposed_ns of a mean window; NULL without windows.
--
-- How: windows are rank_steps, or rank_captures where the run has no steps. In a run with steps, work that lies in no
-- step is left out above and below the fraction bar alike. Parameters: $run, $n_kernels.
WITH step_windows AS (
    SELECT duration_ns
    FROM rank_steps
    WHERE run = $run
),

windows AS (
    SELECT duration_ns
    FROM step_windows
    UNION ALL
    SELECT duration_ns
    FROM rank_captures
    WHERE run = $run AND NOT EXISTS (FROM step_windows)
),

window_sums AS (
    SELECT
        nullif(count(duration_ns), 0) AS n_windows,
        nullif(sum(duration_ns), 0) AS duration_ns
    FROM windows
),

names AS (
    SELECT
        name,
        kind,
        string_agg(DISTINCT comm_evidence, ', ' ORDER BY comm_evidence) AS comm_evidence,
        sum(n_calls) AS n_calls,
        sum(total_ns) AS total_ns,
        sum(exposed_ns) AS exposed_ns
    FROM kernels
    WHERE run = $run AND (step IS NOT NULL OR NOT EXISTS (FROM step_windows))
    GROUP BY name, kind
),

placed AS (
    SELECT
        *,
        row_number() OVER (ORDER BY exposed_ns DESC NULLS LAST, total_ns DESC NULLS LAST, kind, name) AS place
    FROM names
),

shown AS (
    SELECT
        place,
        name,
        kind,
        comm_evidence,
        1 AS n_names,
        n_calls,
        total_ns,
        exposed_ns
    FROM placed
    WHERE place <= $n_kernels
    UNION ALL
    SELECT
        min(place) AS place,
        NULL AS name,
        NULL AS kind,
        NULL AS comm_evidence,
        count(*) AS n_names,
        sum(n_calls) AS n_calls,
        sum(total_ns) AS total_ns,
        sum(exposed_ns) AS exposed_ns
    FROM placed
    WHERE place > $n_kernels
    HAVING count(*) > 0
)

SELECT
    shown.place,
    shown.name,
    shown.kind,
    shown.comm_evidence,
    shown.n_names,
    shown.n_calls::BIGINT AS n_calls,
    shown.total_ns::BIGINT AS total_ns,
    shown.exposed_ns::BIGINT AS exposed_ns,
    shown.exposed_ns / window_sums.duration_ns AS share_ratio,
    round(shown.total_ns / window_sums.n_windows)::BIGINT AS mean_total_ns,
    round(shown.exposed_ns / window_sums.n_windows)::BIGINT AS mean_exposed_ns
FROM shown
CROSS JOIN window_sums
ORDER BY shown.place
