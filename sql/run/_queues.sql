-- One row per rank, queue: what keeps the order of a communicator's collectives on a rank, and what it says of its group.
--
-- rank              INTEGER    Rank.
-- queue             VARCHAR    The group's name, description and members, else the lane.
-- group_name        VARCHAR    Process group's name; NULL without metadata.
-- group_description VARCHAR    Its description.
-- members           INTEGER[]  Its members as metadata lists them, sorted; NULL where it does not, or cuts the list.
-- is_host           BOOLEAN    Whether its lane is host threads.
-- has_end           BOOLEAN    Whether all its dumps have their end.
-- has_seq           BOOLEAN    Whether every collective has its sequence number; sends and receives do not count.
--
-- Scope: clock
-- How: a dump that lists exactly one process group leaves no doubt which one its collectives belong to. Members are listed
-- as numbers, or as the text of such a list.
WITH configs AS (
    SELECT
        dumps.rank AS config_rank,
        unnest(
            json_transform(
                dumps.process_groups, '[{"pg_name": "VARCHAR", "pg_desc": "VARCHAR", "ranks": "JSON"}]'
            )
        ) AS config
    FROM dumps
    WHERE dumps.process_groups IS NOT NULL
        AND json_valid(dumps.process_groups)
        AND json_type(dumps.process_groups) = 'ARRAY'
),

listed AS (
    SELECT
        config_rank,
        config.pg_name AS config_name,
        any_value(config.pg_desc) AS config_description,
        any_value(config.ranks ->> '$') AS config_ranks
    FROM configs
    WHERE coalesce(config.pg_name, config.pg_desc, config.ranks::VARCHAR) IS NOT NULL
    GROUP BY config_rank, config.pg_name
),

only_one AS (
    SELECT
        config_rank AS only_rank,
        any_value(config_name) AS only_name,
        any_value(config_description) AS only_description
    FROM listed
    GROUP BY config_rank
    HAVING count(*) = 1
),

queues AS (
    SELECT
        rank,
        queue,
        any_value(group_name) AS group_name,
        any_value(group_description) AS group_description,
        any_value(group_ranks) AS group_ranks,
        bool_or(lane = 'host') AS is_host,
        bool_and(has_end) AS has_end,
        coalesce(bool_and(seq IS NOT NULL) FILTER (op NOT IN ('send', 'recv', 'send_recv')), FALSE) AS has_seq
    FROM rank_collectives
    GROUP BY rank, queue
),

lists AS (
    SELECT
        text AS list_text,
        list_sort(
            list_transform(regexp_extract_all(text, '\d+'), lambda member: member::INTEGER)
        ) AS list_members
    FROM (
        SELECT group_ranks AS text FROM queues
        UNION
        SELECT config_ranks AS text FROM listed
    )
    WHERE regexp_full_match(text, '\[\s*\d{1,9}(\s*,\s*\d{1,9})*\s*\]')
)

SELECT
    queues.rank,
    queues.queue,
    coalesce(queues.group_name, only_one.only_name) AS group_name,
    coalesce(queues.group_description, only_one.only_description) AS group_description,
    coalesce(own.list_members, theirs.list_members) AS members,
    queues.is_host,
    queues.has_end,
    queues.has_seq
FROM queues
LEFT JOIN only_one ON queues.rank = only_one.only_rank
LEFT JOIN listed
    ON queues.rank = listed.config_rank AND coalesce(queues.group_name, only_one.only_name) = listed.config_name
LEFT JOIN lists AS own ON queues.group_ranks = own.list_text
LEFT JOIN lists AS theirs ON listed.config_ranks = theirs.list_text
