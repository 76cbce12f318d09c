-- One row per instant of a host thread at which a change must know the phase of training: that phase.
--
-- dump_no BIGINT   Which of the rank's dumps.
-- thread  BIGINT   Thread.
-- own_ns  BIGINT   The instant, on the rank's own clock: a launch, or where a part of host time starts.
-- phase   VARCHAR  A phase of the run's [phases], else optimizer, input, backward or forward.
--
-- Scope: graph
-- How: a phase covers the ranges whose names say so: the run's own patterns first, then Optimizer.step#, waits for input,
-- and operators of autograd; the rest is forward. Nothing is computed where no change asks for a phase.
WITH patterns AS (
    SELECT
        row_number() OVER () - count(*) OVER () AS precedence,
        phase,
        pattern
    FROM phase_patterns
    UNION ALL
    SELECT
        1 AS precedence,
        'optimizer' AS phase,
        '^Optimizer\.step#' AS pattern
    UNION ALL
    SELECT
        2 AS precedence,
        'input' AS phase,
        pattern
    FROM input_ranges
    UNION ALL
    SELECT
        3 AS precedence,
        'backward' AS phase,
        '(^autograd::engine::|^torch::autograd::|Backward[0-9]*$)' AS pattern
),

names AS (
    SELECT
        named.name,
        min(patterns.precedence) AS precedence,
        min_by(patterns.phase, patterns.precedence) AS phase
    FROM (
        SELECT DISTINCT name
        FROM events
        WHERE category IN ('annotation', 'cpu_op') AND EXISTS (FROM changes WHERE phase IS NOT NULL)
    ) AS named
    JOIN patterns ON regexp_matches(named.name, patterns.pattern)
    GROUP BY named.name
),

ranges AS (
    SELECT
        events.dump_no,
        events.thread,
        names.precedence,
        names.phase,
        events.start_ns,
        max(events.start_ns + events.duration_ns) OVER (
            PARTITION BY events.dump_no, events.thread, names.phase
            ORDER BY events.start_ns, events.duration_ns ROWS UNBOUNDED PRECEDING
        ) AS end_ns
    FROM events
    JOIN names ON events.name = names.name
    WHERE events.category IN ('annotation', 'cpu_op') AND events.duration_ns > 0
),

instants AS (
    SELECT
        dump_no,
        launch_thread AS thread,
        launch_ns AS own_ns
    FROM _blockers
    WHERE launch_ns IS NOT NULL AND EXISTS (FROM changes WHERE phase IS NOT NULL)
    UNION
    SELECT
        _host_intervals.dump_no,
        _host_parts.thread,
        _host_parts.start_ns AS own_ns
    FROM _host_parts
    JOIN _host_intervals ON _host_parts.piece_no = _host_intervals.point_no
    WHERE _host_parts.step IS NULL AND EXISTS (FROM changes WHERE phase IS NOT NULL)
),

asked AS (
    SELECT
        instants.*,
        phases.phase
    FROM instants
    CROSS JOIN (SELECT DISTINCT phase FROM ranges) AS phases
),

covered AS (
    SELECT
        asked.dump_no,
        asked.thread,
        asked.own_ns,
        min_by(ranges.phase, ranges.precedence) AS phase
    FROM asked
    ASOF JOIN ranges
        ON asked.dump_no = ranges.dump_no
        AND asked.thread = ranges.thread
        AND asked.phase = ranges.phase
        AND asked.own_ns >= ranges.start_ns
    WHERE ranges.end_ns > asked.own_ns
    GROUP BY asked.dump_no, asked.thread, asked.own_ns
)

SELECT
    instants.dump_no,
    instants.thread,
    instants.own_ns,
    coalesce(covered.phase, 'forward') AS phase
FROM instants
LEFT JOIN covered
    ON instants.dump_no = covered.dump_no
    AND instants.thread IS NOT DISTINCT FROM covered.thread
    AND instants.own_ns = covered.own_ns
