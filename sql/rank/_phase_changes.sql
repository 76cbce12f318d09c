-- One row per instant at which the phase of training on a host thread may change: the phase from then on.
--
-- dump_no  BIGINT   Which of the rank's dumps.
-- thread   BIGINT   Thread.
-- start_ns BIGINT   The instant, on the rank's own clock.
-- phase    VARCHAR  A phase of the run's [phases], else optimizer, input or backward; NULL where no range says one.
--
-- Scope: rank
-- How: a phase covers the ranges whose names say so; where several do, the run's own patterns come first, in their order,
-- then Optimizer.step#, waits for input, operators of autograd, and the names of a timers log. Lanes of one thread and precedence are laid behind each
-- other, 2^64 ns apart, so that one running maximum streams through all of them: by partition it takes 15 times as long.
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
    UNION ALL
    SELECT
        CASE phase WHEN 'optimizer' THEN 4 WHEN 'backward' THEN 5 ELSE 6 END AS precedence,
        phase,
        pattern
    FROM timer_ranges
    WHERE phase <> 'none' AND EXISTS (FROM dump_facts WHERE format = 'timers')
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
        events.start_ns + events.duration_ns AS end_ns
    FROM events
    JOIN names ON events.name = names.name
    WHERE events.category IN ('annotation', 'cpu_op') AND events.duration_ns > 0 AND events.thread IS NOT NULL
),

lanes AS (
    SELECT
        *,
        (row_number() OVER (ORDER BY dump_no, thread, precedence))::HUGEINT * pow(2, 64)::HUGEINT AS lane_ns
    FROM (SELECT DISTINCT dump_no, thread, precedence FROM ranges)
),

laid AS (
    SELECT
        ranges.*,
        lanes.lane_ns,
        lanes.lane_ns + ranges.start_ns AS from_ns,
        lanes.lane_ns + ranges.end_ns AS to_ns
    FROM ranges
    JOIN lanes
        ON ranges.dump_no = lanes.dump_no AND ranges.thread = lanes.thread AND ranges.precedence = lanes.precedence
    ORDER BY from_ns, to_ns
),

reached AS (
    SELECT
        *,
        CASE
            WHEN lag(from_ns) OVER () > from_ns THEN error('ranges are not in order of start')
            ELSE lag(reach_ns) OVER ()
        END AS before_ns
    FROM (
        SELECT
            *,
            max(to_ns) OVER (ROWS UNBOUNDED PRECEDING) AS reach_ns
        FROM laid
    )
),

-- Nested ranges of one phase are one: what remains of each phase follows each other.
stretches AS (
    SELECT
        dump_no,
        thread,
        precedence,
        phase,
        start_ns,
        (coalesce(lead(before_ns) OVER (ORDER BY from_ns), (SELECT max(to_ns) FROM laid)) - lane_ns)::BIGINT AS end_ns
    FROM reached
    WHERE before_ns IS NULL OR from_ns > before_ns
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
