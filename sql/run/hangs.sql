-- One row per call that hangs: of a process group, or of a pair of ranks, the first at which its members differ or that did not end.
--
-- place             BIGINT     1 is the first cause; then other causes and then what follows from them, in order of time.
-- lane              VARCHAR    Process group and its members, or a pair of ranks within it.
-- group_id          VARCHAR    Name of the process group.
-- group_description VARCHAR    What the program calls the group; NULL where it does not.
-- is_p2p            BOOLEAN    Whether it is a transfer between two ranks, numbered among the pair's.
-- seq               BIGINT     Number of the call.
-- op                VARCHAR    What most members enqueued.
-- kind              VARCHAR    missing, op, size, dtype, order (of two collectives, or of two groups), no dump, not started (on some
--     members' devices) or unfinished (all came and agree).
-- ranks             INTEGER[]  Ranks that the others wait for; of a cause those that wait in no other call. Empty where unfinished.
-- n_ranks           BIGINT     Members.
-- n_waiting         BIGINT     Members that enqueued it and that it did not end on.
-- role              VARCHAR    first cause, cause, or consequence.
-- cause_lane        VARCHAR    Of a consequence, the call in which the rank it waits for waits itself.
-- first_ns          BIGINT     When the first member enqueued it, on that rank's own clock; of transfers likewise.
-- timeout_ns        BIGINT     After how long the library gives up.
-- frame             VARCHAR    Line of the program where the first of these ranks enqueued it; of one that did not, what it
--     enqueued last. NULL where the dumps have no lines.
-- verdict           VARCHAR    What happened, a sentence.
--
-- Scope: hang
-- Order: place
-- How: a call is a consequence where each rank that it waits for waits in another; one that all members enqueued, where a
-- member had enqueued another that hangs before. Causes come before consequences, dumps
-- that are not there after both, then earlier before later. Where every call is a consequence, groups wait for each
-- other in a circle: members took them in another order.
WITH lanes AS (
    SELECT
        lane,
        any_value(group_id) AS group_id,
        any_value(group_description) AS group_description,
        any_value(is_p2p) AS is_p2p,
        any_value(seq) AS seq,
        any_value(common_op) AS op,
        any_value(common_elements) AS common_elements,
        any_value(common_dtypes) AS common_dtypes,
        count(*) AS n_ranks,
        count(*) FILTER (situation IN ('enqueued', 'started') OR situation LIKE 'other %') AS n_waiting,
        coalesce(list(rank ORDER BY rank) FILTER (is_culprit), []) AS blamed,
        coalesce(list(rank ORDER BY rank) FILTER (is_culprit AND (stuck_lane IS NULL OR situation LIKE 'other %')), []) AS free,
        arg_min(situation, (situation NOT LIKE 'other %', rank)) FILTER (is_culprit) AS situation,
        arg_min(op, rank) FILTER (is_culprit AND op IS DISTINCT FROM common_op) AS odd_op,
        arg_min(elements, rank) FILTER (situation = 'other size') AS odd_elements,
        arg_min(dtypes, rank) FILTER (situation = 'other dtype') AS odd_dtypes,
        arg_min(frame, (stuck_lane IS NOT NULL AND situation NOT LIKE 'other %', rank)) FILTER (is_culprit) AS frame,
        arg_min(stuck_lane, (NOT is_culprit, rank)) FILTER (stuck_lane IS NOT NULL) AS stuck_lane,
        min(created_ns) AS first_ns,
        min(timeout_ns) AS timeout_ns
    FROM hang_ranks
    GROUP BY lane
),

judged AS (
    SELECT
        *,
        CASE
            WHEN situation LIKE 'other %' THEN substr(situation, 7)
            WHEN situation = 'never enqueued' THEN 'missing'
            WHEN situation = 'no dump' THEN 'no dump'
            WHEN situation = 'enqueued' THEN 'not started'
            ELSE 'unfinished'
        END AS kind,
        CASE WHEN len(blamed) > 0 THEN len(free) = 0 ELSE stuck_lane IS NOT NULL END AS follows
    FROM lanes
),

circled AS (
    SELECT
        *,
        row_number() OVER (ORDER BY follows, kind = 'no dump', first_ns NULLS LAST, lane) AS place,
        bool_and(follows) OVER () AS is_circle
    FROM judged
),

told AS (
    SELECT
        * REPLACE (CASE WHEN is_circle AND place = 1 THEN 'order' ELSE kind END AS kind),
        follows AND NOT (is_circle AND place = 1) AS is_consequence,
        CASE WHEN len(free) > 0 THEN free ELSE blamed END AS ranks
    FROM circled
),

worded AS (
    SELECT
        *,
        CASE WHEN len(ranks) = 1 THEN 'rank ' ELSE 'ranks ' END || array_to_string(ranks[:8], ', ')
        || CASE WHEN len(ranks) > 8 THEN ' and ' || (len(ranks) - 8) || ' more' ELSE '' END AS who,
        CASE WHEN is_p2p THEN op || ', number ' || seq ELSE op || ', collective ' || seq END
        || ' of group ' || group_id || coalesce(' (' || group_description || ')', '') AS what
    FROM told
)

SELECT
    place,
    lane,
    group_id,
    group_description,
    is_p2p,
    seq,
    op,
    kind,
    ranks,
    n_ranks,
    n_waiting,
    CASE WHEN is_consequence THEN 'consequence' WHEN place = 1 THEN 'first cause' ELSE 'cause' END AS role,
    CASE WHEN follows THEN stuck_lane END AS cause_lane,
    first_ns,
    timeout_ns,
    frame,
    CASE
        WHEN is_circle AND place = 1 AND situation IS DISTINCT FROM 'never enqueued'
            THEN 'members took ' || what || ', and group ' || stuck_lane || ' in another order'
        WHEN is_circle AND place = 1
            THEN who || ' never enqueued ' || what || ' but waits in group ' || stuck_lane || ', which waits for this one: another order'
        WHEN kind = 'missing' THEN who || ' never enqueued ' || what
        WHEN kind = 'no dump' THEN who || ' left no dump; the others wait in ' || what
        WHEN kind = 'op' THEN who || ' enqueued ' || odd_op || ' where the others enqueued ' || what
        WHEN kind = 'order' THEN who || ' enqueued ' || odd_op || ' before, not after, ' || what
        WHEN kind = 'size' THEN who || ' enqueued ' || odd_elements || ' elements, the others ' || common_elements || ', in ' || what
        WHEN kind = 'dtype' THEN who || ' enqueued ' || odd_dtypes || ', the others ' || common_dtypes || ', in ' || what
        WHEN kind = 'not started' THEN who || ' enqueued ' || what || ', and the device never started it'
        ELSE 'every member enqueued ' || what || ', and it did not end on ' || n_waiting || ' of ' || n_ranks
    END
    || CASE WHEN is_consequence
            THEN CASE WHEN len(ranks) = 0 THEN ', behind group ' ELSE ', for it waits in group ' END || stuck_lane ELSE '' END AS verdict
FROM worded
