-- One row per rank, step, name of a kernel of which calls ran beside comm: how long those took, and the same alone.
--
-- rank            INTEGER  Rank.
-- step            BIGINT   Step that launched the calls; NULL where their launch is in no step or not in the dump.
-- name            VARCHAR  Kernel; on the host an operator.
-- n_beside        BIGINT   Calls during which comm ran on the same device.
-- beside_ns       BIGINT   Sum of their durations.
-- n_alone         BIGINT   Calls during which none ran.
-- alone_ns        BIGINT   Sum of their durations.
-- n_compared      BIGINT   Of the calls beside comm, those whose like ran alone somewhere on the rank.
-- contention_ns   BIGINT   By how much these took longer than the mean of their like alone, or, negative, less; NULL where none
--     is compared.
--
-- Scope: rank
-- Order: step, name
-- How: alike are calls of one name, grid and block. Where sizes differ within those, calls beside comm may be other work
-- than those alone, so a contention says little by itself: two runs of one job say more by its change.
WITH comms AS (
    SELECT
        start_ns AS comm_start_ns,
        max(end_ns) AS comm_end_ns
    FROM (
        SELECT
            start_ns,
            max(end_ns) OVER (ROWS UNBOUNDED PRECEDING) AS end_ns
        FROM _activities
        WHERE precedence = 1
    )
    GROUP BY start_ns
),

shapes AS (
    SELECT
        row_number() OVER () - 1 AS activity_no,
        name,
        grid,
        block
    FROM events
    WHERE kind IS NOT NULL
),

-- Of all comm that starts before a call ends, one reaches furthest: comm runs beside the call where that passes its start.
calls AS (
    SELECT
        computes.activity_no,
        computes.step,
        computes.end_ns - computes.start_ns AS duration_ns,
        coalesce(comms.comm_end_ns > computes.start_ns, FALSE) AS is_beside
    FROM (FROM _activities WHERE precedence = 0 AND end_ns > start_ns) AS computes
    ASOF LEFT JOIN comms ON computes.end_ns > comms.comm_start_ns
),

sums AS (
    SELECT
        calls.step,
        shapes.name,
        shapes.grid,
        shapes.block,
        count(*) FILTER (calls.is_beside) AS n_beside,
        coalesce(sum(calls.duration_ns) FILTER (calls.is_beside), 0) AS beside_ns,
        count(*) FILTER (NOT calls.is_beside) AS n_alone,
        coalesce(sum(calls.duration_ns) FILTER (NOT calls.is_beside), 0) AS alone_ns
    FROM calls
    JOIN shapes ON calls.activity_no = shapes.activity_no
    GROUP BY ALL
),

compared AS (
    SELECT
        *,
        sum(n_alone) OVER alike AS n_like,
        sum(alone_ns) OVER alike AS like_ns
    FROM sums
    WINDOW alike AS (PARTITION BY name, grid, block)
)

SELECT
    context.rank,
    compared.step,
    compared.name,
    sum(compared.n_beside)::BIGINT AS n_beside,
    sum(compared.beside_ns)::BIGINT AS beside_ns,
    sum(compared.n_alone)::BIGINT AS n_alone,
    sum(compared.alone_ns)::BIGINT AS alone_ns,
    coalesce(sum(compared.n_beside) FILTER (compared.n_like > 0), 0)::BIGINT AS n_compared,
    sum(
        compared.beside_ns - (compared.n_beside * compared.like_ns + compared.n_like // 2) // nullif(compared.n_like, 0)
    ) FILTER (compared.n_like > 0 AND compared.n_beside > 0)::BIGINT AS contention_ns
FROM compared
CROSS JOIN context
GROUP BY context.rank, compared.step, compared.name
HAVING sum(compared.n_beside) > 0
