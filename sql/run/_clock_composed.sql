-- One row per clock that collectives tie to others: how it runs against the lowest that it is tied to.
--
-- unit      INTEGER  Lowest rank of the clock.
-- clock_no  INTEGER  Lowest rank it is tied to, over any number of collectives.
-- offset_ns DOUBLE   aligned x = x - (offset + drift * x), x from the reference.
-- drift     DOUBLE   Its drift.
--
-- Scope: clock
-- How: breadth first over clocks and the fits between them, from the lowest of each connected part; of several fits the one
-- that is known best.
WITH RECURSIVE edges AS (
    SELECT
        base AS known,
        unit,
        shift_ns,
        1 - slope AS rate,
        n_anchors / (residual_ns * residual_ns + 1) AS weight
    FROM _unit_fits
    UNION ALL
    SELECT
        unit AS known,
        base AS unit,
        -shift_ns / (1 - slope) AS shift_ns,
        1 / (1 - slope) AS rate,
        n_anchors / (residual_ns * residual_ns + 1) AS weight
    FROM _unit_fits
),

tied (unit, clock_no) USING KEY (unit) AS (
    SELECT DISTINCT
        unit,
        unit AS clock_no
    FROM edges
    UNION
    SELECT
        edges.unit,
        min(tied.clock_no)
    FROM tied
    JOIN edges ON tied.unit = edges.known
    JOIN recurring.tied AS before ON edges.unit = before.unit
    WHERE tied.clock_no < before.clock_no
    GROUP BY edges.unit
),

clocks (unit, clock_no, offset_ns, drift) USING KEY (unit) AS (
    SELECT
        unit,
        clock_no,
        0::DOUBLE AS offset_ns,
        0::DOUBLE AS drift
    FROM tied
    WHERE unit = clock_no
    UNION
    SELECT
        unit,
        clock_no,
        offset_ns,
        drift
    FROM (
        SELECT
            edges.unit,
            clocks.clock_no,
            clocks.offset_ns + (1 - clocks.drift) * edges.shift_ns AS offset_ns,
            1 - (1 - clocks.drift) * edges.rate AS drift,
            row_number() OVER (PARTITION BY edges.unit ORDER BY edges.weight DESC, clocks.unit) AS place
        FROM clocks
        JOIN edges ON clocks.unit = edges.known
        WHERE edges.unit NOT IN (SELECT done.unit FROM recurring.clocks AS done)
    )
    WHERE place = 1
)

SELECT
    unit,
    clock_no,
    offset_ns,
    drift
FROM clocks
