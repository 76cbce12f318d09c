-- One row per scenario, host point whose lead-up a change makes longer or shorter: by how much.
--
-- scenario  INTEGER  Scenario.
-- point_no  BIGINT   As in _host_points.
-- saved_ns  BIGINT   Time saved before it; negative where more is spent.
--
-- Scope: graph
WITH parts AS (
    SELECT
        parts.piece_no AS point_no,
        parts.kind,
        coalesce(named.name, '(no event)') AS name,
        phases.phase,
        sum(parts.end_ns - parts.start_ns)::BIGINT AS part_ns
    FROM _host_parts AS parts
    JOIN _host_intervals AS intervals ON parts.piece_no = intervals.point_no
    LEFT JOIN (SELECT row_number() OVER () - 1 AS event_no, name FROM events) AS named
        ON parts.event_no = named.event_no
    LEFT JOIN _element_phases AS phases
        ON intervals.dump_no = phases.dump_no
        AND parts.thread IS NOT DISTINCT FROM phases.thread
        AND parts.start_ns = phases.own_ns
    WHERE parts.step IS NULL
    GROUP BY parts.piece_no, parts.kind, named.name, phases.phase
),

classes AS (
    SELECT DISTINCT
        kind,
        name,
        phase
    FROM parts
),

factors AS (
    SELECT
        changes.scenario,
        classes.kind,
        classes.name,
        classes.phase,
        product(changes.factor) AS factor
    FROM changes
    JOIN context ON changes.rank IS NULL OR changes.rank = context.rank
    CROSS JOIN classes
    WHERE changes.what = 'scale'
        AND changes.group_id IS NULL
        AND (changes.kind IS NULL OR changes.kind = classes.kind)
        AND (changes.phase IS NULL OR changes.phase = classes.phase)
        AND (changes.pattern IS NULL OR regexp_matches(classes.name, changes.pattern))
    GROUP BY changes.scenario, classes.kind, classes.name, classes.phase
)

SELECT
    factors.scenario,
    parts.point_no,
    sum(parts.part_ns - round(parts.part_ns * factors.factor)::BIGINT)::BIGINT AS saved_ns
FROM parts
JOIN factors
    ON parts.kind = factors.kind
    AND parts.name = factors.name
    AND parts.phase IS NOT DISTINCT FROM factors.phase
GROUP BY factors.scenario, parts.point_no
