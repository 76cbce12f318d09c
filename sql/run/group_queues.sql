-- One row per rank, queue: the process group that it is.
--
-- rank              INTEGER    Rank.
-- queue             VARCHAR    As in rank_collectives.
-- group_id          VARCHAR    The group's name; with @ and its lowest rank where groups share the name; inferred@RANK, with
--     the rank's queue behind it where the rank has several such groups.
-- group_description VARCHAR    Its description; NULL without metadata.
-- members           INTEGER[]  Its ranks, recorded or not, sorted.
-- source            VARCHAR    arguments: the metadata lists the members; met: those that use the name; inferred: from
--     ends that keep together.
-- match_by          VARCHAR    seq, end or step: how its collectives are matched across ranks.
-- pair_by           VARCHAR    end or step: how its sends are matched with receives, whose numbers count on their rank alone.
--
-- Scope: clock
-- How: without metadata a group is what can be reached over _met, named after its lowest rank; each rank may be in it
-- once, with the queue that has most in common, which is the one _met leaves for the lowest rank.
WITH RECURSIVE named AS (
    SELECT
        rank,
        queue,
        group_name,
        group_description,
        coalesce(members, list_sort(list(rank) OVER (PARTITION BY queue))) AS members,
        CASE WHEN members IS NOT NULL THEN 'arguments' ELSE 'met' END AS source,
        has_end,
        has_seq
    FROM _queues
    WHERE group_name IS NOT NULL
),

mutual AS (
    SELECT rank, queue, mate, mate_queue FROM _met
    UNION
    SELECT mate AS rank, mate_queue AS queue, rank AS mate, queue AS mate_queue FROM _met
),

reached (rank, queue, root, root_queue) USING KEY (rank, queue) AS (
    SELECT rank, queue, min(mate) AS root, arg_min(mate_queue, (mate, mate_queue)) AS root_queue
    FROM mutual
    GROUP BY rank, queue
    UNION
    SELECT mutual.rank, mutual.queue, min(reached.root), arg_min(reached.root_queue, (reached.root, reached.root_queue))
    FROM reached
    JOIN mutual ON reached.rank = mutual.mate AND reached.queue = mutual.mate_queue
    JOIN recurring.reached AS known ON mutual.rank = known.rank AND mutual.queue = known.queue
    WHERE (reached.root, reached.root_queue) < (known.root, known.root_queue)
    GROUP BY mutual.rank, mutual.queue
),

unnamed AS (
    SELECT
        reached.rank,
        reached.queue,
        'inferred@' || reached.root || CASE
            WHEN count(DISTINCT reached.root_queue) OVER (PARTITION BY reached.root) > 1 THEN ' ' || reached.root_queue
            ELSE ''
        END AS group_id,
        list_sort(list_distinct(list(reached.rank) OVER (PARTITION BY reached.root, reached.root_queue))) AS members,
        _queues.has_end,
        _queues.has_seq
    FROM reached
    JOIN _queues ON reached.rank = _queues.rank AND reached.queue = _queues.queue
),

together AS (
    SELECT
        rank,
        queue,
        group_name || CASE
            WHEN count(DISTINCT members) OVER (PARTITION BY group_name) > 1 THEN '@' || members[1]
            ELSE ''
        END AS group_id,
        group_description,
        members,
        source,
        has_end,
        has_seq
    FROM named
    UNION ALL
    SELECT
        rank,
        queue,
        group_id,
        NULL AS group_description,
        members,
        'inferred' AS source,
        has_end,
        has_seq
    FROM unnamed
)

SELECT
    rank,
    queue,
    group_id,
    group_description,
    members,
    source,
    CASE
        WHEN bool_and(has_seq) OVER (PARTITION BY group_id) THEN 'seq'
        WHEN bool_and(has_end) OVER (PARTITION BY group_id) THEN 'end'
        ELSE 'step'
    END AS match_by,
    CASE WHEN bool_and(has_end) OVER (PARTITION BY group_id) THEN 'end' ELSE 'step' END AS pair_by
FROM together
