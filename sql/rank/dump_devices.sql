-- One row per device that a dump uses, or one without a device: what the manifest says of it.
--
-- device       INTEGER   Device index; NULL where the dump has no device activity.
-- n_kernels    BIGINT    Kernels on the device.
-- n_activities BIGINT    Activities on the device, or on host lanes where there is no device.
-- process      BIGINT    Process of the step markers, else of most launches; NULL where the dump has neither.
-- first_ns     BIGINT    Start of the first activity or marker.
-- last_ns      BIGINT    End of the last activity or marker.
-- first_step   BIGINT    First step that has a marker; NULL without markers.
-- last_step    BIGINT    Last step that has a marker; NULL without markers.
-- n_steps      BIGINT    Steps that have a marker.
-- n_unusable   BIGINT    Step markers whose number is none, or beyond 10^15.
-- n_repeated   BIGINT    Steps that one thread marks more than once.
--
-- Scope: dump
WITH active AS (
    SELECT
        CASE WHEN category IN ('kernel', 'memcpy', 'memset') THEN device END AS device,
        count(*) FILTER (category = 'kernel') AS n_kernels,
        count(*) AS n_activities,
        min(start_ns) AS first_ns,
        max(start_ns + duration_ns) AS last_ns
    FROM events
    WHERE kind IS NOT NULL
    GROUP BY ALL
),

markers AS (
    SELECT
        min(start_ns) AS first_ns,
        max(start_ns + duration_ns) AS last_ns,
        min(step) FILTER (name <> '(window)') AS first_step,
        max(step) FILTER (name <> '(window)') AS last_step,
        count(DISTINCT step) FILTER (name <> '(window)') AS n_steps,
        mode(process ORDER BY process) FILTER (name <> '(window)') AS process
    FROM events
    WHERE category = 'step'
),

doubtful AS (
    SELECT
        coalesce(sum(n_marked) FILTER (step IS NULL), 0)::BIGINT AS n_unusable,
        count(DISTINCT step) FILTER (n_marked > 1) AS n_repeated
    FROM (SELECT step, thread, count(*) AS n_marked FROM _dump_markers GROUP BY step, thread)
),

launchers AS (
    SELECT mode(process ORDER BY process) AS process
    FROM events
    WHERE category IN ('runtime', 'driver', 'cpu_op')
)

SELECT
    active.device,
    coalesce(active.n_kernels, 0) AS n_kernels,
    coalesce(active.n_activities, 0) AS n_activities,
    coalesce(markers.process, launchers.process) AS process,
    coalesce(least(active.first_ns, markers.first_ns), active.first_ns, markers.first_ns) AS first_ns,
    coalesce(greatest(active.last_ns, markers.last_ns), active.last_ns, markers.last_ns) AS last_ns,
    markers.first_step,
    markers.last_step,
    markers.n_steps,
    doubtful.n_unusable,
    doubtful.n_repeated
FROM markers
CROSS JOIN doubtful
CROSS JOIN launchers
LEFT JOIN active ON TRUE
