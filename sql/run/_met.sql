-- One row per two ranks' queues without metadata that keep together: they belong to one group.
--
-- rank  INTEGER  One rank.
-- queue VARCHAR  Its queue.
-- mate  INTEGER  Another rank; itself too, so that no queue is left out.
-- mate_queue VARCHAR  The other rank's queue.
--
-- Scope: clock
-- How: collectives of the same shape and place from the end are compared. Members leave together, so whatever the
-- clocks' offset, the difference of their ends stays; its median deviation says how well. Where every rank has one such
-- queue the ends need only stay within what a synchronising collective can, and on host threads the same order of
-- shapes is all there is to go by.
WITH unnamed AS (
    SELECT
        _queues.*,
        count(*) OVER (PARTITION BY rank) AS n_queues
    FROM _queues
    WHERE group_name IS NULL
),

rows AS (
    SELECT
        unnamed.rank,
        unnamed.queue,
        unnamed.is_host,
        unnamed.n_queues,
        collectives.capture_last_step,
        collectives.shape,
        collectives.from_end,
        collectives.end_ns
    FROM unnamed
    JOIN rank_collectives AS collectives
        ON unnamed.rank = collectives.rank AND unnamed.queue = collectives.queue AND collectives.is_anchor
),

matched AS (
    SELECT
        a.rank,
        a.queue,
        b.rank AS mate,
        b.queue AS mate_queue,
        a.is_host,
        greatest(a.n_queues, b.n_queues) AS n_queues,
        (a.end_ns - b.end_ns)::DOUBLE AS apart_ns,
        (a.end_ns - b.end_ns)::DOUBLE - lag((a.end_ns - b.end_ns)::DOUBLE) OVER (
            PARTITION BY a.rank, a.queue, b.rank, b.queue ORDER BY a.end_ns, a.shape, a.from_end
        ) AS change_ns
    FROM rows AS a
    JOIN rows AS b
        ON a.rank < b.rank
        AND a.is_host = b.is_host
        AND a.capture_last_step = b.capture_last_step
        AND a.shape = b.shape
        AND a.from_end = b.from_end
),

pairs AS (
    SELECT
        rank,
        queue,
        mate,
        mate_queue,
        bool_or(is_host) AS is_host,
        max(n_queues) AS n_queues,
        -- From one to the next, a drift is the same step each time, so the deviation of the steps leaves it out; of two
        -- independent ends it is sqrt(2) times one's.
        CASE WHEN count(*) > 3 THEN mad(change_ns) / sqrt(2) ELSE mad(apart_ns) END AS spread_ns
    FROM matched
    GROUP BY rank, queue, mate, mate_queue
)

SELECT
    rank,
    queue,
    mate,
    mate_queue
FROM pairs
CROSS JOIN params
WHERE is_host
    OR (n_queues = 1 AND spread_ns <= loose_end_ns)
    OR spread_ns <= same_group_ns
UNION ALL
SELECT
    rank,
    queue,
    rank AS mate,
    queue AS mate_queue
FROM unnamed
