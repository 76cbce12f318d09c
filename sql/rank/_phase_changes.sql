-- One row per instant at which the phase of training on a host thread may change: the phase from then on.
--
-- dump_no  BIGINT   Which of the rank's dumps.
-- thread   BIGINT   Thread.
-- start_ns BIGINT   The instant, on the rank's own clock.
-- phase    VARCHAR  A phase of the run's [phases], else optimizer, input or backward; NULL where no range says one.
--
-- Scope: rank
-- How: a phase covers the ranges whose names say so; where several do, the run's own patterns come first, in their order,
-- then Optimizer.step#, waits for input, and operators of autograd.
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
        '^Optimizer\.(step|zero_grad)#' AS pattern
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
    FROM (SELECT DISTINCT name FROM events WHERE category IN ('annotation', 'cpu_op')) AS named
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
        events.start_ns + events.duration_ns AS end_ns,
        max(events.start_ns + events.duration_ns) OVER (
            PARTITION BY events.dump_no, events.thread, names.precedence
            ORDER BY events.start_ns, events.duration_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM events
    JOIN names ON events.name = names.name
    WHERE events.category IN ('annotation', 'cpu_op') AND events.duration_ns > 0 AND events.thread IS NOT NULL
),

-- Nested ranges of one phase are one: what remains of each phase follows each other.
stretches AS (
    SELECT
        dump_no,
        thread,
        precedence,
        any_value(phase) AS phase,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns
    FROM (
        SELECT
            *,
            count(*) FILTER (coalesce(start_ns > before_ns, TRUE)) OVER (
                PARTITION BY dump_no, thread, precedence ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING
            ) AS stretch_no
        FROM ranges
    )
    GROUP BY dump_no, thread, precedence, stretch_no
),

instants AS (
    SELECT
        dump_no,
        thread,
        start_ns AS at_ns
    FROM stretches
    UNION
    SELECT
        dump_no,
        thread,
        end_ns AS at_ns
    FROM stretches
),

asked AS (
    SELECT
        instants.dump_no,
        instants.thread,
        instants.at_ns,
        known.precedence
    FROM instants
    JOIN (SELECT DISTINCT dump_no, thread, precedence FROM stretches) AS known
        ON instants.dump_no = known.dump_no AND instants.thread = known.thread
)

SELECT
    asked.dump_no,
    asked.thread,
    asked.at_ns AS start_ns,
    min_by(stretches.phase, stretches.precedence) FILTER (stretches.end_ns > asked.at_ns) AS phase
FROM asked
ASOF LEFT JOIN stretches
    ON asked.dump_no = stretches.dump_no
    AND asked.thread = stretches.thread
    AND asked.precedence = stretches.precedence
    AND asked.at_ns >= stretches.start_ns
GROUP BY asked.dump_no, asked.thread, asked.at_ns
